"""A cluster in memory for the bootstrap planners: inventory, kubelet, agents and exporters are played."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import orjson

from controllers.api import foreign, names, resources, validation
from controllers.api.agent_report import Report
from controllers.api.components import EXPORTER
from controllers.api.foreign import ForeignDaemonSet, ForeignPod
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import ConfigMap, Node
from controllers.api.settings import Settings
from controllers.bootstrap import components
from controllers.bootstrap.health.dcgm_parser import CardSample
from controllers.bootstrap.health.evaluate import CardEvaluation, evaluate
from controllers.bootstrap.health.ingest import ingest
from controllers.bootstrap.health.limits import Limits
from controllers.bootstrap.health.recall import recall_state, recall_verdict
from controllers.bootstrap.preparation.phases import PHASES
from controllers.bootstrap.readiness.disruption_budget import DisruptionBudget
from controllers.bootstrap.readiness.node_pass import NodePass, pass_over_node
from controllers.bootstrap.readiness.runtime_restarts import RuntimeRestarts
from controllers.bootstrap.records import Card, CardStatus, Operand, Pod, RuntimeClass
from controllers.bootstrap.telemetry_records import CardTelemetry, Heartbeat, NodeTelemetry
from controllers.bootstrap.world import World
from controllers.runtime.plan import Plan
from tests.kit import conditions, objects, patches, process
from tests.kit.manifests import body
from tests.kit.objects import BOOT, allocation, condition, pool_ref
from tests.kit.reports import report, reported
from tests.kit.storage import Json, decoded

KINDS: dict[str, tuple[resources.Resource, type[Any]]] = {
    "nodes": (resources.NODE, Node),
    "features": (resources.NODEFEATURE, Report),
    "inventories": (resources.GPUNODEINVENTORY, GPUNodeInventory),
    "devices": (resources.GPUDEVICE, Card),
    "pods": (resources.POD, Pod),
    "daemonsets": (resources.DAEMONSET, Operand),
    "configmaps": (resources.CONFIGMAP, ConfigMap),
    "runtime_classes": (resources.RUNTIMECLASS, RuntimeClass),
    "foreign": (resources.POD, ForeignPod),
    "driver_daemonsets": (resources.DAEMONSET, ForeignDaemonSet),
}
SCOPES: dict[str, Callable[[Any], bool]] = {
    "pods": lambda pod: pod.metadata.namespace == names.NAMESPACE,
    "foreign": lambda pod: foreign.part_of(pod.metadata.labels) is not None,
    "daemonsets": lambda made: made.metadata.namespace == names.NAMESPACE,
    "driver_daemonsets": lambda made: foreign.part_of(made.metadata.labels) == "driver",
}
"""What of a kind a cache has."""
NODE = "worker-01"


def _all(_: object) -> bool:
    return True


COMPONENTS = [phase.name for phase in PHASES]
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
    return objects.address(0x17 + number)


def device_name(on: str = NODE, number: int = 0) -> str:
    """The name of a card's object."""
    return objects.card(on, address(number)).name


def recall_from(recorded: CardStatus, now: float) -> CardEvaluation:
    """What a restarted controller knows of a card."""
    return CardEvaluation(recall_state(recorded, now), recall_verdict(recorded))


class Cluster(process.Followed[World]):
    """Nodes, and words for what happens to them; `on` names the one that is meant."""

    kinds = KINDS

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.enabled = True
        """Whether the module is."""
        self.answers: dict[str, bool | None] = {}
        """What the monitor knows of each node's exporter."""
        self.found = ""
        """What its last scrape found."""
        self.blind = False
        self.memory: dict[str, CardEvaluation] = {}
        """What the monitor knows of cards, by their names."""
        self.warnings: tuple[str, ...] = ()

    def node(self, *, ready: bool = True, boot: str = BOOT, on: str = NODE) -> None:
        old = self.objects.get(("Node", on), {})
        labels = old.get("metadata", {}).get("labels", {"example.com/own": "stays"})
        self.add(objects.node(on, ready=ready, labels=labels, boot=boot))
        if (said := conditions.find(old, names.NODE_READY)) is not None:
            self.objects["Node", on]["status"]["conditions"].append(said)

    def report(
        self, *, driver: str = "580.65.06", cuda: str = "13.0", toolkit: str = "true", boot: str = BOOT, on: str = NODE
    ) -> None:
        """The agent's report; what the validators said stays in it."""
        old = self.objects.get(("NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(on)}"))
        made = report(on, [reported(0)], driver=driver, boot=boot, cuda=cuda, toolkit=toolkit)
        attributes = made["spec"]["features"]["attributes"]
        if old and (said := old["spec"]["features"]["attributes"].get(names.FEATURE_VALIDATION)):
            attributes[names.FEATURE_VALIDATION] = said
        self.put(resources.NODEFEATURE, made)

    def tell_runtime(self, state: str, message: str = "", *, kind: str = "containerd", on: str = NODE) -> None:
        """What the toolkit's pod tells of the node's container runtime; empty where it tells nothing."""
        key = ("NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(on)}")
        elements = self.objects[key]["spec"]["features"]["attributes"][names.FEATURE_TOOLKIT]["elements"]
        told = {"runtime_state": state, "runtime_message": message, "runtime_kind": kind}
        elements.update({name: value for name, value in told.items() if value})

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
        found = body(objects.inventory(on, [objects.card(on, address(n)) for n in range(cards)]))
        known = self.objects.get(("GPUNodeInventory", on), {}).get("status", {})
        found["status"] = {**known, **found["status"]}
        conditions.put(found, condition("ManagedDisabled", not managed))
        self.put(resources.GPUNODEINVENTORY, found)

    def device(self, reason: str = "Complete", *, on: str = NODE, number: int = 0, **status: Any) -> None:
        """A card whose InventoryIncomplete has that reason; `status` changes fields of its status."""
        capability = {"major": 9, "minor": 0}
        first = objects.card(on, address(number), hardware={"uuid": "GPU-1", "compute_capability": capability})
        if (key := ("GPUDevice", first.name)) not in self.objects:
            self.add(first)
        with self.edit(*key) as card:
            patches.merge(card["status"], status)
            conditions.put(card, condition("InventoryIncomplete", reason != "Complete", reason))

    def pooled(self, pool: str | None, *, on: str = NODE, number: int = 0) -> None:
        """The card is in that pool, or in none."""
        self.device(on=on, number=number, poolRef=pool and body(pool_ref(pool)))

    def used(self, *, on: str = NODE, number: int = 0) -> None:
        """A pod uses the card."""
        self.device(on=on, number=number, allocations=[body(allocation("train"))])

    def mig(self, phase: str | None, *, board: str = "20b0", on: str = NODE, number: int = 0) -> None:
        """How far the MIG manager is with a card of that model; None where it never had to do with it."""
        hardware = {"pci": {"device": board}, "computeCapability": None}
        self.device(on=on, number=number, hardware=hardware, migApply=phase and {"version": "v", "phase": phase})

    def board(self, on: str = NODE, number: int = 0) -> str:
        """The device id of a card."""
        return str(self.objects["GPUDevice", device_name(on, number)]["status"]["hardware"]["pci"]["device"])

    def hear(self, what: str, *, on: str = NODE, number: int = 0, validated: bool = True, times: int = 1) -> None:
        """What the monitor and the planner make of samples of a card (or its silence) and of a command at it."""
        name = device_name(on, number)
        for _ in range(times):
            self.memory[name] = self.sampled(name, SAMPLES[what], validated=validated)

    def sampled(self, name: str, sample: CardSample | None, *, validated: bool = True) -> CardEvaluation:
        """A card's evaluation after one more sample, or after none."""
        known = self.memory.get(name) or recall_from(CardStatus(), self.now)
        state = known.state if sample is None else ingest(known.state, sample, LIMITS, self.now)
        asked = self.annotations(name).get(names.RETURN) == "true"
        return evaluate(state, known.verdict, LIMITS, self.now, validated=validated, return_asked=asked)

    def annotations(self, device: str = DEVICE) -> dict[str, str]:
        found: dict[str, str] = self.objects.get(("GPUDevice", device), {}).get("metadata", {}).get("annotations", {})
        return found

    def pod(self, component: str, *, ready: bool = True, on: str = NODE) -> None:
        """A component's pod on the node."""
        app = names.DISCOVER_DAEMONSET if component == "discover" else f"gpu-{component}"
        labels = {names.LABEL_COMPONENT: component, names.LABEL_APP: app}
        meta = {"name": f"{component}-{on}", "namespace": names.NAMESPACE, "labels": labels}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        spec = {"nodeName": on, "containers": [{"name": component, "image": f"registry.local/{component}:v1"}]}
        self.put(resources.POD, {"metadata": meta, "spec": spec, "status": status})

    def kubelet(self, on: str = NODE) -> None:
        """Pods of the components whose gates are open become ready, the others go."""
        for component in COMPONENTS:
            if component in self.gates(on):
                self.pod(component, on=on)
            else:
                self.drop(resources.POD, f"{names.NAMESPACE}/{component}-{on}")
        if EXPORTER not in self.gates(on):
            self.answers[on] = None
        elif self.answers.get(on) is None:
            self.answers[on] = True

    def gates(self, on: str = NODE) -> list[str]:
        """Components whose gate is open, in order."""
        labels = self.objects["Node", on]["metadata"]["labels"]
        return [component for component in COMPONENTS if labels.get(names.deploy_label(component)) == "true"]

    def start(self, caches: process.Caches) -> World:
        return World(**caches)

    def shown(self, name: str, record: type[Any], key: str, obj: Json) -> Any:  # noqa: ARG002 - whatever its key
        made = decoded(record, obj)
        return made if SCOPES.get(name, _all)(made) else None

    def known_as(self, kind: str, key: str, obj: Json) -> Hashable:  # noqa: ARG002 - whatever it is
        return orjson.dumps(obj)  # tests change objects in their places, too

    def plan(
        self, on: str = NODE, budget: DisruptionBudget | None = None, restarts: RuntimeRestarts | None = None
    ) -> Plan:
        """Plan as a process that has just started, or with the budgets of one that runs."""
        world = self.view()
        return self.passed(world, on, budget or self.budget(world), restarts or self.restarts(world)).plan

    def passed(self, world: World, on: str, budget: DisruptionBudget, restarts: RuntimeRestarts) -> NodePass:
        """What a pass over a node comes to."""
        seen = world.node(on, self._telemetry(on, world))
        return pass_over_node(
            *(seen, LIMITS, self.settings, self.now), budget=budget, restarts=restarts, enabled=self.enabled
        )

    def _telemetry(self, on: str, world: World) -> NodeTelemetry:
        """What the monitor would show of a node."""
        ready = self.answers.get(on)
        known = [one.name for one in world.cards(on) if one.name in self.memory]
        cards = {name: self._warned(self.memory[name]) for name in known}
        is_monitored = ready is not None or self.blind
        return NodeTelemetry(
            Heartbeat(self.now, ready, last=self.now if ready else None) if is_monitored else None,
            is_outage=self.blind,
            error=self.found,
            cards={name: CardTelemetry(made.state, made.verdict) for name, made in cards.items()},
        )

    def _warned(self, known: CardEvaluation) -> CardEvaluation:
        return replace(known, state=replace(known.state, warnings=self.warnings))

    def budget(self, world: World) -> DisruptionBudget:
        return DisruptionBudget(world.fleet, lambda: self.settings.health.max_unavailable_percent)

    def restarts(self, world: World) -> RuntimeRestarts:
        return RuntimeRestarts(world.inventories, lambda: self.settings.bootstrap.container_toolkit.runtime_restarts)

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
        found: dict[str, Any] = self.objects["GPUNodeInventory", on]["status"]
        return found

    def condition(self, kind: str, on: str = NODE) -> tuple[str, str]:
        """Status and reason of one of the node's conditions."""
        return conditions.state_of(self.objects["GPUNodeInventory", on], kind)

    def pooling(self, on: str = NODE) -> tuple[str, str]:
        """Status and reason of ReadyForPooling."""
        return self.condition("ReadyForPooling", on)

    def message(self, kind: str, on: str = NODE) -> str:
        return conditions.message(self.objects["GPUNodeInventory", on], kind)

    def faulted(self, on: str = NODE, number: int = 0) -> tuple[str, str] | None:
        """Status and reason of a card's condition Faulted."""
        found = conditions.find(self.objects["GPUDevice", device_name(on, number)], "Faulted")
        return (found["status"], found["reason"]) if found else None


class Lived(Cluster):
    """The same, with plans of a process that lives on, as gpu-bootstrap-controller's loop makes and remembers them.

    What telemetry showed is the cluster's and outlives the process; the budget and the turns go with it.
    """

    _memories: tuple[DisruptionBudget, RuntimeRestarts] | None = None

    def live(self, process: World) -> None:
        self._memories = self.budget(process), self.restarts(process)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_memories": None}

    def plan(
        self, on: str = NODE, budget: DisruptionBudget | None = None, restarts: RuntimeRestarts | None = None
    ) -> Plan:
        world = self.process()
        assert self._memories is not None
        made = self.passed(world, on, budget or self._memories[0], restarts or self._memories[1])
        self.memory |= made.health.cards
        return made.plan

    def plan_anew(self, on: str = NODE) -> Plan:
        """Plan as a process that has just started, with the same telemetry."""
        return Cluster.plan(self, on)

    def step(self, stop_after: int | None = None, on: str = NODE) -> Plan:
        made = super().step(stop_after, on)
        if stop_after is None:  # events of its warnings were sent
            told = {card.name for card in self.process().cards(on)} & self.memory.keys()
            self.memory |= {name: _without_warnings(self.memory[name]) for name in told}
        return made

    def sampled(self, name: str, sample: CardSample | None, **_: bool) -> CardEvaluation:
        """What is known of a card after one more sample; to judge it is the pass's."""
        card = self.process().devices.get(name)
        known = self.memory.get(name) or recall_from(card.status if card is not None else CardStatus(), self.now)
        return known if sample is None else replace(known, state=ingest(known.state, sample, LIMITS, self.now))

    def _warned(self, known: CardEvaluation) -> CardEvaluation:
        return known


def _without_warnings(known: CardEvaluation) -> CardEvaluation:
    return replace(known, state=replace(known.state, warnings=()))
