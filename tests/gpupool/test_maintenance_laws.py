"""The laws of Maintenance: whatever administrators, pods, nodes and crashes do, nobody admitted is overtaken."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node, Pod
from controllers.api.record import adapter
from controllers.domain.accounting import account
from controllers.domain.allocation import applied, wanted
from controllers.domain.clock import stamp_exact
from controllers.domain.eligibility import SERVED_MODES
from controllers.domain.lifecycle import live
from controllers.domain.slots import NodeSlots
from controllers.domain.usage import pool_users
from controllers.gpupool.pool.state import evaluate_pool
from tests.gpupool.machine import Controlled
from tests.gpupool.world import Cluster

NODES = ("n1", "n2")
CARDS = [f"{node}-0000-{number:02x}-00-0" for node in NODES for number in (0, 1)]
LAYOUTS: list[dict[str, Any]] = [
    {"mode": "Exclusive"},
    {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 2}},
    {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 3}, "maxDevicesPerNode": 2},
    {"mode": "MPS", "mps": {"clients": 2}},
    {"mode": "MPS", "mps": {"clients": 3}},
    {"mode": "MIG", "migProfile": "1g.10gb"},
    {"mode": "MIG", "migProfile": "3g.40gb"},
]


class Maintenance(Controlled):
    """One pool over two nodes, and everybody who has to do with it."""

    @initialize()
    def start(self) -> None:
        self.cluster = Cluster()
        self.cluster.has_mps_role = True
        for node in NODES:
            self.cluster.node(node, 2)
        self.cluster.pool("a")
        for card in CARDS:
            self.cluster.annotate(card, "a")
        self.cluster.settle()
        self.requests = 0
        self.webhook = self.pool()
        """What the webhook's cache, which may lag, knows of the pool."""
        self.admitted: dict[str, str] = {}
        """By request id: the layout under which the pod got its slots."""
        self.since: dict[str, str] = {}
        """By request id: when its reservation was made."""

    def pool(self) -> GPUPool:
        return adapter(GPUPool).validate_python(self.cluster.objects["GPUPool", "a"])

    def pods(self) -> list[Pod]:
        return self.cluster.all(resources.POD, Pod)

    def devices(self) -> list[GPUDevice]:
        return self.cluster.all(resources.GPUDEVICE, GPUDevice)

    def layout(self) -> str:
        return str(applied(self.pool()))

    def slots(self, name: str, pool: GPUPool) -> NodeSlots:
        stored = self.cluster.objects["Node", name]
        node = adapter(Node).validate_python(stored)
        cards = [device for device in self.devices() if device.status.node_name == name and device.status.pool_ref]
        return account(
            "a",
            node=node,
            node_name=name,
            devices=cards,
            pods=[pod for pod in self.pods() if pod.node],
            allocation=applied(pool),
            now=self.cluster.now,
        )

    @rule(layout=st.sampled_from(LAYOUTS))
    def change(self, layout: dict[str, Any]) -> None:
        stored = self.cluster.objects["GPUPool", "a"]
        stored["spec"]["allocation"] = layout
        stored["metadata"]["generation"] = stored["metadata"].get("generation", 1) + 1
        self.cluster.touch(("GPUPool", "a"))

    @rule()
    def webhook_catches_up(self) -> None:
        self.webhook = self.pool()

    @rule(
        node=st.sampled_from(NODES),
        units=st.integers(1, 3),
        fate=st.sampled_from(["refused", "waits", "bound", "bound"]),
    )
    def admit(self, node: str, units: int, fate: str) -> None:
        """The webhook: by a pool that it may know late, on cards of exactly the version that it decided about."""
        told = self.webhook.status.conditions
        if kinds.is_true(told, kinds.MAINTENANCE) or kinds.is_true(told, kinds.MISCONFIGURED):
            return
        slots = self.slots(node, self.webhook)
        if slots.free < units:
            return
        self.requests += 1
        request, left = f"r{self.requests}", units
        for card in slots.cards:
            if take := min(left, card.free):
                self._reserve(card.device.name, request, take)
                left -= take
        self.admitted[request] = self.layout()
        self.since[request] = stamp_exact(self.cluster.now)
        if fate != "refused":
            at = node if fate == "bound" and self.ready(node) else None
            self.cluster.pod(f"p-{request}", "a", request, node=at)
            pod = self.cluster.objects["Pod", f"default/p-{request}"]
            pod["spec"]["containers"][0]["resources"]["limits"] = {names.resource_name("a"): str(units)}

    def _reserve(self, card: str, request: str, slots: int) -> None:
        status, now = self.cluster.objects["GPUDevice", card]["status"], self.cluster.now
        device = adapter(GPUDevice).validate_python(self.cluster.objects["GPUDevice", card])
        bound = {pod.metadata.annotations[names.REQUEST_ID] for pod in self.pods() if pod.node}
        kept = [r.request_id for r in device.status.reservations if live(r, now) and r.request_id not in bound]
        status["reservations"] = [r for r in status.get("reservations", []) if r["requestID"] in kept]
        self.cluster.reserve(card, request, pod=f"p-{request}", slots=slots)

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        """The scheduler: a node that is ready and whose allocatable has room; it need not follow the webhook."""
        offered: Counter[str] = Counter()
        for device in self.devices():
            if device.status.published and self.ready(device.status.node_name or ""):
                offered[device.status.node_name or ""] += device.status.published.slots
        for pod in self.pods():
            if pod.node:
                offered[pod.node] -= self.units(pod)
        waiting = [pod for pod in self.pods() if pod.node is None]
        if not waiting:
            return
        pod = data.draw(st.sampled_from(waiting))
        room = [node for node in NODES if offered[node] >= self.units(pod)]
        if room:
            stored = self.cluster.objects["Pod", pod.key]
            stored["spec"]["nodeName"] = data.draw(st.sampled_from(room))
            self.cluster.touch(("Pod", pod.key))
            self.admitted[pod.metadata.annotations[names.REQUEST_ID]] = self.layout()

    def units(self, pod: Pod) -> int:
        return int(pod.spec.containers[0].resources.limits[names.resource_name("a")])

    def ready(self, node: str) -> bool:
        return self.cluster.objects["Node", node]["status"]["conditions"][0]["status"] == "True"

    @rule(data=st.data(), slots=st.integers(1, 2))
    def kubelet_reports(self, data: st.DataObject, slots: int) -> None:
        """One card of a bound pod at a time."""
        told = Counter[str]()
        for device in self.devices():
            for taken in device.status.allocations:
                told[taken.pod_uid] += taken.slots
        lacking = [pod for pod in self.pods() if pod.node and told[pod.metadata.uid] < self.units(pod)]
        if not lacking:
            return
        pod = data.draw(st.sampled_from(lacking))
        for device in self.devices():
            offer = device.status.published
            if device.status.node_name != pod.node or offer is None:
                continue
            free = offer.slots - sum(taken.slots for taken in device.status.allocations)
            take = min(free, slots, self.units(pod) - told[pod.metadata.uid])
            if take > 0 and all(taken.pod_uid != pod.metadata.uid for taken in device.status.allocations):
                self.cluster.allocate(device.name, pod.name, slots=take)
                return

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if pods := self.pods():
            pod = data.draw(st.sampled_from(pods))
            self.cluster.drop(resources.POD, pod.key)
            for device in self.devices():
                stored = self.cluster.objects["GPUDevice", device.name]["status"]
                left = [entry for entry in stored.get("allocations", []) if entry["podUID"] != pod.metadata.uid]
                if len(left) < len(stored.get("allocations", [])):
                    stored["allocations"] = left
                    self.cluster.touch(("GPUDevice", device.name))

    @rule(seconds=st.sampled_from([1.0, 16.0, 130.0, 4000.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.now += seconds

    @rule(what=st.sampled_from(["node", "card", "annotation"]), at=st.sampled_from(CARDS), good=st.booleans())
    def something_else_happens(self, what: str, at: str, good: bool) -> None:
        match what:
            case "node":
                stored = self.cluster.objects["Node", at[:2]]
                stored["status"]["conditions"] = [{"type": "Ready", "status": "True" if good else "Unknown"}]
                self.cluster.touch(("Node", at[:2]))
            case "card":
                self.cluster.fault(at, faulted=not good)
            case _:
                self.cluster.annotate(at, "a" if good else None)

    @rule()
    def settle_and_be_quiet(self) -> None:
        """It comes to rest and stays there: applied where nobody is in the way, else saying who is."""
        trial = copy.deepcopy(self.cluster)
        trial.settle()
        assert not any(made.writes for made in trial.plans())
        pool = adapter(GPUPool).validate_python(trial.objects["GPUPool", "a"])
        seen = trial.view().pool("a")
        assert seen is not None
        maintenance = kinds.is_true(pool.status.conditions, kinds.MAINTENANCE)
        if pool.spec.allocation.mode in SERVED_MODES:
            assert maintenance == (applied(pool) != wanted(pool))
            assert maintenance == bool(
                maintenance
                and (pool_users(seen.members, seen.pods, trial.now) or evaluate_pool(seen, trial.now).still_offered)
            )
        else:
            assert not maintenance
            assert kinds.is_true(pool.status.conditions, kinds.MISCONFIGURED)

    @invariant()
    def slots_are_promised_once(self) -> None:
        self.cluster.check()

    @invariant()
    def nobody_is_overtaken(self) -> None:
        """While a pod has its slots, the pool is as it was when it got them."""
        entries = [r for d in self.devices() for r in d.status.reservations if live(r, self.cluster.now)]
        promised = {entry.request_id for entry in entries}
        for entry in entries:
            # A pod that waited is reserved for anew, under the layout of that time.
            if self.since.get(entry.request_id) != entry.since:
                self.since[entry.request_id] = entry.since
                self.admitted[entry.request_id] = self.layout()
        bound = {pod.metadata.annotations[names.REQUEST_ID] for pod in self.pods() if pod.node}
        for request in promised | bound:
            assert self.admitted[request] == self.layout(), f"{request} was overtaken"

    @invariant()
    def capacity_adds_up(self) -> None:
        """Beyond what there is are only slots of pods that kubelet bound where others were promised them."""
        if (c := self.pool().status.capacity) is not None:
            beyond = c.used + c.reserved + c.unavailable + c.available - c.total
            assert 0 <= beyond <= c.used + c.reserved
            assert c.unavailable + c.available <= c.total


Maintenance.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMaintenance = Maintenance.TestCase
