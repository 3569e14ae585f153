"""One way to drive both device plugins, the simulated one and the real one, for tests of what they have in common."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from controllers.api import names
from controllers.api.resources import NODE, POD
from sim.nodes import names as sim
from tests.kit.waiting import PATIENCE
from tests.nodeagent.discover.node import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.nodeagent.deviceplugin.conftest import Node
    from tests.nodeagent.deviceplugin.node import World
    from tests.nodeagent.discover.node import Agent


class Driver(Protocol):
    """A node with plugins on it."""

    world: World

    async def start(self, pool: str) -> None:
        """Start the plugin of a pool."""

    async def crash(self) -> None:
        """Kill everything that was started, and start it again."""

    async def run(self, pod: str, pool: str, slots: int = 1, devices: tuple[int, ...] = (), init: int = 0) -> None:
        """A pod that is bound to the node comes to run, after an init container that asks for `init`."""

    async def end(self, pod: str) -> None:
        """It completes."""

    async def allocatable(self, pool: str) -> int:
        """How many slots kubelet would give to new pods, and those that have some."""

    async def lose(self, number: int) -> None:
        """A card falls out of the machine."""

    async def restore(self, number: int) -> None:
        """And is put back."""


class Real:
    """`nodeagent device-plugin` as a process, and a kubelet over its sockets."""

    def __init__(self, node: Node) -> None:
        self.node, self.world = node, node.world
        self._plugins: dict[str, Agent] = {}
        self._away: dict[int, str] = {}

    async def start(self, pool: str) -> None:
        self._plugins[pool] = await self.node.plugin(pool, "--report-period=0.5")

    async def crash(self) -> None:
        for pool, agent in list(self._plugins.items()):
            agent.kill()
            await self.start(pool)

    async def run(self, pod: str, pool: str, slots: int = 1, devices: tuple[int, ...] = (), init: int = 0) -> None:
        await self.world.pod(pod, pool, slots, devices, init)
        agent = self._plugins[pool]

        async def known() -> bool:
            return bool(await agent.metric('gpu_cached_objects{kind="Pod"}'))

        await agent.until(known, "the pod to be known")
        await self.node.kubelet.admit("default", pod, names.resource_name(pool), slots, init=init)
        await self.world.phase(pod, "Running")

    async def end(self, pod: str) -> None:
        await self.world.phase(pod, "Succeeded")
        self.node.kubelet.release("default", pod)

    async def allocatable(self, pool: str) -> int:
        return len(self.node.kubelet.healthy(names.resource_name(pool)))

    def _link(self, number: int) -> Path:
        return self.node.tree.sys / "bus" / "pci" / "devices" / self.world.addresses[number]

    async def lose(self, number: int) -> None:
        self._away[number] = str(self._link(number).readlink())
        self._link(number).unlink()

    async def restore(self, number: int) -> None:
        self._link(number).symlink_to(self._away.pop(number))


class Simulated:
    """`sim.nodes.agent`, which plays plugin and kubelet of every fake node."""

    def __init__(self, world: World, folder: Path, kubeconfig: Path) -> None:
        self.world, self._log, self._kubeconfig = world, folder / "sim-agent.log", kubeconfig
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        flags = ("--kubeconfig", str(self._kubeconfig), "--health-port", "0")
        with self._log.open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "sim.nodes.agent", *flags], cwd=ROOT, stdout=log, stderr=log)

    def stop(self) -> None:
        """End the agent; what it logged is told where it had ended by itself."""
        ended = self._process.poll()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)
        assert ended is None, self._log.read_text()[-3000:]

    async def start(self, pool: str) -> None:
        """The DaemonSet's pod on this node, ready: by that the simulation knows that a plugin is here."""
        name = f"{names.plugin_object(pool)}-{self.world.name}"
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": names.plugin_object(pool), "uid": "x"}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "nodeName": self.world.name,
                "serviceAccountName": names.MANAGER_PLUGIN,
                "containers": [{"name": "device-plugin", "image": "i"}],
            },
        }
        client, ready = self.world.cluster.client, {"type": "Ready", "status": "True"}
        await client.create(POD, body, names.NAMESPACE, manager="test")
        status = {"status": {"phase": "Running", "conditions": [ready]}}
        await client.merge(POD, name, status, manager="test", namespace=names.NAMESPACE, subresource="status")

    async def crash(self) -> None:
        self.stop()
        self._process = await asyncio.to_thread(self._started)

    async def run(self, pod: str, pool: str, slots: int = 1, devices: tuple[int, ...] = (), init: int = 0) -> None:
        await self.world.pod(pod, pool, slots, devices, init)
        await self.world.phase(pod, "Running")

    async def end(self, pod: str) -> None:
        await self.world.phase(pod, "Succeeded")

    async def allocatable(self, pool: str) -> int:
        node: Any = orjson.loads(await self.world.cluster.client.get(NODE, self.world.name))
        return int(node["status"].get("allocatable", {}).get(names.resource_name(pool), 0))

    async def lose(self, number: int) -> None:
        await self._fault(f"card-lost:{self.world.addresses[number]}")

    async def restore(self, number: int) -> None:  # noqa: ARG002 - it has one fault at a time
        await self._fault(None)

    async def _fault(self, fault: str | None) -> None:
        body = {"metadata": {"annotations": {sim.FAULT: fault}}}
        await self.world.cluster.client.merge(NODE, self.world.name, body, manager="test")
