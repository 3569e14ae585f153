"""The laws of approval where pools take cards by themselves (docs/dev/design.md, Laws of a planner; Approval)."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from controllers.api import names, resources
from controllers.api.conditions import CONFIGURED, find
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.domain.approval import is_automatic, is_ignored
from controllers.domain.clock import stamp
from controllers.domain.position import is_lost
from controllers.runtime.plan import EmitEvent
from tests.gpupool.machine import Controlled
from tests.gpupool.world import AUTOMATIC, Cluster
from tests.kit import conditions, objects

SPECS = {
    "old": {**AUTOMATIC, "allocation": {"maxDevicesPerNode": 1}},
    "new": {
        **AUTOMATIC,
        "deviceSelector": {"exclude": {"indexes": ["0"]}},
    },
    "manual": {"allocation": {"maxDevicesPerNode": 1}},
}
CARDS = [f"{node}-0000-{card:02x}-00-0" for node in ("n1", "n2") for card in (0, 1)]
BLOCKS = ("Ignored", "ManagedDisabled", "InventoryIncomplete")


class Approval(Controlled):
    """People annotate, decline and change pools; cards and nodes fail; the controller dies after any write."""

    @initialize()
    def start(self) -> None:
        self.cluster = Cluster()
        for node in ("n1", "n2"):
            self.cluster.node(node, 2)
        for pool, spec in SPECS.items():
            self.cluster.pool(pool, **copy.deepcopy(spec))

    @rule(card=st.sampled_from(CARDS), pool=st.sampled_from([*SPECS, "absent", None]))
    def annotate(self, card: str, pool: str | None) -> None:
        self.cluster.annotate(card, pool)

    @rule(card=st.sampled_from(CARDS), kind=st.sampled_from(BLOCKS), blocked=st.booleans())
    def block(self, card: str, kind: str, blocked: bool) -> None:
        conditions = self.cluster.objects["GPUDevice", card]["status"].setdefault("conditions", [])
        conditions[:] = [entry for entry in conditions if entry["type"] != kind]
        if blocked:
            conditions.append({"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": "t"})
        self.cluster.touch(("GPUDevice", card))

    @rule(card=st.sampled_from(CARDS))
    def lose(self, card: str) -> None:
        lost = objects.condition("InventoryIncomplete", reason=names.REASON_CARD_LOST)
        with self.cluster.edit("GPUDevice", card) as found:
            conditions.put(found, replace(lost, last_transition_time=stamp(self.cluster.now)))

    @rule(card=st.sampled_from(CARDS), declined=st.booleans())
    def decline(self, card: str, declined: bool) -> None:
        labels = self.cluster.objects["GPUDevice", card]["metadata"].setdefault("labels", {})
        labels.pop(names.LABEL_IGNORE, None)
        if declined:
            labels[names.LABEL_IGNORE] = "true"
        self.cluster.touch(("GPUDevice", card))

    @rule(card=st.sampled_from(CARDS), faulted=st.booleans())
    def card_fails(self, card: str, faulted: bool) -> None:
        self.cluster.fault(card, faulted=faulted)

    @rule(node=st.sampled_from(["n1", "n2"]), ready=st.booleans())
    def node_changes(self, node: str, ready: bool) -> None:
        self.cluster.unready(node, ready=ready)

    @rule(pool=st.sampled_from(list(SPECS)))
    def delete(self, pool: str) -> None:
        self.cluster.delete_pool(pool)

    @rule(pool=st.sampled_from(list(SPECS)), automatic=st.booleans())
    def create_or_change(self, pool: str, automatic: bool) -> None:
        if ("GPUPool", pool) not in self.cluster.objects:
            self.cluster.pool(pool, **copy.deepcopy(SPECS[pool]))
        self.cluster.objects["GPUPool", pool]["spec"]["deviceAssignment"] = {"requireAnnotation": not automatic}
        self.cluster.touch(("GPUPool", pool))

    @rule(seconds=st.sampled_from([1.0, 400.0, 601.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.now += seconds

    @rule()
    def settle_and_be_quiet(self) -> None:
        """Everything comes to rest, also a day later, and then neither writes nor sends an event."""
        trial = copy.deepcopy(self.cluster)
        for _ in range(2):
            trial.settle()
            trial.now += 86_400.0
        trial.settle()
        noise = [a for made in trial.plans() for a in made.actions if made.writes or isinstance(a, EmitEvent)]
        assert not noise
        at_rest(trial)

    @invariant()
    def a_card_has_one_owner(self) -> None:
        self.cluster.check()


def at_rest(cluster: Cluster) -> None:
    devices = cluster.all(resources.GPUDEVICE, GPUDevice)
    pools = {pool.name: pool for pool in cluster.all(resources.GPUPOOL, GPUPool)}
    world = cluster.view()
    taken: Counter[tuple[str, str]] = Counter()
    for device in devices:
        if device.status.pool_ref is not None:
            taken[device.status.pool_ref.name, device.status.node_name or ""] += 1
    for (pool, _), count in taken.items():
        limit = pools[pool].spec.allocation.max_devices_per_node
        assert limit is None or count <= limit, f"{pool} has {count} cards of a node, {limit} is the most"
    for device in devices:
        claimed, pooled = device.metadata.annotations.get(names.ASSIGNMENT), device.status.pool_ref
        assert claimed is None or claimed in pools, "an annotation outlived the wait for its pool"
        declined = is_ignored(device.metadata)
        if declined and claimed is not None:
            assert not is_automatic(pools[claimed], device, cluster.settings), f"{claimed} keeps a declined card"
        if pooled is not None:
            assert claimed == pooled.name
            stays_lost = is_lost(device.status) and is_automatic(pools[claimed], device, cluster.settings)
            assert not stays_lost, f"{claimed} keeps a card that is gone, and nobody takes it out"
            continue
        said = find(device.status.conditions, CONFIGURED)
        assert (said is not None and said.status == "False") is (claimed is not None), (claimed, said)
        blocked = any(c.status == "True" for c in device.status.conditions if c.type in BLOCKS)
        blocked = blocked or declined
        if claimed is None and cluster.fit(device.name) and not blocked:
            takers = world.node(device.status.node_name or "").matching_pools[device.name]
            for taker in takers:
                limit = taker.spec.allocation.max_devices_per_node
                room = limit is None or taken[taker.name, device.status.node_name or ""] < limit
                assert not (room and is_automatic(taker, device, cluster.settings)), f"{taker.name} left a card"


Approval.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestApproval = Approval.TestCase
