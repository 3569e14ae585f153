"""One way to drive both MIG managers, the simulated one and the real one, for tests of what they have in common."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import orjson

from controllers.api import names
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import CONFIGMAP, NODE, POD
from controllers.domain import mig as domain
from controllers.domain.mig import DISABLED, CardLayout, NodeLayout, PlannedCard
from controllers.runtime.errors import NotFound
from sim.hardware import sysfs
from sim.nodes import names as sim
from sim.nvml import build, environment
from tests.nodeagent.deviceplugin.drivers import Simulated as SimulatedAgent
from tests.nodeagent.discover.node import Agent
from tests.nodeagent.mig.program import PARTED, SMI, VARIABLE, Cards, install

if TYPE_CHECKING:
    from controllers.api.gpudevice import MigApply
    from tests.nodeagent.deviceplugin.node import World

WORKING = ("Waiting", "Applying")


class Ground:
    """The node's layout and what else the managers follow, as the module's processes write it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.parts: dict[int, PlannedCard] = {}

    async def want(self, layout: CardLayout | None, number: int = 0, asked: str = "") -> str:
        """Ask for a division of a card; returns its version."""
        card = self.world.shape.cards[number]
        part = PlannedCard(
            card.address, card.vendor, card.device, self.world.uuid(number), number, layout, ours=True, asked=asked
        )
        self.parts[number] = part
        made = domain.configmap(self.world.node, NodeLayout(tuple(self.parts[n] for n in sorted(self.parts))))
        assert made is not None
        name = names.mig_layout(self.world.name)
        made |= {"apiVersion": "v1", "kind": "ConfigMap", "metadata": made["metadata"] | {"name": name}}
        await self.world.cluster.client.apply(CONFIGMAP, name, made, manager="test", namespace=names.NAMESPACE)
        return part.version

    async def said(self, number: int = 0) -> MigApply | None:
        """What is told of a card."""
        return (await self.world.get(number)).status.mig_apply

    async def phase(self, number: int = 0) -> tuple[str, str]:
        """Version and phase."""
        now = await self.said(number)
        return (now.version, now.phase) if now is not None else ("", "")

    async def client(self, component: str = "dcgm") -> str:
        """A pod of ours that holds the cards open; returns its name."""
        name = f"gpu-{component}-{self.world.name}"
        body = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {names.LABEL_COMPONENT: component}},
            "spec": {
                "nodeName": self.world.name, "containers": [{"name": "main", "image": "i"}],
                "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
                "serviceAccountName": names.MANAGER_MIG,
            },
        }  # fmt: skip
        await self.world.cluster.client.create(POD, body, names.NAMESPACE, manager="test")
        return name

    async def gone(self, pod: str) -> None:
        """It goes."""
        path = POD.path(names.NAMESPACE, pod)
        await self.world.cluster.client.request("DELETE", path, body={"gracePeriodSeconds": 0})

    async def gate(self, component: str, *, opened: bool) -> None:
        """Bootstrap opens or closes a gate."""
        body = {"metadata": {"labels": {names.deploy_label(component): "true" if opened else None}}}
        await self.world.cluster.client.merge(NODE, self.world.name, body, manager="test")

    async def close(self) -> None:
        """Take the layout away."""
        with suppress(NotFound):
            path = CONFIGMAP.path(names.NAMESPACE, names.mig_layout(self.world.name))
            await self.world.cluster.client.request("DELETE", path)


class Driver(Protocol):
    """A node with MIG managers on it."""

    ground: Ground

    async def start(self, pool: str) -> None:
        """Start the manager of a pool."""

    async def crash(self) -> None:
        """Kill everything that was started, and start it again."""

    async def divided(self, number: int = 0) -> CardLayout:
        """How a card is divided."""

    async def fail(self, number: int | None) -> None:
        """Let the driver refuse to divide a card; none from now on, with None."""

    async def reboot(self) -> str:
        """Start the machine anew, and its managers; no card has an instance. Returns the boot that it is now."""

    async def close(self) -> None:
        """End what was started."""


class Real:
    """`nodeagent mig-manager` as a process, with programs and a driver library that play the machine."""

    def __init__(self, ground: Ground, folder: Path, shape: str, *, needs_reset: bool = True) -> None:
        self.ground, self.folder = ground, folder
        self.cards = Cards(folder / "cards.json")
        self.cards.make(shape, ground.world.name, needs_reset=needs_reset)
        self.programs = install(folder)
        self.tree = sysfs.write(folder / "machine", ground.world.shape, node=ground.world.name)
        self.agents: dict[str, Agent] = {}
        self.flags: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Where a program finds this machine."""
        places = {"HOST_SYS": self.tree.sys, "HOST_PROC": self.tree.proc, VARIABLE: self.cards.path}
        return {name: str(path) for name, path in places.items()} | environment(build(), self.cards.driver)

    async def start(self, pool: str) -> None:
        world = self.ground.world
        config = await world.cluster.kubeconfig(world.name, self.folder, names.MANAGER_MIG)
        flags = (
            f"--pool={pool}", f"--state-dir={self.folder / 'state'}", "--check-period=0.2",
            f"--mig-parted={self.programs[PARTED]}", f"--nvidia-smi={self.programs[SMI]}", *self.flags,
        )  # fmt: skip
        machine: Any = self
        self.agents[pool] = Agent(world.name, config, machine, ("nodeagent", "mig-manager", *flags))

    async def crash(self) -> None:
        for pool, agent in list(self.agents.items()):
            agent.kill()
            await self.start(pool)

    async def divided(self, number: int = 0) -> CardLayout:
        return self.cards.layout(self.ground.world.addresses[number])

    async def fail(self, number: int | None) -> None:
        address = self.ground.world.addresses[number] if number is not None else ""
        profiles = self.ground.world.shape.cards[number or 0].mig_profiles
        faults = [f"create:{address}:{profile}" for profile in profiles] if address else []
        self.cards.change(faults=faults)

    async def reboot(self) -> str:
        for agent in self.agents.values():
            agent.kill()
        boot = str(uuid4())
        (self.tree.proc / "sys/kernel/random/boot_id").write_text(f"{boot}\n")
        found = self.cards.read()
        for card in found["cards"].values():
            card["instances"] = {}
        self.cards.save(found)
        shutil.rmtree(self.folder / "state")
        await self.crash()
        return boot

    async def load_driver(self) -> None:
        """The driver is unloaded and loaded in the same boot: its folder in sysfs is another one."""
        module = self.tree.sys / "module" / "nvidia"
        shutil.copytree(module, fresh := module.with_name("loaded"))
        shutil.rmtree(module)
        fresh.rename(module)
        found = self.cards.read()
        for card in found["cards"].values():
            card["instances"] = {}
        self.cards.save(found)

    def at_the_cards(self) -> list[int]:
        """Programs of this machine that run."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if str(self.programs[PARTED]).encode() in words[:2]:
                found.append(int(entry.name))
        return found

    async def close(self) -> None:
        for pid in self.at_the_cards():  # left behind by a test that failed
            os.kill(pid, signal.SIGKILL)
        for agent in self.agents.values():
            ended = agent.process.poll()
            status = await asyncio.to_thread(agent.end)
            assert ended is None, agent.log[-3000:]
            assert status == 0, agent.log[-3000:]

    @property
    def log(self) -> str:
        """What the managers logged."""
        return "\n".join(agent.log[-4000:] for agent in self.agents.values())


class Simulated:
    """`sim.nodes.agent`, which plays the managers of every fake node."""

    def __init__(self, ground: Ground, folder: Path) -> None:
        self.ground = ground
        self._agent = SimulatedAgent(ground.world, folder, ground.world.cluster.admin)
        self._pods: list[str] = []

    async def start(self, pool: str) -> None:
        """The DaemonSet's pod on this node, ready: by that the simulation knows that a manager is here."""
        world = self.ground.world
        client, name = world.cluster.client, f"{names.mig_manager(pool)}-{world.name}"
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": names.mig_manager(pool), "uid": "x"}
        body = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "nodeName": world.name, "serviceAccountName": names.MANAGER_MIG,
                "containers": [{"name": "mig-manager", "image": "i"}],
            },
        }  # fmt: skip
        await client.create(POD, body, names.NAMESPACE, manager="test")
        status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await client.merge(POD, name, status, manager="test", namespace=names.NAMESPACE, subresource="status")

    async def crash(self) -> None:
        await self._agent.crash()

    async def divided(self, number: int = 0) -> CardLayout:
        world = self.ground.world
        node: Node = adapter(Node).validate_python(orjson.loads(await world.cluster.client.get(NODE, world.name)))
        found = json.loads(node.metadata.annotations.get(sim.MIG, "{}")).get(world.addresses[number])
        return DISABLED if found is None else CardLayout(True, found)

    async def fail(self, number: int | None) -> None:
        fault = f"mig-fails:{self.ground.world.addresses[number]}" if number is not None else None
        body = {"metadata": {"annotations": {sim.FAULT: fault}}}
        await self.ground.world.cluster.client.merge(NODE, self.ground.world.name, body, manager="test")

    async def reboot(self) -> str:
        world, boot = self.ground.world, str(uuid4())
        others = (
            "machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion",
            "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
        )  # fmt: skip
        info = {"status": {"nodeInfo": {"bootID": boot, **dict.fromkeys(others, "")}}}
        client = world.cluster.client
        await client.merge(NODE, world.name, {"metadata": {"annotations": {sim.MIG: None}}}, manager="test")
        await client.merge(NODE, world.name, info, manager="test", subresource="status")
        return boot

    async def close(self) -> None:
        self._agent.stop()
