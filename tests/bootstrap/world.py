"""A cluster in memory for the bootstrap planners, with inventory, kubelet and the agent played."""

from __future__ import annotations

import copy
from typing import Any

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node, Pod
from controllers.api.nodefeature import NodeFeature
from controllers.api.settings import Settings
from controllers.bootstrap import components, plan
from controllers.bootstrap.observe import Operand, RuntimeClass, World
from controllers.bootstrap.phases import PHASES
from controllers.runtime.plan import Plan
from controllers.runtime.store import Store
from tests.inventory.plane import BOOT, card, report
from tests.tools.model import Model

KINDS: dict[str, tuple[resources.Resource, type[Any]]] = {
    "nodes": (resources.NODE, Node),
    "features": (resources.NODEFEATURE, NodeFeature),
    "inventories": (resources.GPUNODEINVENTORY, GPUNodeInventory),
    "devices": (resources.GPUDEVICE, GPUDevice),
    "pods": (resources.POD, Pod),
    "daemonsets": (resources.DAEMONSET, Operand),
    "runtime_classes": (resources.RUNTIMECLASS, RuntimeClass),
}
NODE = "worker-01"
COMPONENTS = [phase.component for phase in PHASES]
DEVICE = f"{NODE}-0000-17-00-0"


class Cluster(Model):
    """The model with words for what happens to one node."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000.0
        self.settings = Settings()

    def node(self, *, ready: bool = True, boot: str = BOOT) -> None:
        old = self.objects.get(("Node", NODE), {})
        labels = old.get("metadata", {}).get("labels", {"example.com/own": "stays"})
        status = {"conditions": [{"type": "Ready", "status": str(ready)}], "nodeInfo": {"bootID": boot}}
        self.put(resources.NODE, {"metadata": {"name": NODE, "labels": labels}, "status": status})

    def report(self, *, driver: str = "580.65.06", toolkit: str = "true", boot: str = BOOT) -> None:
        made = report(NODE, [card(0)], driver=driver, boot=boot)
        made["spec"]["features"]["attributes"][names.FEATURE_TOOLKIT] = {"elements": {"installed": toolkit}}
        self.put(resources.NODEFEATURE, made)

    def silence(self) -> None:
        self.drop(resources.NODEFEATURE, f"{names.NAMESPACE}/{names.agent_feature(NODE)}")

    def inventory(self, *, cards: int = 1, managed: bool = True) -> None:
        """What gpu-inventory-controller says of the node."""
        old = self.objects.get(("GPUNodeInventory", NODE), {}).get("status", {})
        ours = {"type": "ManagedDisabled", "status": str(not managed), "reason": "X"}
        conditions = [ours, *(c for c in old.get("conditions", []) if c["type"] != "ManagedDisabled")]
        one = {"name": DEVICE, "inventoryID": f"{NODE}-0000:17:00.0", "address": "0000:17:00.0"}
        hw = {"present": cards > 0, "devices": [one] * cards}
        meta = {"name": NODE, "generation": 1}
        status = {**old, "hw": hw, "conditions": conditions}
        self.put(resources.GPUNODEINVENTORY, {"metadata": meta, "spec": {"nodeName": NODE}, "status": status})

    def device(self, reason: str) -> None:
        """A card whose InventoryIncomplete has that reason."""
        old = self.objects.get(("GPUDevice", DEVICE), {}).get("status", {})
        ours = {"type": "InventoryIncomplete", "status": str(reason != "Complete"), "reason": reason}
        conditions = [ours, *(c for c in old.get("conditions", []) if c["type"] != "InventoryIncomplete")]
        status = {"nodeName": NODE, "inventoryID": f"{NODE}-0000:17:00.0", **old, "conditions": conditions}
        self.put(resources.GPUDEVICE, {"metadata": {"name": DEVICE, "generation": 1}, "status": status})

    def pod(self, component: str, *, ready: bool = True) -> None:
        """A component's pod on the node."""
        app = names.DISCOVER_DAEMONSET if component == "discover" else f"gpu-{component}"
        labels = {names.LABEL_COMPONENT: component, names.LABEL_APP: app}
        meta = {"name": f"{component}-pod", "namespace": names.NAMESPACE, "labels": labels}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        self.put(resources.POD, {"metadata": meta, "spec": {"nodeName": NODE}, "status": status})

    def kubelet(self) -> None:
        """Pods of the components whose gates are open become ready, the others go."""
        for component in COMPONENTS:
            if component in self.gates():
                self.pod(component)
            else:
                self.drop(resources.POD, f"{names.NAMESPACE}/{component}-pod")

    def gates(self) -> list[str]:
        """Components whose gate is open, in order."""
        labels = self.objects["Node", NODE]["metadata"]["labels"]
        return [component for component in COMPONENTS if labels.get(names.deploy_label(component)) == "true"]

    def view(self) -> World:
        stores = {}
        for name, (resource, record) in KINDS.items():
            store: Store[Any] = Store(resource.kind)
            store.replace(self.all(resource, record), 1)
            stores[name] = store
        return World(**stores)

    def plan(self) -> Plan:
        return plan.plan(self.view().node(NODE), self.settings, self.now)

    def plan_components(self) -> Plan:
        return components.plan(self.view().operands(), self.settings.bootstrap)

    def step(self, stop_after: int | None = None) -> Plan:
        """Plan and execute once, or only the first writes of the plan."""
        made = self.plan()
        self.execute(made.actions, names.MANAGER_BOOTSTRAP, stop_after)
        return made

    def prepare(self) -> None:
        """A managed node with everything ready."""
        self.node()
        self.report()
        self.inventory()
        self.pod("discover")
        for _ in (*COMPONENTS, ""):
            self.step()
            self.kubelet()
        self.step()

    def status(self) -> dict[str, Any]:
        return self.objects["GPUNodeInventory", NODE]["status"]

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of one of the node's conditions."""
        return next((c["status"], c["reason"]) for c in self.status()["conditions"] if c["type"] == kind)

    def message(self, kind: str) -> str:
        return next(c["message"] for c in self.status()["conditions"] if c["type"] == kind)

    def end(self) -> dict[Any, Any]:
        """The state, without what differs from run to run."""
        objects = copy.deepcopy(self.objects)
        for obj in objects.values():
            del obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
            conditions = obj.get("status", {}).get("conditions", [])
            conditions.sort(key=lambda one: one["type"])
        return objects
