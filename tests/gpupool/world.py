"""A cluster in memory for the pool controller's planners, with a plugin and a scheduler played."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from controllers.api import names, resources
from controllers.api.conditions import INVENTORY_INCOMPLETE, is_true
from controllers.api.gpudevice import GPUDevice, Published
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import AllocationSpec, GPUPool
from controllers.api.kube import ConfigMap, DaemonSet, Node, Pod
from controllers.api.settings import Settings
from controllers.api.tenant import TenantPod, UnadmittedPod
from controllers.components import cooldown
from controllers.domain import mig, plugin_settings
from controllers.domain.allocation import applied, slots_under
from controllers.domain.lifecycle import TRANSITIONS, Facts, apply_transition, facts_of, is_allowed, live
from controllers.domain.request import pools_of
from controllers.domain.usage import Unreported, is_clear, unreported
from controllers.gpupool.__main__ import UNADMITTED
from controllers.gpupool.node import taints
from controllers.gpupool.node.plan import plan_node
from controllers.gpupool.pool.card_status import plan_card_status
from controllers.gpupool.pool.plan import plan_pool
from controllers.gpupool.pool.status_plan import plan_pool_status
from controllers.gpupool.queue import pending_pods, reservations
from controllers.gpupool.views import ObservedPool
from controllers.gpupool.world import World
from controllers.runtime.plan import Action, Apply, JSONPatch, Merge, Plan, PlanBuilder
from tests.kit import conditions, objects, process
from tests.kit.cluster import ConflictError
from tests.kit.manifests import body
from tests.kit.objects import condition
from tests.kit.pods import asking
from tests.kit.storage import Json, decoded

KINDS: dict[str, tuple[resources.Resource, type[Any]]] = {
    "pools": (resources.GPUPOOL, GPUPool),
    "devices": (resources.GPUDEVICE, GPUDevice),
    "inventories": (resources.GPUNODEINVENTORY, GPUNodeInventory),
    "nodes": (resources.NODE, Node),
    "pods": (resources.POD, TenantPod),
    "unadmitted": (resources.POD, UnadmittedPod),
    "configs": (resources.CONFIGMAP, ConfigMap),
    "daemonsets": (resources.DAEMONSET, DaemonSet),
}
AUTOMATIC: dict[str, Any] = {"deviceAssignment": {"requireAnnotation": False}}
"""Of the spec of a pool that takes cards by itself."""


POOL_LOOPS: dict[str, Callable[[ObservedPool, float], Plan]] = {
    "Pool": plan_pool,
    "PoolCards": plan_card_status,
    "PoolStatus": plan_pool_status,
}
"""The planners that the process runs for a pool, each in a loop of its own."""


def whole(seen: ObservedPool, now: float, *, status_in: float = 0.0) -> Plan:
    """What all planners of a pool want, together."""
    draft = PlanBuilder()
    for part in (plan_pool(seen, now), plan_card_status(seen, now), plan_pool_status(seen, now, status_in=status_in)):
        draft.add(*part.actions)
        if part.requeue_after is not None:
            draft.requeue_within(part.requeue_after)
    return draft.build()


class Cluster(process.Followed[World]):
    """Nodes with cards, pools and pods, and words for what happens to them."""

    settings: Settings = Settings()
    enabled: bool = True
    breaks: dict[str, str]
    """Cards (by name) that no MIG manager can divide, and why."""
    slow: set[str]
    """Cards (by name) that a MIG manager is never done with."""
    hidden: frozenset[str] = frozenset()
    """Keys of objects that the caches do not know yet, although the server has them."""
    behind: frozenset[str] = frozenset()
    """Keys of pods of which the caches do not know yet that they are on a node."""

    kinds = KINDS
    unseen: frozenset[str] = frozenset()
    """Nodes that the process that runs knew at its start and has not looked at."""
    looked_at: frozenset[str] = frozenset()
    """Nodes that it has looked at."""
    has_mps_role: bool = False
    """Whether the plugins have control daemons started and ended; else whoever tests says what they tell of them."""
    elsewhere: frozenset[str] | set[str] = frozenset()
    """Cards (by name) that the plugins do not offer, since others have them."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks, self.slow = {}, set()

    def check(self) -> None:
        """What must hold after every plan."""
        devices = self.all(resources.GPUDEVICE, GPUDevice)
        for pod in self.all(resources.POD, Pod):
            here = [d for d in devices if d.status.node_name == pod.node and d.status.pool_ref]
            if pod.node and pod.metadata.annotations.get("test/admitted-here") == pod.node:
                pools = [d.status.pool_ref.name for d in here]
                assert pod.metadata.labels[names.LABEL_POOL] in pools, f"{pod.name}'s card was taken away under it"
        for device in devices:
            published, pool = device.status.published, device.status.pool_ref
            self._check_slots(device)
            if device.status.reservations or device.status.allocations:
                assert pool is not None, f"{device.name} lost its pool while it was promised or in use"
            if device.status.mps is not None:
                assert pool is not None, f"{device.name} left its pool with its control daemon"
                assert device.status.mps.pool == pool.name, f"{device.name} is in {pool.name} with another's daemon"
            if published is not None:
                assert pool is not None, f"{device.name} left its pool while its plugin still offers it"
                assert published.pool == pool.name, f"{device.name} is in {pool.name}, offered for {published.pool}"

    def _check_slots(self, device: GPUDevice) -> None:
        """Nobody is promised a slot that the card does not have."""
        ref = device.status.pool_ref
        stored = self.objects.get(("GPUPool", ref.name)) if ref else None
        layout = applied(decoded(GPUPool, stored)) if stored else AllocationSpec()
        promised = sum(r.slots for r in device.status.reservations if live(r, self.now))
        assert promised <= slots_under(device, layout), f"{device.name} is promised to more pods than it has slots"

    def admit(self, action: Apply | Merge | JSONPatch, old: Json | None, new: Json) -> None:
        """What a write does to a card must be one step of the table."""
        if not isinstance(action, Merge) or action.ref.resource is not resources.GPUDEVICE or not action.subresource:
            return
        was, is_ = (decoded(GPUDevice, one) for one in (old, new))
        if was.status.mps is not None and is_.status.mps is None:
            assert self._is_away(was), f"{action.ref.name} was released with its control daemon"
        before, now = (_noted(one, self.now) for one in (was, is_))
        steps = {apply_transition(facts, name) for facts in before for name in TRANSITIONS if is_allowed(facts, name)}
        assert now & (before | steps), f"{action.ref.name} went from {before} to {now}: no step of the table"

    def _is_away(self, device: GPUDevice) -> bool:
        """Whether nobody is there who would end the card's control daemon."""
        pool, node = device.status.pool_ref, ("Node", device.status.node_name or "")
        lost = is_true(device.status.conditions, INVENTORY_INCOMPLETE)
        return lost or pool is None or node not in self.objects or ("GPUPool", pool.name) not in self.objects

    def start(self, caches: process.Caches) -> World:
        return World(**caches, clock=lambda: self.now)

    def live(self, process: World) -> None:
        process.note_changes()
        self.unseen, self.looked_at = frozenset(one.name for one in process.inventories), frozenset()
        process.candidates.complete = not self.unseen

    def view(self) -> World:
        """The caches of a process that has just started, knows everything and has looked at each node."""
        world = self._with_settings(super().view())
        for node in world.inventories:
            world.update_candidates(world.node(node.name))
        world.candidates.complete = True
        return world

    def process(self) -> World:
        return self._with_settings(super().process())

    def _with_settings(self, world: World) -> World:
        world.settings, world.enabled = self.settings, self.enabled
        return world

    def _node(self, name: str) -> Plan:
        """Look at a node as the loop of nodes does: its candidates first, and all are known once each was looked at."""
        world = self.process()
        seen = world.node(name)
        world.update_candidates(seen)
        self.unseen -= {name}
        world.candidates.complete |= not self.unseen
        self.looked_at = self.looked_at | {name} if seen.facts.inventory is not None else self.looked_at - {name}
        return plan_node(seen, self.now)

    def known_as(self, kind: str, key: str, obj: Json) -> Hashable:
        return obj["metadata"]["resourceVersion"], key in self.hidden, kind == "Pod" and key in self.behind

    def shown(self, name: str, record: type[Any], key: str, obj: Json) -> Any:
        made = decoded(record, obj) if key not in self.hidden else None
        if made is not None and name in ("pods", "unadmitted"):
            if not self._follows(name, made):
                return None
            if key in self.behind:
                made = replace(made, spec=replace(made.spec, node_name=None))
        return made

    def _follows(self, name: str, pod: Pod) -> bool:
        """Whether the process follows a pod in one of its stores."""
        assert UNADMITTED.only is not None
        if pod.metadata.namespace == names.NAMESPACE:
            return False
        admitted = names.LABEL_POOL in pod.metadata.labels
        return admitted if name == "pods" else not admitted and bool(UNADMITTED.only(pod))

    def node(self, name: str, cards: int = 2, *, ready: bool = True) -> None:
        self.add(
            objects.node(name, boot=objects.BOOT),
            objects.inventory(name, conditions=[condition("ReadyForPooling", ready)]),
        )
        for number in range(cards):
            self.card(name, number)

    def card(self, node: str, number: int) -> None:
        hardware = {"memory_mib": 81559, "uuid": f"GPU-{node}-{number}", "mig": {"capable": True}}
        self.add(objects.card(node, number, managed=True, hardware=hardware))

    def pool(self, name: str, **spec: Any) -> None:
        self.add(objects.pool(name, **spec))

    def annotate(self, device: str, pool: str | None) -> None:
        with self.edit("GPUDevice", device) as card:
            annotations = card["metadata"].setdefault("annotations", {})
            if pool is None:
                annotations.pop(names.ASSIGNMENT, None)
            else:
                annotations[names.ASSIGNMENT] = pool

    def unready(self, node: str, *, ready: bool = False) -> None:
        with self.edit("GPUNodeInventory", node) as found:
            conditions.put(found, condition("ReadyForPooling", ready))

    def fault(self, device: str, *, faulted: bool = True) -> None:
        with self.edit("GPUDevice", device) as card:
            conditions.put(card, condition("Faulted", faulted))

    def reserve(self, card: str, request: str = "r", *, pod: str = "p", seconds: float = 15, **more: Any) -> None:
        """The webhook promises slots of a card; `more` is of the entry."""
        times = {"since": self.now, "until": self.now + seconds}
        entry = objects.reservation(request, pod=pod, **{"namespace": "default", **times, **more})
        with self.edit("GPUDevice", card) as found:
            found["status"].setdefault("reservations", []).append(body(entry))

    def allocate(self, card: str, pod: str = "p", *, slots: int = 1) -> None:
        """A plugin tells that a pod has slots of a card, under the pod's uid where it is there."""
        stored = self.objects.get(("Pod", f"default/{pod}"))
        uid = stored["metadata"]["uid"] if stored else f"uid-of-{pod}"
        entry = objects.allocation(pod, uid, namespace="default", slots=slots)
        with self.edit("GPUDevice", card) as found:
            found["status"].setdefault("allocations", []).append(body(entry))

    def delete_pool(self, name: str) -> None:
        if ("GPUPool", name) in self.objects:
            with self.edit("GPUPool", name) as pool:
                pool["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
            self._collect()

    def pod(
        self, name: str, pool: str, request: str, node: str | None = None, phase: str = "Pending", **spec: Any
    ) -> None:
        meta = {"name": name, "labels": {names.LABEL_POOL: pool}, "annotations": {names.REQUEST_ID: request}}
        self._pod(meta, (pool,), node, phase, spec)

    def unadmitted(self, name: str, *pools: str, node: str | None = None, label: str | None = None) -> None:
        """A pod that came to ask for these pools after its creation: without our marks, or admitted to another pool."""
        marks = {"labels": {names.LABEL_POOL: label}, "annotations": {names.REQUEST_ID: name}} if label else {}
        self._pod({"name": name, **marks}, pools, node, "Pending", {})

    def _pod(
        self, meta: dict[str, Any], pools: tuple[str, ...], node: str | None, phase: str, more: dict[str, Any]
    ) -> None:
        spec = {"containers": [asking(*pools)], **more} | ({"nodeName": node} if node else {})
        self.put(resources.POD, {"metadata": meta, "spec": spec, "status": {"phase": phase}})

    def pools(self) -> set[str]:
        return {name for kind, name in self.objects if kind == "GPUPool"}

    def fit(self, device: str) -> bool:
        card = self.objects["GPUDevice", device]
        node = self.objects["GPUNodeInventory", card["status"]["nodeName"]]
        return not conditions.holds(card, "Faulted") and conditions.holds(node, "ReadyForPooling")

    def bound_to(self, node: str | None) -> bool:
        return any(pod.node == node for pod in self.all(resources.POD, Pod))

    def waiting(self) -> list[Pod]:
        return [pod for pod in self.all(resources.POD, Pod) if pod.node is None]

    def plugin(self) -> None:
        """Every node's plugin does what its pool's ConfigMap says: withdraw first, then offer."""
        for config in self.all(resources.CONFIGMAP, ConfigMap):
            pool = config.metadata.labels.get(names.LABEL_POOL, "")
            allowed = set(config.data.get(names.ALLOWED_DEVICES, "").split("\n"))
            settings = plugin_settings.read(pool, config.data.get(names.PLUGIN_SETTINGS, ""))
            for device in self.all(resources.GPUDEVICE, GPUDevice):
                card = device.status.inventory_id or ""
                asked = settings if card in allowed and device.name not in self.elsewhere else None
                if self.has_mps_role and self._has_other_daemon(device, pool, asked):
                    asked = None
                self._publish(device, pool, asked.of(card) if asked else None)

    def _has_other_daemon(self, device: GPUDevice, pool: str, asked: plugin_settings.PluginSettings | None) -> bool:
        """Play the MPS role; returns whether the card has a daemon with which it is not to be offered.

        A daemon comes before the card is offered, and goes once nobody can be using it.
        """
        ref, daemon = device.status.pool_ref, device.status.mps
        if ref is None or ref.name != pool:
            return daemon is not None
        wanted = asked is not None and asked.mode == "MPS"
        if wanted and daemon is None:
            with self.edit("GPUDevice", device.name) as card:
                card["status"]["mps"] = {"pool": pool, "phase": "Ready"}
        elif daemon is not None and not wanted and is_clear(device, self._unreported(pool), self.now):
            with self.edit("GPUDevice", device.name) as card:
                del card["status"]["mps"]
        return daemon is not None and not wanted

    def _unreported(self, pool: str) -> Unreported:
        members = [d for d in self.all(resources.GPUDEVICE, GPUDevice) if d.status.pool_ref]
        pods = [pod for pod in self.all(resources.POD, TenantPod) if pool in pools_of(pod)]
        return unreported(pool, [d for d in members if d.status.pool_ref and d.status.pool_ref.name == pool], pods)

    def _publish(self, device: GPUDevice, pool: str, wanted: Published | None) -> None:
        published, key = device.status.published, ("GPUDevice", device.name)
        if published is not None and published.pool == pool and wanted is None:
            del self.objects[key]["status"]["published"]
            self.touch(key)
        elif wanted is not None and published != wanted and (published is None or published.pool == pool):
            self.objects[key]["status"]["published"] = body(wanted)
            self.touch(key)

    def mig_manager(self) -> None:
        """Every node's MIG managers do what its layout says, where a pool that is on the node has one."""
        for config in self.all(resources.CONFIGMAP, ConfigMap):
            layout = mig.read(config.data) if names.MIG_CARDS in config.data else None
            node = config.metadata.owner_references[0].name if layout else ""
            if layout is None or not self._has_manager(node):
                continue
            for device in self.all(resources.GPUDEVICE, GPUDevice):
                address = device.status.hardware.pci.address if device.status.hardware else ""
                part = next((card for card in layout.cards if card.address == address), None)
                if device.status.node_name == node and part is not None:
                    self._divide(device, part)

    def boot(self, node: str) -> str:
        """The node's present boot."""
        found: str = self.objects["Node", node]["status"]["nodeInfo"]["bootID"]
        return found

    def reboot(self, node: str, *, keeps_mode: bool = True) -> None:
        """A machine starts anew: its cards have no instances, and keep MIG mode or not as their model does."""
        with self.edit("Node", node) as found:
            info = found["status"]["nodeInfo"]
            info["bootID"] = f"{info['bootID']}+"
        for device in self.all(resources.GPUDEVICE, GPUDevice):
            if device.status.node_name == node:
                with self.edit("GPUDevice", device.name) as card:
                    told = card["status"]["hardware"]["mig"]
                    told |= {"enabled": bool(told.get("enabled")) and keeps_mode, "types": []}

    def _has_manager(self, node: str) -> bool:
        stored = self.objects.get(("Node", node), {"metadata": {}})
        prefix = names.pool_node_label("")
        pools = [key.removeprefix(prefix) for key in stored["metadata"].get("labels", {}) if key.startswith(prefix)]
        return any(("DaemonSet", f"{names.NAMESPACE}/{names.mig_manager(pool)}") in self.objects for pool in pools)

    def _divide(self, device: GPUDevice, part: mig.PlannedCard) -> None:
        told, status = device.status.mig_apply, self.objects["GPUDevice", device.name]["status"]
        if part.layout is None:
            return
        if told is not None and told.version == part.version and told.phase in ("Done", "Failed", "Lost"):
            boot, card = self.boot(device.status.node_name or ""), mig.card_of(device)
            if told.boot_id != boot and card is not None and card.actual is not None:
                phase = "Done" if card.actual == part.layout else "Lost"
                status["migApply"] = {
                    "version": part.version,
                    "phase": phase,
                    "bootID": boot,
                    "reason": "DriverReloaded",
                }
                self.touch(("GPUDevice", device.name))
            return
        assert device.status.published is None, f"{device.name} is to be divided while it is offered"
        assert not device.status.allocations, f"{device.name} is to be divided while a pod uses it"
        said: dict[str, Any] = {"version": part.version, "bootID": self.boot(device.status.node_name or "")}
        if (why := self.breaks.get(device.name)) is not None:
            said |= {"phase": "Failed", "reason": why}
        elif device.name in self.slow:
            said = {"version": part.version, "phase": "Applying"}
        else:
            said |= {"phase": "Done"}
            types = [{"name": name, "count": count} for name, count in part.layout.instances.items()]
            status["hardware"]["mig"] |= {"enabled": part.layout.enabled, "types": types}
        if status.get("migApply") != said:
            status["migApply"] = said
            self.touch(("GPUDevice", device.name))

    def plans(self) -> list[Plan]:
        """What every planner wants now, each from a view of its own as in the process."""
        made: list[Plan] = []
        for pool in self.all(resources.GPUPOOL, GPUPool):
            if (seen := self.view().pool(pool.name)) is not None:
                made.append(whole(seen, self.now))
        made += [
            plan_node(self.view().node(n.name), self.now)
            for n in self.all(resources.GPUNODEINVENTORY, GPUNodeInventory)
        ]
        for device in self.all(resources.GPUDEVICE, GPUDevice):
            if (card := self.view().card(device.name)) is not None:
                made.append(reservations.plan_card(card, self.now))
        return made + [self.planned(*key) for key in self.all_keys() if key[0] in ("Node", "Queue")]

    def settle(self, rounds: int = 20) -> None:
        """Let planners and plugins work until nobody wants anything."""
        for _ in range(rounds):
            writes = self.writes
            for key in self.all_keys():
                made = self.planned(*key)
                try:
                    self.execute(made.actions, names.MANAGER_POOL)
                    if any(names.MIG_CARDS in _data(action) for action in made.writes):
                        self.now += 0.001  # a write takes time: no two versions of a layout are of one moment
                except ConflictError:
                    self.writes += 1  # comes again, as in the process
                self.check()
            self.plugin()
            self.mig_manager()
            self._collect()
            if self.writes == writes:
                if not any(made.writes for made in self.plans()):
                    self._knows_the_candidates()
                    return
                self.now += cooldown.COOLDOWN  # the process waits for something that one which starts does not know of
        left = [action for made in self.plans() for action in made.writes]
        raise AssertionError(f"it does not settle; still wanted: {left}")

    def _knows_the_candidates(self) -> None:
        """A process that has lived through everything knows the candidates that one knows which has just started."""
        lived, fresh = self.process().candidates, self.view().candidates
        for pool in self.pools():
            assert lived.of(pool) == fresh.of(pool), f"the candidates of {pool} were kept wrong"
            assert lived.mig_fit(pool) == fresh.mig_fit(pool), f"how cards suit {pool} was kept wrong"

    def all_keys(self) -> list[tuple[str, str]]:
        """The keys of all loops, as the process has them: of a pool each by itself."""
        of_pools = [(loop, name) for kind, name in self.objects if kind == "GPUPool" for loop in (*POOL_LOOPS, "Queue")]
        # A node of which the summary is gone is looked at once more.
        known = self.unseen | self.looked_at | {name for kind, name in self.objects if kind == "GPUNodeInventory"}
        of_nodes = [("GPUNodeInventory", name) for name in known]
        return sorted([*of_pools, *of_nodes, *(key for key in self.objects if key[0] in ("GPUDevice", "Node"))])

    def planned(self, kind: str, name: str) -> Plan:
        """What a loop wants of a key now; of a pool, kind `GPUPool` is all of its loops together."""
        world = self.process()
        if kind == "GPUPool" or kind in POOL_LOOPS:
            seen = world.pool(name)
            planner = POOL_LOOPS.get(kind, whole)
            return planner(seen, self.now) if seen else Plan()
        if kind == "GPUNodeInventory":
            return self._node(name)
        if kind == "Queue":
            queue = world.queue(name, {})
            return pending_pods.plan_pending_pods(queue, self.now).plan if queue else Plan()
        if kind == "Node":
            place = world.taints(name, self.now)
            return taints.plan_taints(place) if place else Plan()
        card = world.card(name)
        return reservations.plan_card(card, self.now) if card else Plan()

    def _collect(self) -> None:
        """A deleted pool goes when its last finalizer does."""
        for (kind, name), obj in list(self.objects.items()):
            if kind == "GPUPool" and obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers"):
                self.drop(resources.GPUPOOL, name)


def _data(action: Action) -> dict[str, Any]:
    found: dict[str, Any] = action.body.get("data", {}) if isinstance(action, Apply) else {}
    return found


def _noted(device: GPUDevice, now: float) -> set[Facts]:
    """A card's facts, of which time may have ended the reservations although they are still noted."""
    return {facts_of(device, now), replace(facts_of(device, now), reserved=bool(device.status.reservations))}
