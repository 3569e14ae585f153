"""What people do to the node and its cards in the tests, and what containers and kubelet say."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Pod
from controllers.domain.node_fit import PodConstraints
from controllers.domain.verdict.pod import cards_of, pod_verdict
from controllers.domain.verdict.records import Asked, CardReason
from sim import controlplane
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.realnode import agents, cards, kubelet
from sim.realnode.image import SHOW
from sim.view import View
from tests.e2e.bed import NODE, Bed
from tests.slice.people import People

NAMESPACE = "e2e"


class Admin(People):
    """What people do in these tests, and what they see."""

    def __init__(self, bed: Bed, view: View) -> None:
        super().__init__(bed.plane, view)
        self.bed = bed
        self.places = bed.node.places

    # --- cards and pools ----------------------------------------------------------------------

    def card(self, minor: int) -> GPUDevice:
        """A card of the node by the number of its device node."""
        found = sorted(self.view.devices, key=lambda device: device.status.inventory_id or "")
        return found[minor]

    def uuid(self, minor: int) -> str:
        hardware = self.card(minor).status.hardware
        assert hardware is not None
        return hardware.uuid or ""

    async def start(self, pool: str, *minors: int, strategy: str = "cdi", **spec: Any) -> None:
        """Make a pool of these cards and start its plugin as soon as kubelet has started the plugin's pod."""
        await self.pool(pool, **spec)
        for minor in minors:
            await self.annotate(self.card(minor).name, pool)
        await self.plugin_pod(pool)
        port = free_ports(1)[0]
        plugin = agents.device_plugin(self.bed.node, self.bed.identity(agents.PLUGIN), port, pool, strategy)
        await asyncio.to_thread(self.bed.add, plugin)

    async def plugin_pod(self, pool: str) -> None:
        prefix = names.plugin_object(pool) + "-"

        def runs() -> bool:
            return any(pod.name.startswith(prefix) and pod.ready for pod in self.pods(names.NAMESPACE))

        await self.view.until(runs, 60, lambda: str([(p.name, p.status.phase) for p in self.pods(names.NAMESPACE)]))

    async def end(self, pool: str) -> None:
        """Delete the pool's pods, the pool and its plugin."""
        key = names.resource_name(pool)
        for pod in list(self.pods(NAMESPACE)):
            if any(key in container.resources.limits for container in pod.spec.containers):
                await self.gone(pod.name)
        await self.remove(resources.GPUPOOL, pool)
        for device in list(self.view.devices):
            if device.metadata.annotations.get(names.ASSIGNMENT) == pool:
                await self.annotate(device.name, None)
        await self.view.until(
            lambda: self.view.pools.get(pool) is None and not self.cards(pool), 60, lambda: f"cards {self.cards(pool)}"
        )
        await asyncio.to_thread(controlplane.remove_process, self.plane.dir, agents.plugin_name(pool))

    def allocatable(self, pool: str) -> int | None:
        """What kubelet says of a pool's resource; None where it does not know it."""
        node = self.view.nodes.get(NODE)
        found = node.status.allocatable.get(names.resource_name(pool)) if node else None
        return None if found is None else int(found)

    async def offers(self, pool: str, count: int, seconds: float = 30) -> float:
        """Wait until kubelet says so; returns the seconds."""
        return await self.view.until(
            lambda: self.allocatable(pool) == count, seconds, lambda: f"{self.allocatable(pool)} of {pool}"
        )

    def reasons(self, pool: str, units: int) -> dict[str, CardReason]:
        """What each card of a pool, by name, is now to a pod that asks for so many: the verdict."""
        seen: Any = SimpleNamespace(
            pool=self.view.pools.get(pool),
            members=tuple(device for device in self.view.devices if device.home == pool),
            nodes={node.name: node for node in self.view.nodes},
            bound=tuple(pod for pod in self.view.pods if pod.node is not None),
            tolerated=(),
        )
        now, asked = time.time(), Asked(units, PodConstraints(None, (), None, ()))
        return {
            each.card: each.reason
            for each in pod_verdict(seen, cards_of(seen, {}, now), asked, since={}, now=now).cards
        }

    async def taken(self, pod: Pod, units: int) -> set[str]:
        """The cards, by name, that kubelet gave a pod, once it has told of so many."""

        def told() -> set[str]:
            uid = pod.metadata.uid
            return {d.name for d in self.view.devices if any(each.pod_uid == uid for each in d.status.allocations)}

        await self.view.until(lambda: len(told()) == units, 30, lambda: f"{pod.key} has {told()}")
        return told()

    def free(self) -> set[str]:
        """Cards of the node that are in no pool and asked for none."""
        devices = list(self.view.devices)
        return {d.name for d in devices if d.status.pool_ref is None and names.ASSIGNMENT not in d.metadata.annotations}

    def registrations(self, pool: str) -> int:
        """How often a pool's plugin has registered, as kubelet logs it."""
        said = f'"Got registration request from device plugin with resource" resourceName="{names.resource_name(pool)}"'
        return Layout(self.plane.dir).log(kubelet.NAME).read_text(errors="replace").count(said)

    async def registered(self, pool: str, before: int) -> None:
        """Wait until the plugin has registered anew, and kubelet offers what it offers."""
        await until(lambda: self.registrations(pool) > before, 60, f"{pool} does not register again")

    # --- pods ----------------------------------------------------------------------------------

    async def run(self, name: str, pool: str | None, units: int = 1, **limits: str) -> Pod:
        """Create a pod that shows what it has, and wait until it runs."""
        await self.create(name, {names.resource_name(pool): str(units), **limits} if pool else limits)
        return await self.runs(name)

    async def create(self, name: str, limits: dict[str, str], env: dict[str, str] | None = None, **spec: Any) -> None:
        """Create a pod that shows what it has."""
        container: dict[str, Any] = {"name": "main", "image": SHOW, "imagePullPolicy": "IfNotPresent"}
        container |= {"resources": {"limits": limits}}
        container["env"] = [{"name": key, "value": value} for key, value in (env or {}).items()]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }
        await self.client.create(resources.POD, body, NAMESPACE, manager="test")

    async def runs(self, name: str) -> Pod:
        """Wait until a pod runs."""
        await self.view.until(
            lambda: (pod := self.pod_of(name)) is not None and pod.ready, 60, lambda: str(self.pod_of(name))
        )
        found = self.pod_of(name)
        assert found is not None
        return found

    def pod_of(self, name: str) -> Pod | None:
        return self.view.pods.get(f"{NAMESPACE}/{name}")

    async def gone(self, name: str) -> None:
        """Delete a pod as a person does, and wait until kubelet has ended it."""
        await self.client.request("DELETE", resources.POD.path(NAMESPACE, name), body={})
        await self.view.until(lambda: self.pod_of(name) is None, 60, lambda: str(self.pod_of(name)))

    async def refusal(self, name: str, pool: str) -> str:
        """How the API server refuses a pod."""
        return await self.refused(name, NAMESPACE, pool)

    async def shown(self, name: str) -> tuple[dict[str, str], list[str]]:
        """What the container itself says: the uuids of its cards by their variables, and its cards' files in /dev."""
        said = await self.said(name)
        marked = {key: value for key, value in said["env"].items() if key.startswith(cards.MARK)}
        return marked, [name for name in said["dev"] if name.startswith("nvidia")]

    async def said(self, name: str) -> dict[str, Any]:
        """All that the container says: its environment and the files of its /dev."""
        pod = self.pod_of(name)
        assert pod is not None
        log = self.places.pod_logs / f"{NAMESPACE}_{name}_{pod.metadata.uid}" / "main" / "0.log"

        def text() -> str:
            lines = log.read_text().splitlines() if log.exists() else []
            return lines[0].split(" ", 3)[3] if lines else ""

        await until(lambda: text() != "", 10, f"{log} is empty")
        found: dict[str, Any] = json.loads(text())
        return found

    async def container(self, name: str) -> tuple[str, int]:
        """A pod's container: its id and how often it was restarted, as the API server has it from kubelet."""
        pod = orjson.loads(await self.client.get(resources.POD, name, NAMESPACE))
        status = pod["status"]["containerStatuses"][0]
        return status["containerID"], status["restartCount"]

    # --- processes -----------------------------------------------------------------------------

    async def again(self, process: str, number: signal.Signals) -> None:
        """Send a signal to a process and wait until the supervisor has started it again."""
        found = controlplane.status(self.plane.dir).processes[process]
        assert found.identity is not None
        found.identity.signal(number)
        await self.back(process, found.restarts)


def process_of(container: str) -> Path:
    """A process of a container, in the machine's /proc; CRI-O's monitor of it has a control group named alike."""
    told = {path.parent: path.read_text() for path in Path("/proc").glob("[0-9]*/cgroup")}
    found = [path for path, text in told.items() if container in text and f"conmon-{container}" not in text]
    assert found, f"no process is in container {container}"
    return found[0]


async def until(true: Callable[[], bool], seconds: float, message: str) -> None:
    """Ask again and again what nobody tells of."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, message
        await asyncio.sleep(0.02)
