"""A cluster in memory for the bootstrap planners: inventory, kubelet, agents and exporters are played."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from controllers.api import names, resources, validation
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import ConfigMap, Node
from controllers.api.settings import Settings
from controllers.bootstrap import components, plan
from controllers.bootstrap.fuses import Fuses
from controllers.bootstrap.health import judge
from controllers.bootstrap.health.limits import Limits
from controllers.bootstrap.health.signs import Memory
from controllers.bootstrap.health.text import CardSample
from controllers.bootstrap.health.view import CardNews, Telemetry
from controllers.bootstrap.observe import World
from controllers.bootstrap.phases import PHASES
from controllers.bootstrap.records import Card, Operand, Pod, Report, RuntimeClass
from controllers.runtime.plan import Plan
from controllers.runtime.store import Store
from tests.inventory.plane import BOOT, card, report
from tests.tools.model import Model

KINDS: dict[str, tuple[resources.Resource, type[Any]]] = {
    "nodes": (resources.NODE, Node),
    "features": (resources.NODEFEATURE, Report),
    "inventories": (resources.GPUNODEINVENTORY, GPUNodeInventory),
    "devices": (resources.GPUDEVICE, Card),
    "pods": (resources.POD, Pod),
    "daemonsets": (resources.DAEMONSET, Operand),
    "configmaps": (resources.CONFIGMAP, ConfigMap),
    "runtime_classes": (resources.RUNTIMECLASS, RuntimeClass),
}
NODE = "worker-01"
COMPONENTS = [phase.component for phase in PHASES]
DEVICE = f"{NODE}-0000-17-00-0"
LIMITS = Limits()
WELL = CardSample("GPU-1", None, temperature=50, xids=(), ecc_volatile=0, remap_failed=False, throttle=0)
SAMPLES = {
    "well": WELL,
    "xid": replace(WELL, xids=(79,)),
    "app": replace(WELL, xids=(13,)),
    "hot": replace(WELL, temperature=99),
    "rows": replace(WELL, remap_failed=True),
    "silent": None,
}


def address(number: int) -> str:
    """Where a card is on the bus."""
    return f"0000:{0x17 + number:02x}:00.0"


def device_name(on: str = NODE, number: int = 0) -> str:
    """The name of a card's object."""
    return f"{on}-{address(number).replace(':', '-').replace('.', '-')}"


class Cluster(Model):
    """The model with words for what happens to its nodes; `on` names the one that is meant."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000.0
        self.settings = Settings()
        self.enabled = True
        """Whether the module is."""
        self.answers: dict[str, bool | None] = {}
        """What the ward thinks of each node's exporter."""
        self.found = ""
        """What its last scrape found."""
        self.blind = False
        self.memory: dict[str, Memory] = {}
        """What the ward knows of cards, by their names."""
        self.warnings: tuple[str, ...] = ()

    def node(self, *, ready: bool = True, boot: str = BOOT, on: str = NODE) -> None:
        old = self.objects.get(("Node", on), {})
        labels = old.get("metadata", {}).get("labels", {"example.com/own": "stays"})
        status = {"conditions": [{"type": "Ready", "status": str(ready)}], "nodeInfo": {"bootID": boot}}
        self.put(resources.NODE, {"metadata": {"name": on, "labels": labels}, "status": status})

    def report(
        self, *, driver: str = "580.65.06", cuda: str = "13.0", toolkit: str = "true", boot: str = BOOT, on: str = NODE
    ) -> None:
        """The agent's report; what the validators said stays in it."""
        old = self.objects.get(("NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(on)}"))
        made = report(on, [card(0)], driver=driver, boot=boot)
        attributes = made["spec"]["features"]["attributes"]
        attributes[names.FEATURE_TOOLKIT] = {"elements": {"installed": toolkit}}
        if driver:
            attributes[names.FEATURE_DRIVER]["elements"]["cuda_version"] = cuda
        if old and (said := old["spec"]["features"]["attributes"].get(names.FEATURE_VALIDATION)):
            attributes[names.FEATURE_VALIDATION] = said
        self.put(resources.NODEFEATURE, made)

    def verdict(self, role: str, result: str, *, on: str = NODE, **told: str) -> None:
        """What a validator writes into the report, in place of what it wrote before."""
        key = ("NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(on)}")
        if key not in self.objects:
            return
        attributes = self.objects[key]["spec"]["features"]["attributes"]
        elements = attributes.setdefault(names.FEATURE_VALIDATION, {"elements": {}})["elements"]
        for name in validation.of_role(elements, role):
            del elements[name]
        elements[role] = result
        elements.update({validation.key(role, name): value for name, value in told.items()})

    def silence(self, on: str = NODE) -> None:
        self.drop(resources.NODEFEATURE, f"{names.NAMESPACE}/{names.agent_feature(on)}")

    def inventory(self, *, cards: int = 1, managed: bool = True, on: str = NODE) -> None:
        """What gpu-inventory-controller says of the node."""
        old = self.objects.get(("GPUNodeInventory", on), {}).get("status", {})
        ours = {"type": "ManagedDisabled", "status": str(not managed), "reason": "X"}
        conditions = [ours, *(c for c in old.get("conditions", []) if c["type"] != "ManagedDisabled")]
        devices = [
            {"name": device_name(on, n), "inventoryID": f"{on}-{address(n)}", "address": address(n)}
            for n in range(cards)
        ]
        status = {**old, "hw": {"present": cards > 0, "devices": devices}, "conditions": conditions}
        meta = {"name": on, "generation": 1}
        self.put(resources.GPUNODEINVENTORY, {"metadata": meta, "spec": {"nodeName": on}, "status": status})

    def device(self, reason: str = "Complete", *, on: str = NODE, number: int = 0, **status: Any) -> None:
        """A card whose InventoryIncomplete has that reason; `status` changes fields of its status."""
        old = self.objects.get(("GPUDevice", device_name(on, number)), {})
        known = old.get("status", {})
        ours = {"type": "InventoryIncomplete", "status": str(reason != "Complete"), "reason": reason}
        conditions = [ours, *(c for c in known.get("conditions", []) if c["type"] != "InventoryIncomplete")]
        hardware = {
            "uuid": "GPU-1", "pci": {"vendor": "10de", "device": "2330", "class": "0302", "address": address(number)},
            "computeCapability": {"major": 9, "minor": 0},
        }  # fmt: skip
        first = {"nodeName": on, "inventoryID": f"{on}-{address(number)}", "hardware": hardware}
        made = {**first, **known, **status, "conditions": conditions}
        meta = {"annotations": {}, **old.get("metadata", {}), "name": device_name(on, number), "generation": 1}
        found = {key: value for key, value in made.items() if value is not None}
        self.put(resources.GPUDEVICE, {"metadata": meta, "status": found})

    def pooled(self, pool: str | None, *, on: str = NODE, number: int = 0) -> None:
        """The card is in that pool, or in none."""
        self.device(on=on, number=number, poolRef=pool and {"name": pool, "resource": names.resource_name(pool)})

    def used(self, *, on: str = NODE, number: int = 0) -> None:
        """A pod uses the card."""
        one = {"podUID": "1", "namespace": "default", "pod": "train", "container": "main", "slots": 1}
        self.device(on=on, number=number, allocations=[one])

    def mig(self, phase: str | None, *, board: str = "20b0", on: str = NODE, number: int = 0) -> None:
        """How far the MIG manager is with a card of that model; None where it never had to do with it."""
        hardware = {"uuid": "GPU-1", "pci": {"vendor": "10de", "device": board, "class": "0302"}}
        hardware["pci"] |= {"address": address(number)}
        self.device(on=on, number=number, hardware=hardware, migApply=phase and {"version": "v", "phase": phase})

    def board(self, on: str = NODE, number: int = 0) -> str:
        """The device id of a card."""
        return str(self.objects["GPUDevice", device_name(on, number)]["status"]["hardware"]["pci"]["device"])

    def hear(self, what: str, *, on: str = NODE, number: int = 0, validated: bool = True, times: int = 1) -> None:
        """What the ward makes of samples of a card (or its silence) and of a command at it."""
        name = device_name(on, number)
        for _ in range(times):
            asked = self.annotations(name).get(names.RETURN) == "true"
            before = self.memory.get(name) or judge.remember(None, None, self.now)
            made = judge.judge(before, SAMPLES[what], LIMITS, self.now, validated=validated, return_asked=asked)
            self.memory[name] = made.memory

    def annotations(self, device: str = DEVICE) -> dict[str, str]:
        return self.objects.get(("GPUDevice", device), {}).get("metadata", {}).get("annotations", {})

    def pod(self, component: str, *, ready: bool = True, on: str = NODE) -> None:
        """A component's pod on the node."""
        app = names.DISCOVER_DAEMONSET if component == "discover" else f"gpu-{component}"
        labels = {names.LABEL_COMPONENT: component, names.LABEL_APP: app}
        meta = {"name": f"{component}-{on}", "namespace": names.NAMESPACE, "labels": labels}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        self.put(resources.POD, {"metadata": meta, "spec": {"nodeName": on}, "status": status})

    def kubelet(self, on: str = NODE) -> None:
        """Pods of the components whose gates are open become ready, the others go."""
        for component in COMPONENTS:
            if component in self.gates(on):
                self.pod(component, on=on)
            else:
                self.drop(resources.POD, f"{names.NAMESPACE}/{component}-{on}")
        if "dcgm-exporter" not in self.gates(on):
            self.answers[on] = None
        elif self.answers.get(on) is None:
            self.answers[on] = True

    def gates(self, on: str = NODE) -> list[str]:
        """Components whose gate is open, in order."""
        labels = self.objects["Node", on]["metadata"]["labels"]
        return [component for component in COMPONENTS if labels.get(names.deploy_label(component)) == "true"]

    def view(self) -> World:
        stores = {}
        for name, (resource, record) in KINDS.items():
            store: Store[Any] = Store(resource.kind)
            store.replace(self.all(resource, record), 1)
            stores[name] = store
        return World(**stores)

    def plan(self, on: str = NODE, fuses: Fuses | None = None) -> Plan:
        """Plan as a process that has just started, or with the fuses of one that runs."""
        world = self.view()
        known = [one.name for one in world.cards(on) if one.name in self.memory]
        cards = {name: CardNews(self.memory[name], self.warnings) for name in known}
        heard = Telemetry(self.answers.get(on), self.now, blind=self.blind, found=self.found, cards=cards)
        seen = world.node(on, heard)
        found = plan.assess(seen, self.settings, self.now, enabled=self.enabled)
        held = (fuses or self.fuses(world)).ask(seen, found)
        return plan.plan(seen, found, held, LIMITS, self.now)

    def fuses(self, world: World) -> Fuses:
        return Fuses(world, lambda: self.settings.health.max_unavailable_percent)

    def plan_components(self) -> Plan:
        return components.plan(self.view().operands(), self.settings.bootstrap, enabled=self.enabled)

    def step(self, stop_after: int | None = None, on: str = NODE) -> Plan:
        """Plan and execute once, or only the first writes of the plan."""
        made = self.plan(on)
        self.execute(made.actions, names.MANAGER_BOOTSTRAP, stop_after)
        return made

    def prepare(self, on: str = NODE) -> None:
        """A managed node with everything ready."""
        self.node(on=on)
        self.report(on=on)
        self.inventory(on=on)
        self.device(on=on)
        self.pod("discover", on=on)
        for _ in (*COMPONENTS, ""):
            self.step(on=on)
            self.kubelet(on)
        self.step(on=on)

    def status(self, on: str = NODE) -> dict[str, Any]:
        return self.objects["GPUNodeInventory", on]["status"]

    def condition(self, kind: str, on: str = NODE) -> tuple[str, str]:
        """Status and reason of one of the node's conditions."""
        return next((c["status"], c["reason"]) for c in self.status(on)["conditions"] if c["type"] == kind)

    def pooling(self, on: str = NODE) -> tuple[str, str]:
        """Status and reason of ReadyForPooling."""
        return self.condition("ReadyForPooling", on)

    def message(self, kind: str, on: str = NODE) -> str:
        return next(c["message"] for c in self.status(on)["conditions"] if c["type"] == kind)

    def faulted(self, on: str = NODE, number: int = 0) -> tuple[str, str] | None:
        """Status and reason of a card's condition Faulted."""
        conditions = self.objects["GPUDevice", device_name(on, number)]["status"]["conditions"]
        return next(((c["status"], c["reason"]) for c in conditions if c["type"] == "Faulted"), None)

    def end(self) -> dict[Any, Any]:
        """The state, without what differs from run to run."""
        objects = copy.deepcopy(self.objects)
        for obj in objects.values():
            del obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
            conditions = obj.get("status", {}).get("conditions", [])
            conditions.sort(key=lambda one: one["type"])
        return objects
