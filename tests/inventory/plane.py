"""A control plane with our kinds installed, nodes and agents' reports on it, and processes beside it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from controllers.api import names, resources
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, Busy, NotFound
from tests.kit.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controllers.api.resources import Resource

ROOT = Path(__file__).resolve().parents[2]
CRD = resources.Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
BOOT = "11111111-2222-3333-4444-555555555555"


def card(number: int, **changes: str) -> dict[str, str]:
    """One card of a report as the agent writes it, with the driver loaded; an empty value removes one."""
    card = {
        "address": f"0000:{0x17 + number:02x}:00.0", "vendor": "10de", "device": "2330", "class": "0302",
        "numa_node": "0", "sriov": "none", "driver": "nvidia", "uuid": f"GPU-00000000-0000-0000-0000-{number:012d}",
        "product": "NVIDIA H100 80GB HBM3", "memory_mib": "81559", "compute_major": "9", "compute_minor": "0",
        "mig_capable": "true", "mig_mode": "disabled", "mig_profiles": "1g.10gb,7g.80gb",
    }  # fmt: skip
    return {key: value for key, value in {**card, **changes}.items() if value}


def report(
    node: str, cards: list[dict[str, str]] | None, *, boot: str = BOOT, driver: str = "580.65.06"
) -> dict[str, Any]:
    """What the agent of a node publishes; `cards` None: it says nothing of cards."""
    attributes = {names.FEATURE_AGENT: {"boot_id": boot, "version": "1"}, names.FEATURE_TOOLKIT: {"installed": "true"}}
    if driver:
        attributes[names.FEATURE_DRIVER] = {"version": driver, "cuda_version": "13.0"}
    features: dict[str, Any] = {"attributes": {name: {"elements": values} for name, values in attributes.items()}}
    if cards is not None:
        features["instances"] = {names.FEATURE_DEVICE: {"elements": [{"attributes": one} for one in cards]}}
    meta = {"name": names.agent_feature(node), "namespace": names.NAMESPACE, "labels": {names.NFD_NODE_NAME: node}}
    return {"metadata": meta, "spec": {"features": features}}


def nfd_report(node: str, elements: list[dict[str, str]]) -> dict[str, Any]:
    """What NFD's worker publishes of a node's bus, in its own namespace."""
    features = {"instances": {"pci.device": {"elements": [{"attributes": one} for one in elements]}}}
    meta = {"name": node, "namespace": "default", "labels": {names.NFD_NODE_NAME: node}}
    return {"metadata": meta, "spec": {"features": features}}


def on_the_bus(count: int, *, device: str = "2330", class_: str = "0302", **more: str) -> list[dict[str, str]]:
    """Equal NVIDIA functions as NFD sees them."""
    return [{"vendor": "10de", "device": device, "class": class_, **more}] * count


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
            await self.until(lambda path=path: self._served(path), path)

    async def _served(self, path: str) -> bool:
        try:
            await self.client.request("GET", path)
        except (NotFound, Busy):
            return False
        return True

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """An object, or None."""
        with suppress(NotFound):
            return orjson.loads(await self.client.get(resource, name, namespace))
        return None

    async def list(self, resource: Resource, *, prefix: str = "", namespace: str | None = None) -> list[dict[str, Any]]:
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

    async def report(self, node: str, cards: list[dict[str, str]] | None, **more: str) -> None:
        """The agent's report of a node."""
        await self.put(resources.NODEFEATURE, report(node, cards, **more))

    async def nfd(self, node: str, elements: list[dict[str, str]]) -> None:
        """NFD's own report of a node."""
        await self.put(resources.NODEFEATURE, nfd_report(node, elements))

    async def delete(self, resource: Resource, name: str, namespace: str | None = None) -> None:
        """Delete an object."""
        await self.client.request("DELETE", resource.path(namespace, name))

    async def until(self, check: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        """Wait until an asynchronous check gives something; returns it."""
        logs = lambda: "\n".join(process.tail() for process in self.processes)  # noqa: E731
        return await until(check, lambda: f"{what}\n{logs()}", seconds)

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
        self.log, self._out = log, log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *flags], stdout=self._out, stderr=self._out, cwd=ROOT, env=os.environ.copy()
        )
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
        writer.close()
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    async def writes(self) -> float:
        """How many writes it has made."""
        return sum(value for name, value in (await self.metrics()).items() if name.startswith("gpu_writes_total"))

    def end(self) -> int:
        """Stop it in order; returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self._out.close()

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text()[-3000:]


def _info(boot: str) -> dict[str, str]:
    others = (
        "machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion",
        "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
    )  # fmt: skip
    return {"bootID": boot, **dict.fromkeys(others, "")}
