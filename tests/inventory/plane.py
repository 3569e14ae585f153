"""A control plane with our kinds installed, nodes and agents' reports on it, and processes beside it."""

from __future__ import annotations

import asyncio
import builtins
import re
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from controllers.api import names, resources
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, Busy, NotFound
from tests.kit.objects import BOOT
from tests.kit.reports import nfd_report, report
from tests.kit.sockets import ended
from tests.kit.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controllers.api.resources import Resource

ROOT = Path(__file__).resolve().parents[2]
CRD = resources.Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)


@dataclass
class Plane:
    """An API server and what a test does to it."""

    client: Client
    kubeconfig: Path
    processes: list[Running] = field(default_factory=list)

    async def install(self) -> None:
        """Our CRDs and those of others, and the module's namespace."""
        files = [*ROOT.glob("crds/*.yaml"), *ROOT.glob("sim/crds/*.yaml")]
        crds = [
            crd for file in files if not file.name.startswith("doc-ru") for crd in yaml.safe_load_all(file.read_text())
        ]
        for crd in crds:
            with suppress(AlreadyExists):
                await self.client.create(CRD, crd, manager="test")
        with suppress(AlreadyExists):
            await self.client.create(resources.NAMESPACE, {"metadata": {"name": names.NAMESPACE}}, manager="test")
        for crd in crds:
            group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
            path = f"/apis/{group}/{crd['spec']['versions'][0]['name']}/{plural}"
            await self.until(partial(self._served, path), path)

    async def _served(self, path: str) -> bool:
        try:
            await self.client.request("GET", path)
        except (NotFound, Busy):
            return False
        return True

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """An object, or None."""
        with suppress(NotFound):
            found: dict[str, Any] = orjson.loads(await self.client.get(resource, name, namespace))
            return found
        return None

    async def list(
        self, resource: Resource, *, prefix: str = "", namespace: str | None = None
    ) -> builtins.list[dict[str, Any]]:
        """Objects whose names begin so."""
        items = orjson.loads(await self.client.request("GET", resource.path(namespace)))["items"]
        return [item for item in items if item["metadata"]["name"].startswith(prefix)]

    async def put(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Make an object as given."""
        meta = obj["metadata"]
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        await self.client.apply(resource, meta["name"], body, manager="test", namespace=meta.get("namespace"))

    async def status(self, resource: Resource, name: str, status: dict[str, Any], namespace: str | None = None) -> None:
        """Change parts of a status."""
        body = {"status": status}
        await self.client.merge(resource, name, body, manager="test", namespace=namespace, subresource="status")

    async def node(self, name: str, *, boot: str = BOOT, ready: bool = True, **labels: str) -> None:
        """A node."""
        await self.put(resources.NODE, {"metadata": {"name": name, "labels": {names.LABEL_PRESENT: "true", **labels}}})
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
        await self.status(resources.NODE, name, {"conditions": conditions, "nodeInfo": _info(boot)})

    async def report(self, node: str, cards: builtins.list[dict[str, str]] | None, **more: str) -> None:
        """The agent's report of a node."""
        await self.put(resources.NODEFEATURE, report(node, cards, **more))

    async def nfd(self, node: str, elements: builtins.list[dict[str, str]]) -> None:
        """NFD's own report of a node."""
        await self.put(resources.NODEFEATURE, nfd_report(node, elements))

    async def delete(self, resource: Resource, name: str, namespace: str | None = None) -> None:
        """Delete an object."""
        await self.client.request("DELETE", resource.path(namespace, name))

    async def until(self, check: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        """Wait until an asynchronous check gives something; returns it."""

        def late() -> str:
            return "\n".join([what, *(process.tail() for process in self.processes)])

        return await until(check, late, seconds)

    @asynccontextmanager
    async def run(self, module: str, folder: Path, *more: str) -> AsyncIterator[Running]:
        """One of our processes, as a process of the operating system; `more` are flags."""
        running = Running(folder / f"{module}.log", module, self.kubeconfig, *more)
        self.processes.append(running)
        try:
            await running.started(self)
            yield running
        finally:
            running.end()
            self.processes.remove(running)

    async def condition(self, resource: Resource, name: str, kind: str) -> dict[str, Any] | None:
        """A condition of an object."""
        found = await self.get(resource, name)
        conditions = ((found or {}).get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == kind), None)


class Running:
    """A process of ours."""

    def __init__(self, log: Path, module: str, kubeconfig: Path, *more: str) -> None:
        lease = ["--lease-duration", "12", "--renew-deadline", "10", "--retry-period", "0.5"]
        flags = ["--kubeconfig", str(kubeconfig), "--health-port", "0", "--absent-retry", "0.5", *lease, *more]
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen([sys.executable, "-m", module, *flags], stdout=out, stderr=out, cwd=ROOT)
        self.port = 0

    async def started(self, plane: Plane) -> None:
        """Wait until it leads."""

        async def leading() -> bool:
            assert self.process.poll() is None, self.tail()
            return '"leading"' in self.log.read_text()

        await plane.until(leading, "the process to lead")
        self.port = int(re.search(r'"health":"127.0.0.1:(\d+)"', self.log.read_text())[1])  # type: ignore[index]

    async def metrics(self) -> dict[str, float]:
        """Its metrics by name with labels."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = (await reader.read()).decode().partition("\r\n\r\n")[2]
        await ended(writer)
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    async def writes(self) -> float:
        """How many writes it has made."""
        return sum(value for name, value in (await self.metrics()).items() if name.startswith("gpu_writes_total"))

    def end(self) -> int:
        """Stop it in order; returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(PATIENCE)

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text()[-3000:]


def _info(boot: str) -> dict[str, str]:
    others = (
        "machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion",
        "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
    )  # fmt: skip
    return {"bootID": boot, **dict.fromkeys(others, "")}
