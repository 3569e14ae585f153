"""A cluster in memory on which drivers are replaced: bootstrap, plugins and the roll-out's starts are played, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controllers.api import names, resources
from controllers.api.components import HOLDING_GPU_OPEN
from controllers.api.driver_work import CLOSED, OUT_OF_SERVICE, DriverWork
from controllers.api.record import adapter, to_json
from controllers.domain.clock import stamp
from controllers.domain.driver.choice import Install
from controllers.driver.node.health import baseline
from controllers.driver.node.moves import take_out
from controllers.driver.node.work import step
from tests.driver.world import Cluster
from tests.kit import conditions, objects
from tests.kit.objects import condition

GATES = tuple(names.deploy_label(name) for name in sorted(HOLDING_GPU_OPEN))
POOL = "a"


class Rolling(Cluster):
    """Nodes with cards in a pool; `begin` and `take` are what the roll-out does to one."""

    def __init__(self) -> None:
        super().__init__()
        self.clients_stay: set[str] = set()
        """Nodes whose clients of the driver do not go."""
        self.users: set[str] = set()
        """Nodes on which a pod has a card."""
        self.unoffered: set[str] = set()
        """Nodes whose plugins offer no card, although the node is in service."""
        self.host = False
        """Whether the hosts have drivers of their own."""
        self.unfit: set[str] = set()
        """Versions of drivers with which no node becomes ready."""

    def node(self, name: str = "n1", **more: Any) -> None:
        """A node whose card is in a pool."""
        super().node(name, **more)
        self.card(name, {"poolRef": to_json(objects.pool_ref(POOL)), "state": "Assigned"})
        for (kind, key), device in list(self.objects.items()):
            if kind == "GPUDevice" and device["status"]["nodeName"] == name:
                assigned = {"annotations": {names.ASSIGNMENT: POOL}}
                self.merge(kind, key, {"metadata": assigned, "status": {"hardware": {"uuid": f"GPU-{key}"}}})

    def outside(self) -> None:
        """Bootstrap follows `driverWork`, gates and pools' labels follow it, and plugins follow the node."""
        super().outside()
        for name in self.nodes():
            if name in self.silent:
                continue
            out = self.phase(name) in OUT_OF_SERVICE
            pods = [pod for (kind, _), pod in self.objects.items() if kind == "Pod" and _drives(pod, name)]
            serves = self.host or any(conditions.holds(pod, "Ready") for pod in pods)
            self._service(name, serves and not out)
            gates = None if self.phase(name) in CLOSED and name not in self.clients_stay else "true"
            labels = dict.fromkeys((*GATES, names.pool_node_label(POOL)), gates)
            found = self.objects["Node", name]["metadata"]["labels"]
            if any(found.get(key) != value for key, value in labels.items()):
                self.merge("Node", name, {"metadata": {"labels": labels}})
            ready = self.in_service(name) and name not in self.unoffered
            self.card(name, {"published": to_json(objects.published(POOL)) if ready or name in self.users else None})
            self.card(name, {"allocations": [to_json(objects.allocation())] if name in self.users else None})

    def _service(self, node: str, ready: bool) -> None:
        fits = self.phase(node) not in OUT_OF_SERVICE and self._loaded(node) not in self.unfit
        super()._service(node, ready and fits)

    def _loaded(self, node: str) -> str:
        report = self.objects["NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(node)}"]
        found = report["spec"]["features"]["attributes"].get(names.FEATURE_DRIVER, {"elements": {}})
        return str(found["elements"].get("version", ""))

    def in_service(self, node: str) -> bool:
        """Whether the node is ready for pooling."""
        return conditions.holds(self.objects["GPUNodeInventory", node], "ReadyForPooling")

    def card(self, node: str, status: dict[str, Any]) -> None:
        """Part of a status that the node's cards have from now on."""
        for (kind, name), device in list(self.objects.items()):
            there = kind == "GPUDevice" and device["status"].get("nodeName") == node
            if there and any(device["status"].get(key) != value for key, value in status.items()):
                self.merge(kind, name, {"status": status})

    # --- what the roll-out does -----------------------------------------------------------------

    def begin(self, name: str = "n1", *, wave: int = 0) -> None:
        """The node is looked at for the revision that is wanted."""
        seen = self.view().node(name)
        assert seen.node is not None
        assert isinstance(seen.choice, Install)
        work = step(None, "Preflight", self.now, driver="main", node=seen.node, to=seen.choice.variant.value)
        self.write(name, replace(work, wave=wave, stratum=seen.stratum))

    def take(self, name: str = "n1") -> None:
        """It is its turn."""
        found = adapter(DriverWork).validate_python(self.work(name))
        assert found.phase == "Queued"
        self.write(name, take_out(found, self.now, baseline(self.view().node(name).devices)))

    def write(self, name: str, work: DriverWork | None) -> None:
        """Write a node's work as a whole."""
        with self.edit("GPUNodeInventory", name) as inventory:
            inventory["status"]["driverWork"] = to_json(work) if work is not None else None

    def drop_node(self, name: str) -> None:
        """The node is deleted, and with it what the module knows of it."""
        for resource in (resources.NODE, resources.GPUNODEINVENTORY):
            self.drop(resource, name)
        for (kind, key), obj in list(self.objects.items()):
            if kind == "GPUDevice" and obj["status"].get("nodeName") == name:
                self.drop(resources.GPUDEVICE, key)
            if kind == "Pod" and obj["spec"].get("nodeName") == name:
                self.drop(resources.POD, key)

    def silence(self, name: str) -> None:
        """The machine dies: its kubelet does nothing, and its node is out of service."""
        self.silent.add(name)
        said = condition("ReadyForPooling", False)
        with self.edit("GPUNodeInventory", name) as inventory:
            conditions.put(inventory, replace(said, last_transition_time=stamp(self.now)))


def _drives(pod: dict[str, Any], node: str) -> bool:
    owners = pod["metadata"].get("ownerReferences", ())
    return pod["spec"]["nodeName"] == node and any(one["kind"] == "DaemonSet" for one in owners)
