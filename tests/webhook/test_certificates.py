"""Certificates of a running webhook: made, trusted by the API server, rotated under load, and put back."""

from __future__ import annotations

import asyncio
import base64
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import MUTATING_WEBHOOK, SECRET
from controllers.runtime.errors import ApiError
from tests.kit.sockets import ended
from tests.kit.waiting import PATIENCE, until
from tests.webhook import plane as planes
from tests.webhook.plane import Api, Plane, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.cluster
CONFIGURATION = MUTATING_WEBHOOK.path(name=names.WEBHOOK_CONFIGURATION)
SECRET_PATH = SECRET.path(names.NAMESPACE, names.WEBHOOK_SECRET)
DAY = 86400
QUICK = (
    f"--certificate-days={8 / DAY}",
    f"--authority-days={24 / DAY}",
    "--certificate-renew-share=0.5",
    "--certificate-settle=1",
)


async def secret(api: Api) -> dict[str, str]:
    data = (await api.get(SECRET_PATH))["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


async def bundle(api: Api) -> str:
    found = await api.get(CONFIGURATION)
    return base64.b64decode(found["webhooks"][0]["clientConfig"].get("caBundle", "")).decode()


async def served(port: int, trusted: str) -> str:
    """The certificate of a fresh handshake, which must be trusted."""
    context = ssl.create_default_context(cadata=trusted)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    await ended(writer)
    return ssl.DER_cert_to_PEM_cert(der)


@pytest.fixture
async def team(plane: Plane, api: Api) -> AsyncIterator[tuple[str, str]]:
    """A namespace and a pool with a node."""
    namespace, pool, node = plane.unique("team"), plane.unique("pool"), plane.unique("node")
    await api.namespace(namespace)
    await api.pool(pool)
    await api.node(node, pool, 1)
    yield namespace, pool
    await api.client.request("DELETE", f"/api/v1/nodes/{node}")


async def test_the_secret_and_the_bundle_are_put_back(
    plane: Plane, api: Api, team: tuple[str, str], tmp_path: Path
) -> None:
    namespace, pool = team
    asking = pod("p", {names.resource_name(pool): "1"}, tolerations=[{"operator": "Exists"}])
    if await api.exists(SECRET_PATH):
        # What another test left may be due for renewal, and would not rest while it is compared.
        await api.client.request("DELETE", SECRET_PATH)
    with planes.replicas(plane, tmp_path, 2) as pair:
        before, trusted = await secret(api), await bundle(api)
        assert before["ca.crt"] == trusted

        await api.client.request("DELETE", SECRET_PATH)
        await until(lambda: api.exists(SECRET_PATH), "the Secret to be put back")
        assert await secret(api) == before

        wiped = {"webhooks": [{"name": "pods.gpu.deckhouse.io", "clientConfig": {"caBundle": None}}]}
        kind = "application/strategic-merge-patch+json"
        await api.client.request("PATCH", CONFIGURATION, body=wiped, content_type=kind)

        async def back() -> bool:
            return await bundle(api) == trusted

        await until(back, "the caBundle to be put back")

        garbage = {"data": {"tls.crt": base64.b64encode(b"garbage").decode()}}
        await api.client.merge(SECRET, names.WEBHOOK_SECRET, garbage, manager="test", namespace=names.NAMESPACE)

        async def mended() -> bool:
            return "BEGIN CERTIFICATE" in (await secret(api))["tls.crt"] and (await secret(api)) != before

        await until(mended, "garbage to be replaced")

        async def trusted_again() -> bool:
            known = await bundle(api)
            try:
                return len({await served(replica.port, known) for replica in pair}) == 1
            except OSError:
                return False

        await until(trusted_again, "both replicas to serve what is trusted")
        await until(lambda: _passes(api, namespace, asking), "pods to be created")


async def _passes(api: Api, namespace: str, body: Any) -> bool:
    try:
        await api.make_pod(namespace, body, {"dryRun": "All"})
    except ApiError:
        return False
    return True


async def test_the_bundle_leaves_everything_else_to_the_installer(plane: Plane, api: Api, tmp_path: Path) -> None:
    with planes.replicas(plane, tmp_path, 1):
        found = await api.get(CONFIGURATION)
        ours = [
            entry["fieldsV1"]
            for entry in found["metadata"]["managedFields"]
            if entry["manager"] == names.MANAGER_ADMISSION
        ]
        (fields,) = ours
        webhook = fields["f:webhooks"]['k:{"name":"pods.gpu.deckhouse.io"}']
        assert {key for key in webhook if key != "."} == {"f:clientConfig"}
        assert set(webhook["f:clientConfig"]) - {"."} == {"f:caBundle"}


async def test_another_replica_takes_over_when_the_keeper_is_killed(plane: Plane, api: Api, tmp_path: Path) -> None:
    with planes.replicas(plane, tmp_path, 2) as pair:

        async def leader() -> Any:
            return next((replica for replica in pair if replica.events("leading")), None)

        first = await until(leader, "one to lead")
        (other,) = (replica for replica in pair if replica is not first)
        first.end(kill=True)

        async def follows() -> bool:
            return bool(other.events("leading"))

        await until(follows, "the other to lead")
        await api.client.request("DELETE", SECRET_PATH)
        await until(lambda: api.exists(SECRET_PATH), "the Secret to be put back")


def test_flags_that_cannot_work_are_refused(plane: Plane, tmp_path: Path) -> None:
    for flags, part in (
        (("--certificate-days=10", "--authority-days=15"), "--authority-days 15 is too short"),
        (("--certificate-renew-share=1.5",), "expected between 0 and 1"),
    ):
        replica = planes.Replica(plane, tmp_path / "log", *flags)
        assert replica.process.wait(PATIENCE) == 2
        assert part in replica.log.read_text()
        replica.end()


def test_a_port_that_is_taken_is_named(plane: Plane, tmp_path: Path) -> None:
    with planes.replicas(plane, tmp_path, 1) as (first,):
        second = planes.Replica(plane, tmp_path / "log", f"--port={first.port}")
        assert second.process.wait(PATIENCE) == 2
        assert f"cannot listen on 127.0.0.1:{first.port}: " in second.log.read_text()
        assert "Give --port another port" in second.log.read_text()
        assert "Traceback" not in second.log.read_text()
        second.end()
