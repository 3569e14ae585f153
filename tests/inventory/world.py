"""A cluster in memory for the inventory's planner, with an agent played."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from controllers.api.nodefeature import NodeFeature
from controllers.api.settings import Settings
from controllers.inventory.record.plan import plan
from controllers.inventory.world import World
from controllers.runtime.plan import Plan
from tests.kit import objects, process
from tests.kit.objects import BOOT
from tests.kit.reports import nfd_report, report
from tests.kit.storage import Json

KINDS: dict[str, tuple[resources.Resource, type[Any]]] = {
    "nodes": (resources.NODE, Node),
    "features": (resources.NODEFEATURE, NodeFeature),
    "devices": (resources.GPUDEVICE, GPUDevice),
    "inventories": (resources.GPUNODEINVENTORY, GPUNodeInventory),
}
NODE = "worker-01"


class Cluster(process.Followed[World]):
    """One node, and words for what happens to it; plans are those of a process that lives on."""

    kinds = KINDS

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.nfd = True

    def node(self, *, boot: str = BOOT, ready: bool = True, **labels: str) -> None:
        self.add(objects.node(NODE, ready=ready or "Unknown", boot=boot, labels=labels))

    def report(self, cards: list[dict[str, str]] | None, **more: str) -> None:
        self.put(resources.NODEFEATURE, report(NODE, cards, **more))

    def bus(self, elements: list[dict[str, str]]) -> None:
        """What NFD's own worker says."""
        self.put(resources.NODEFEATURE, nfd_report(NODE, elements))

    def silence(self) -> None:
        self.drop(resources.NODEFEATURE, f"{names.NAMESPACE}/{names.agent_feature(NODE)}")

    def start(self, caches: process.Caches) -> World:
        return World(**caches)

    def known_as(self, kind: str, key: str, obj: Json) -> Hashable:  # noqa: ARG002 - whatever it is
        return json.dumps(obj)  # tests change objects in their places, too

    def plan(self) -> Plan:
        return self._planned(self.process())

    def plan_anew(self) -> Plan:
        """Plan as a process that has just started."""
        return self._planned(self.view())

    def _planned(self, world: World) -> Plan:
        world.features.served = self.nfd
        return plan(world.node(NODE), self.settings, self.now)

    def step(self, stop_after: int | None = None) -> Plan:
        """Plan and execute once, or only the first writes of the plan."""
        made = self.plan()
        self.execute(made.actions, names.MANAGER_INVENTORY, stop_after)
        return made

    def settle(self) -> int:
        """Plan and execute until nothing is left to do; returns the rounds that wrote something."""
        for rounds in range(5):
            if not self.step().writes:
                return rounds
        raise AssertionError(f"never done: {self.plan().writes}")

    def devices(self) -> dict[str, dict[str, Any]]:
        return {key: obj for (kind, key), obj in self.objects.items() if kind == "GPUDevice"}

    def device(self, name: str = f"{NODE}-0000-17-00-0") -> dict[str, Any]:
        return self.objects["GPUDevice", name]

    def inventory(self) -> dict[str, Any]:
        return self.objects["GPUNodeInventory", NODE]
