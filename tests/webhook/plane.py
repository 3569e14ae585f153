"""A cluster with the module's chart, nodes played by KWOK, cards as the other processes would show them,
and webhook replicas as processes of the operating system behind one address."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names
from controllers.api.resources import GPUDEVICE, GPUPOOL, NAMESPACE, NODE, POD
from controllers.domain.taints import KUBERNETES
from controllers.runtime.client import Client
from controllers.runtime.errors import ApiError, NotFound
from sim.controlplane.ports import free_ports
from sim.module.balancer import Backend, Balancer, Probing
from sim.module.identities import kubeconfig_for
from tests.kit import manifests, planes
from tests.kit.manifests import manifest
from tests.kit.objects import card
from tests.kit.waiting import PATIENCE, eventually, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sim.controlplane import ControlPlane
    from sim.module.install import Tools

ROOT = Path(__file__).resolve().parents[2]
ADMIN = "kubernetes-admin"
PROBING = Probing(period=0.5, timeout=3.0, misses=2)
"""A replica that is alive answers within seconds, also where it waits for a processor."""


@dataclass
class Plane:
    """The cluster, and the address at which its API server looks for the webhook."""

    control: ControlPlane
    tools: Tools
    account: Path
    balancer: Front
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def unique(self, word: str) -> str:
        """A name that no other test has."""
        return f"{word}-{next(self.numbers)}"


@contextlib.contextmanager
def without_webhook(folder: Path) -> Iterator[Plane]:
    """Everything is up but the webhook."""
    with contextlib.closing(Front()) as balancer:
        values = {
            "gpuControlPlane.webhook.url": f"https://127.0.0.1:{balancer.port}",
            # The tests play the processes that own a card's status.
            "gpuControlPlane.policies.statusWriters": f"{{{ADMIN}}}",
        }
        with planes.with_chart(folder / "plane", values) as control:
            tools = planes.tools(control)
            account = kubeconfig_for(control, tools, names.WEBHOOK, folder / "accounts")
            yield Plane(control, tools, account, balancer)


class Front:
    """The address behind which the replicas stand: `sim`'s balancer, in a thread of its own."""

    def __init__(self) -> None:
        self._balancer, self._backends = Balancer([], PROBING), dict[int, Backend]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._balancer.start(), self._loop).result(PATIENCE)

    def add(self, port: int, ready_url: str) -> Backend:
        """Pass connections to a replica, once it says that it is ready; waits for that."""
        backend = self._backends[port] = Backend(port, ready_url)
        self._in_loop(lambda: self._balancer.add(backend))
        eventually(
            lambda: backend.state == "ready", lambda: f"replica {port}, which the balancer finds {backend.state}"
        )
        return backend

    def remove(self, port: int) -> None:
        """Pass it no more; a second time changes nothing."""
        if (backend := self._backends.pop(port, None)) is not None:
            self._in_loop(lambda: self._balancer.remove(backend))

    def state(self, port: int) -> str:
        """What the balancer thinks of a replica."""
        return self._backends[port].state

    def hold(self, port: int, *, hold: bool = True) -> None:
        """Let nothing through to a replica, and nothing back; or let it through again."""
        self._in_loop(lambda: self._backends[port].hold(hold=hold))

    def _in_loop(self, call: Callable[[], None]) -> None:
        async def called() -> None:
            call()

        asyncio.run_coroutine_threadsafe(called(), self._loop).result(PATIENCE)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._balancer.stop(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class Replica:
    """One webhook process."""

    def __init__(self, plane: Plane, log: Path, *flags: str) -> None:
        self.port, self.health = free_ports(2)
        self.log, self._plane = log, plane
        fast = ("--lease-duration=6", "--renew-deadline=5", "--retry-period=1", "--drain-seconds=0.5")
        places = (f"--kubeconfig={plane.account}", "--host=127.0.0.1", f"--port={self.port}")
        command = [sys.executable, "-m", "webhook", *places, f"--health-port={self.health}", *fast, *flags]
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            return self.get("/readyz") == "ok\n"

        eventually(ready, lambda: f"readiness: {self.get('/readyz')}\n{self.log.read_text()[-3000:]}")
        self._plane.balancer.add(self.port, f"http://127.0.0.1:{self.health}/readyz")

    def get(self, path: str) -> str:
        """An answer of its health port; empty where there is none."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.health), 20) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode().partition("\r\n\r\n")[2]
        return ""

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics"), re.MULTILINE)
        return sum(map(float, lines))

    def end(self, *, kill: bool = False) -> int:
        """End it in order, or kill it; returns its exit status. Nobody tells the balancer before it is over."""
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self._plane.balancer.remove(self.port)

    def events(self, event: str) -> list[dict[str, Any]]:
        """Its log lines of one event."""
        lines = [orjson.loads(line) for line in self.log.read_bytes().splitlines() if line.startswith(b"{")]
        return [line for line in lines if line.get("event") == event]


@contextlib.contextmanager
def replicas(plane: Plane, folder: Path, count: int, *flags: str) -> Iterator[list[Replica]]:
    """So many webhook processes, ready."""
    with contextlib.ExitStack() as stack:
        started: list[Replica] = []
        for number in range(count):
            started.append(Replica(plane, folder / f"{plane.unique('webhook')}-{number}.log", *flags))
            stack.callback(started[-1].end)
        for replica in started:
            replica.wait_ready()
        yield started


class Api:
    """The administrator at the API server."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.tried = 0
        """Pods that it has tried to make."""

    async def create(self, path: str, body: Any, query: dict[str, str] | None = None) -> dict[str, Any]:
        made: dict[str, Any] = orjson.loads(await self.client.request("POST", path, body=body, query=query))
        return made

    async def get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(await self.client.request("GET", path))
        return found

    async def status(self, resource: Any, name: str, status: dict[str, Any]) -> None:
        await self.client.merge(resource, name, {"status": status}, manager="test", subresource="status")

    async def namespace(self, name: str, **labels: str) -> str:
        await self.create(NAMESPACE.path(), {"metadata": {"name": name, "labels": labels}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        await until(lambda: self.exists(account), f"the default ServiceAccount of {name}")
        return name

    async def exists(self, path: str) -> bool:
        try:
            await self.client.request("GET", path)
        except NotFound:
            return False
        return True

    async def pool(self, name: str, **spec: Any) -> str:
        """A pool, which refuses pods that it has no cards for: nobody serves a queue here."""
        spec.setdefault("queue", {"onShortage": "Refuse"})
        await self.create(GPUPOOL.path(), manifest({"metadata": {"name": name}, "spec": spec}, GPUPOOL))
        return name

    async def node(self, name: str, pool: str, cards: int, **labels: str) -> list[str]:
        """A node with cards that are in a pool and offered; returns the cards' names."""
        labels = {names.LABEL_HOSTNAME: name, names.pool_node_label(pool): "", **labels}
        meta = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        await self.create(NODE.path(), {"metadata": meta})
        # All that a pod of the module asks for: KWOK's own amounts stay only where it comes after this write.
        room = {"cpu": "64", "memory": "512Gi", "pods": "250", "ephemeral-storage": "1Ti"}
        room[names.resource_name(pool)] = str(cards)
        await self.status(NODE, name, {"capacity": room, "allocatable": room})
        return list(await asyncio.gather(*(self.card(name, pool, number) for number in range(cards))))

    async def shows(self, node: str, pool: str, slots: int) -> None:
        """Kubelet shows the scheduler so many slots of the pool."""
        room = {names.resource_name(pool): str(slots)}
        await self.status(NODE, node, {"capacity": room, "allocatable": room})

    async def card(self, node: str, pool: str, number: int) -> str:
        made = card(node, number + 16, pool=pool, hardware=None)
        await self.create(GPUDEVICE.path(), manifest(made))
        await self.status(GPUDEVICE, made.name, manifests.status(made))
        return made.name

    async def cards(self, pool: str) -> list[dict[str, Any]]:
        items = (await self.get(GPUDEVICE.path()))["items"]
        return [item for item in items if item.get("status", {}).get("poolRef", {}).get("name") == pool]

    async def reservations(self, pool: str) -> list[dict[str, Any]]:
        return [
            {**entry, "card": card["metadata"]["name"], "inventoryID": card["status"]["inventoryID"]}
            for card in await self.cards(pool)
            for entry in card["status"].get("reservations") or ()
        ]

    async def ready_node(self, name: str) -> bool:
        """Whether pods come to it: a new node carries Kubernetes' own taint for a moment after it is Ready."""
        node = await self.get(NODE.path(name=name))
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
        kept_away = any(taint["key"].startswith(KUBERNETES) for taint in node["spec"].get("taints") or ())
        return ready and not kept_away

    async def make_pod(
        self, namespace: str, body: dict[str, Any], query: dict[str, str] | None = None
    ) -> dict[str, Any]:
        self.tried += 1
        return await self.create(POD.path(namespace), body, query)


def pod(
    name: str, resources: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A pod of one container."""
    container = {"name": "main", "image": "none", "resources": {"limits": resources} if resources else {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"containers": [container], **spec},
    }


async def refusal(attempt: Awaitable[Any]) -> str:
    """The message with which the API server refuses."""
    try:
        made = await attempt
    except ApiError as error:
        return error.message
    raise AssertionError(f"it was not refused: {made}")
