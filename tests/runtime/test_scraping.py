"""Metrics over TLS: who reads them by the word of a real API server, and what is not told to whom."""

from __future__ import annotations

import argparse
import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from controllers.api import names
from controllers.api.resources import NAMESPACE, Resource
from controllers.runtime import scraping, selfsigned
from controllers.runtime.errors import AlreadyExists, ConfigurationError, Terminal
from controllers.runtime.handshakes import Rate
from controllers.runtime.health import Health, add_ports
from controllers.runtime.readers import Access, Readers
from controllers.runtime.scraping import Scraping, open_ports
from tests.kit.waiting import PATIENCE, until
from tests.runtime.metrics_port import open_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from controllers.runtime.client import Client
    from reliability.kit.apiserver import Server
    from reliability.kit.fault_proxy import FaultProxy

pytestmark = pytest.mark.cluster
ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
SERIES = "process_resident_memory_bytes"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often somebody may come is a matter of test_handshakes.py: here all come from one address."""
    monkeypatch.setattr(scraping, "EACH", Rate(burst=1000, per_second=1000))
    monkeypatch.setattr(scraping, "TOGETHER", scraping.EACH)


async def made(
    admin: Client, resource: Resource, name: str, namespace: str | None = names.NAMESPACE, **body: Any
) -> None:
    try:
        await admin.create(resource, {"metadata": {"name": name}, **body}, namespace, manager="test")
    except AlreadyExists:
        return


async def account(admin: Client, name: str, *, reads: str | None = None) -> str:
    """A token of a ServiceAccount that may read that kind's metrics, or none."""
    await made(admin, NAMESPACE, names.NAMESPACE, None)
    await made(admin, ACCOUNT, name)
    if reads is not None:
        rule = {"apiGroups": ["apps"], "resources": [f"{reads}/prometheus-metrics"], "verbs": ["get"]}
        await made(admin, ROLE, name, rules=[rule])
        reference = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": names.NAMESPACE}
        await made(admin, BINDING, name, roleRef=reference, subjects=[subject])
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await admin.request("POST", f"{ACCOUNT.path(names.NAMESPACE, name)}/token", body=body)
    return str(orjson.loads(answer)["status"]["token"])


@asynccontextmanager
async def serving(program: str, kubeconfig: Path) -> AsyncIterator[Scraping]:
    parser = argparse.ArgumentParser()
    add_ports(parser)
    args = parser.parse_args(["--metrics-port=0"], argparse.Namespace(kubeconfig=kubeconfig))
    _, made = await open_ports(program, args)
    assert made is not None
    task = asyncio.create_task(made.run())
    try:
        await until(lambda: made.port != 0 or task.done(), "it to serve")
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await made.close()


async def asked(port: int, authorization: str | None, path: str = "/metrics") -> tuple[int, str, str]:
    """Status, text and challenge."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": authorization} if authorization is not None else {}
    connector = aiohttp.TCPConnector(ssl=tls)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"https://127.0.0.1:{port}{path}", headers=headers) as answer,
    ):
        return answer.status, await answer.text(), answer.headers.get("WWW-Authenticate", "")


@pytest.mark.parametrize(
    ("program", "kind", "other"),
    [(names.POOL_CONTROLLER, "deployments", "daemonsets"), (names.MANAGER_PLUGIN, "daemonsets", "deployments")],
)
async def test_who_has_the_right_reads_and_nobody_else(
    server: Server, admin: Client, tmp_path: Path, program: str, kind: str, other: str
) -> None:
    # The program's own credentials are an administrator's: they must not count for who asks.
    async with serving(program, server.kubeconfig(tmp_path / "own")) as port:
        code, text, _ = await asked(port.port, f"Bearer {await account(admin, f'reads-{kind}', reads=kind)}")
        assert (code, SERIES in text) == (200, True)
        for nobody in (None, "", "Bearer ", "Bearer forged", "Bearer ü", "Basic cHJvbTpwcm9t"):
            code, text, challenge = await asked(port.port, nobody)
            assert (code, challenge, SERIES in text) == (401, "Bearer", False), nobody
        for name, reads in (("stranger", None), (f"reads-{other}", other)):
            code, text, _ = await asked(port.port, f"Bearer {await account(admin, name, reads=reads)}")
            wanted = f"get {kind}/prometheus-metrics {program} in namespace {names.NAMESPACE}"
            assert (code, wanted in text, SERIES in text) == (403, True, False)
        assert (await asked(port.port, f"Bearer {server.token}"))[0] == 200, "an administrator's own token"
        assert (await asked(port.port, f"Bearer {server.token}", "/healthz"))[0] == 404


async def test_metrics_are_read_while_the_api_server_is_away(
    server: Server, admin: Client, proxy: FaultProxy, through_proxy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controllers.runtime.readers.ALLOWED_FOR", 0.0)  # each scrape asks anew
    token = await account(admin, "reads-deployments", reads="deployments")
    async with serving(names.WEBHOOK, through_proxy) as port:
        assert (await asked(port.port, f"Bearer {token}"))[0] == 200
        await proxy.down()
        code, text, _ = await asked(port.port, f"Bearer {token}")
        assert (code, SERIES in text) == (200, True)
        code, text, _ = await asked(port.port, f"Bearer {server.token}")
        assert (code, "come again" in text) == (503, True)


@pytest.mark.parametrize(
    ("host", "with_metrics", "code"),
    [("127.0.0.1", True, 200), ("::1", True, 200), ("127.0.0.1", False, 404), ("0.0.0.0", True, 404)],  # noqa: S104
)
async def test_without_a_token_they_are_read_on_loopback_alone(host: str, with_metrics: bool, code: int) -> None:
    health = Health(host, 0, with_metrics=with_metrics)
    try:
        await health.start()
    except ConfigurationError:
        pytest.skip("this machine has no IPv6")
    try:
        at = "[::1]" if ":" in host else "127.0.0.1"
        async with aiohttp.ClientSession() as session:
            for path, wanted in (("/healthz", 200), ("/metrics", code)):
                async with session.get(f"http://{at}:{health.port}{path}") as answer:
                    assert answer.status == wanted, path
    finally:
        await health.stop()


async def test_a_certificate_that_cannot_be_made_is_tried_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    async def fails_once(name: str) -> str:
        tries.append(name)
        if len(tries) == 1:
            raise Terminal("no memory")
        return selfsigned.make(name, 1.8e9)

    monkeypatch.setattr(selfsigned, "made_elsewhere", fails_once)
    monkeypatch.setattr(scraping, "AGAIN", 0.01)
    client: Any = None
    port = Scraping("x", client, Health("127.0.0.1", 0).exposition, host="127.0.0.1", port=0)
    task = asyncio.create_task(port.run())
    await until(lambda: port.port != 0 or task.done(), "it to serve")
    assert (tries, (await asked(port.port, None))[0]) == (["x", "x"], 401)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_port_that_somebody_has_is_taken_when_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "AGAIN", 0.01)
    client: Any = None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        port = Scraping("x", client, Health("127.0.0.1", 0).exposition, host="127.0.0.1", port=number)
        with capture_logs() as said:
            task = asyncio.create_task(port.run())
            await until(lambda: any(one["event"] == "metrics are not served" for one in said), "it to say so")
        assert not task.done()
        assert (said[0]["port"], "in use" in said[0]["why"]) == (number, True)
    await until(lambda: port.port == number, "it to serve")
    assert (await asked(number, None))[0] == 401
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_strangers_cut_off_no_answer_that_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is larger than what the kernel takes, and is read when more strangers have asked than are kept."""
    text = "x" * (16 << 20)

    async def much() -> web.Response:
        return web.Response(text=text)

    async def anybody(_self: Readers, token: str) -> Access:
        return Access.ALLOWED if token == "good" else Access.UNAUTHENTICATED

    monkeypatch.setattr(Readers, "authorize", anybody)
    monkeypatch.setattr("controllers.runtime.listener.STEP_TIMEOUT", 60.0)  # who reads slowly is not what this is about
    port, task, tls = await open_port(much)
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=tls)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nConnection: close\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")

    def asks() -> ssl.SSLSocket:
        made = tls.wrap_socket(socket.create_connection(("127.0.0.1", port.port)))
        made.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        made.recv(12)
        return made  # and never says that it has read the end

    strangers = [await asyncio.to_thread(asks) for _ in range(scraping.LIMITS.idle + 8)]
    read = await reader.read()
    writer.close()
    for connection in strangers:
        connection.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(read) == len(text)


async def test_who_never_asks_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none() -> web.Response:
        raise AssertionError("nobody asks")

    monkeypatch.setattr(scraping, "KEEPALIVE", 0.3)
    port, task, tls = await open_port(none)
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=tls)
    async with asyncio.timeout(PATIENCE):
        assert await reader.read() == b""
    writer.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_the_other_program_says_is_told() -> None:
    with pytest.raises(Terminal, match=r"no certificate was made: it ended with 1: .*Attribute's length must be"):
        await selfsigned.made_elsewhere("x" * 65)
    pair = await selfsigned.made_elsewhere("gpupool-controller")
    assert pair.count("-----BEGIN") == 2
