"""A cluster in memory for the inventory's planner, with an agent played."""

from __future__ import annotations

import copy
from typing import Any

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from controllers.api.nodefeature import NodeFeature
from controllers.api.settings import Settings
from controllers.inventory.observe import World
from controllers.inventory.plan import plan
from controllers.runtime.plan import Plan
from controllers.runtime.store import Store
from tests.inventory.plane import BOOT, nfd_report, report
from tests.tools.model import Model

KINDS: dict[str, tuple[resources.Resource, type[Any]]] = {
    "nodes": (resources.NODE, Node),
    "features": (resources.NODEFEATURE, NodeFeature),
    "devices": (resources.GPUDEVICE, GPUDevice),
    "inventories": (resources.GPUNODEINVENTORY, GPUNodeInventory),
}
NODE = "worker-01"


class Cluster(Model):
    """The model with words for what happens to one node."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000.0
        self.settings = Settings()
        self.nfd = True

    def _touch(self, key: tuple[str, str]) -> None:
        super()._touch(key)
        self.objects[key]["metadata"].setdefault("generation", 1)

    def node(self, *, boot: str = BOOT, ready: bool = True, **labels: str) -> None:
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
        status = {"conditions": conditions, "nodeInfo": {"bootID": boot}}
        self.put(resources.NODE, {"metadata": {"name": NODE, "labels": labels}, "status": status})

    def report(self, cards: list[dict[str, str]] | None, **more: str) -> None:
        self.put(resources.NODEFEATURE, report(NODE, cards, **more))

    def bus(self, elements: list[dict[str, str]]) -> None:
        """What NFD's own worker says."""
        self.put(resources.NODEFEATURE, nfd_report(NODE, elements))

    def silence(self) -> None:
        self.drop(resources.NODEFEATURE, f"{names.NAMESPACE}/{names.agent_feature(NODE)}")

    def view(self) -> World:
        stores = {}
        for name, (resource, record) in KINDS.items():
            store: Store[Any] = Store(resource.kind)
            store.replace(self.all(resource, record), 1)
            stores[name] = store
        stores["features"].served = self.nfd
        return World(**stores)

    def plan(self) -> Plan:
        return plan(self.view().node(NODE), self.settings, self.now)

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

    def edit(self, kind: str, key: str, change: dict[str, Any]) -> None:
        """What somebody else wrote into an object."""
        self.put(next(r for r, _ in KINDS.values() if r.kind == kind), _merged(self.objects[kind, key], change))

    def end(self) -> dict[Any, Any]:
        """The state, without what differs from run to run."""
        objects = copy.deepcopy(self.objects)
        for obj in objects.values():
            del obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
            conditions = obj.get("status", {}).get("conditions", [])
            conditions.sort(key=lambda one: one["type"])
        return objects


def condition(obj: dict[str, Any], kind: str) -> tuple[str, str]:
    """Status and reason."""
    return next((c["status"], c["reason"]) for c in obj["status"]["conditions"] if c["type"] == kind)


def message(obj: dict[str, Any], kind: str) -> str:
    return next(c["message"] for c in obj["status"]["conditions"] if c["type"] == kind)


def _merged(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    made = dict(old)
    for key, value in change.items():
        made[key] = _merged(made.get(key, {}), value) if isinstance(value, dict) else value
    return made
