"""The laws of the pool controller's planners, on many small clusters (docs/dev/design.md, Laws of a planner)."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.install import dismantle
from tests.gpupool.machine import Controlled
from tests.gpupool.world import Cluster

POOLS = ("a", "b")
THEIRS = {"key": "theirs", "effect": "NoSchedule"}
CARDS = [f"n{n}-0000-{c:02x}-00-0" for n in (1, 2) for c in (0,)]


class Pools(Controlled):
    """People annotate, pods come and go, planners are killed after any write."""

    @initialize()
    def start(self) -> None:
        self.cluster = Cluster()
        self.cluster.node("n1", 1)
        self.cluster.node("n2", 1)
        for pool in POOLS:
            self.cluster.pool(pool)
        self.requests = 0

    @rule(card=st.sampled_from(CARDS), pool=st.sampled_from([*POOLS, "absent", None]))
    def annotate(self, card: str, pool: str | None) -> None:
        self.cluster.annotate(card, pool)

    @rule(card=st.sampled_from(CARDS), slow=st.booleans())
    def admit(self, card: str, slow: bool) -> None:
        """The webhook's part: a conditional reservation of a free, offered card, then its pod."""
        obj = self.cluster.objects["GPUDevice", card]
        status = obj["status"]
        pool, offered = status.get("poolRef"), status.get("published")
        claimed = obj["metadata"].get("annotations", {}).get(names.ASSIGNMENT)
        if (
            not pool
            or not offered
            or claimed != pool["name"]
            or status.get("reservations")
            or status.get("allocations")
        ):
            return
        if any(p.node == status["nodeName"] for p in self.pods()):
            return  # a bound pod may hold it
        self.requests += 1
        request = f"r{self.requests}"
        self.cluster.reserve(card, request, pod=f"p{self.requests}")
        if not slow:
            self.cluster.pod(f"p{self.requests}", pool["name"], request)

    def pods(self) -> list[Any]:
        from controllers.api.kube import Pod

        return self.cluster.all(resources.POD, Pod)

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        waiting = [pod for pod in self.pods() if pod.node is None]
        if waiting:
            pod = data.draw(st.sampled_from(waiting))
            held = {
                r.request_id: d.status.node_name
                for d in self.cluster.all(resources.GPUDEVICE, GPUDevice)
                for r in d.status.reservations
            }
            # The scheduler mostly follows the webhook's preference, and need not.
            reserved = held.get(pod.metadata.annotations[names.REQUEST_ID])
            node = data.draw(st.sampled_from([reserved, "n1", "n2"])) or "n1"
            stored = self.cluster.objects["Pod", pod.key]
            stored["spec"]["nodeName"] = node
            if node == reserved:
                stored["metadata"]["annotations"]["test/admitted-here"] = node
            self.cluster.touch(("Pod", pod.key))

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if pods := self.pods():
            self.cluster.drop(resources.POD, data.draw(st.sampled_from(pods)).key)

    @rule(seconds=st.sampled_from([1.0, 16.0, 130.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.now += seconds

    @rule(node=st.sampled_from(["n1", "n2"]), ready=st.booleans())
    def node_changes(self, node: str, ready: bool) -> None:
        self.cluster.unready(node, ready=ready)

    @rule(card=st.sampled_from(CARDS), faulted=st.booleans())
    def card_fails(self, card: str, faulted: bool) -> None:
        self.cluster.fault(card, faulted=faulted)

    @rule(pool=st.sampled_from(POOLS))
    def delete(self, pool: str) -> None:
        self.cluster.delete_pool(pool)

    @rule(pool=st.sampled_from(POOLS))
    def create(self, pool: str) -> None:
        if ("GPUPool", pool) not in self.cluster.objects:
            self.cluster.pool(pool)

    @rule(node=st.sampled_from(["n1", "n2"]))
    def meddle(self, node: str) -> None:
        """Somebody labels a node by hand."""
        self.cluster.objects["Node", node]["metadata"]["labels"][names.pool_node_label("a")] = "true"
        self.cluster.touch(("Node", node))

    @rule(pool=st.sampled_from(POOLS), wanted=st.booleans())
    def taint(self, pool: str, wanted: bool) -> None:
        """A pool's administrator wants its nodes tainted, or no longer."""
        if (obj := self.cluster.objects.get(("GPUPool", pool))) is not None:
            taints = [{"key": f"gpu-{pool}", "value": "", "effect": "NoSchedule"}] if wanted else []
            obj["spec"] = {**obj["spec"], "scheduling": {"taints": taints}}
            self.cluster.touch(("GPUPool", pool))

    @rule(node=st.sampled_from(["n1", "n2"]))
    def cordon(self, node: str) -> None:
        """Somebody else taints a node."""
        spec = self.cluster.objects["Node", node].setdefault("spec", {})
        spec["taints"] = [*(t for t in spec.get("taints") or [] if t["key"] != "theirs"), THEIRS]
        self.cluster.touch(("Node", node))

    @rule()
    def switch(self) -> None:
        """The module is disabled, or enabled again."""
        self.cluster.enabled = not self.cluster.enabled

    @rule()
    def settle_and_be_quiet(self) -> None:
        """Whatever happened, everything comes to rest, and stays there."""
        trial = copy.deepcopy(self.cluster)
        trial.settle()
        assert not any(made.writes for made in trial.plans())
        trial.now += 1000.0
        trial.settle()
        self.at_rest(trial)

    def at_rest(self, cluster: Cluster) -> None:
        if not cluster.enabled:
            self.off_at_rest(cluster)
            return
        for device in cluster.all(resources.GPUDEVICE, GPUDevice):
            claimed = device.metadata.annotations.get(names.ASSIGNMENT)
            if device.status.pool_ref is None:
                assert device.status.published is None, "a card in no pool is offered"
                fit = cluster.fit(device.name) and not cluster.bound_to(device.status.node_name)
                assert not fit or claimed not in cluster.pools(), "a fit card that was confirmed is in no pool"
            waiting = {pod.metadata.annotations[names.REQUEST_ID] for pod in cluster.waiting()}
            held = {reservation.request_id for reservation in device.status.reservations}
            assert held <= waiting, "a reservation outlived every deadline, and nobody waits for its card"
        for node in self.cluster.all(resources.NODE, Node):
            self.taints_at_rest(cluster, node.name)
        alive = cluster.pools()
        for kind, key in cluster.objects:
            if kind in ("ConfigMap", "DaemonSet"):
                assert key.removeprefix(f"{names.NAMESPACE}/gpu-device-plugin-") in alive, (
                    f"{kind} {key} was left behind"
                )

    def off_at_rest(self, cluster: Cluster) -> None:
        """Nothing of ours is left but what pools and cards were told."""
        for node in cluster.all(resources.NODE, Node):
            assert dismantle.unmark(node) == []
        assert not [key for kind, key in cluster.objects if kind in ("ConfigMap", "DaemonSet")]
        assert all(not pool.metadata.finalizers for pool in cluster.all(resources.GPUPOOL, GPUPool))
        before = {d.name: d.status.pool_ref for d in self.cluster.all(resources.GPUDEVICE, GPUDevice)}
        alive = cluster.pools()
        for device in cluster.all(resources.GPUDEVICE, GPUDevice):
            kept = before[device.name]
            assert kept is None or kept.name not in alive or device.status.pool_ref == kept, "a card left its pool"

    def taints_at_rest(self, cluster: Cluster, node: str) -> None:
        """Somebody else's taint stays; ours are there for pools that have cards on the node."""
        before = self.cluster.objects["Node", node].get("spec", {}).get("taints") or []
        after = cluster.objects["Node", node].get("spec", {}).get("taints") or []
        assert (THEIRS in after) == (THEIRS in before)
        devices = [d for d in cluster.all(resources.GPUDEVICE, GPUDevice) if d.status.node_name == node]
        here = {f"gpu-{d.status.pool_ref.name}" for d in devices if d.status.pool_ref}
        assert {taint["key"] for taint in after if taint != THEIRS} <= here

    @invariant()
    def a_card_has_one_owner(self) -> None:
        self.cluster.check()

    @invariant()
    def capacity_adds_up(self) -> None:
        for pool in self.cluster.all(resources.GPUPOOL, GPUPool):
            if (c := pool.status.capacity) is not None:
                parts = c.used + c.reserved + c.unavailable
                assert parts + c.available == c.total or (c.available == 0 and parts >= c.total)


Pools.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPools = Pools.TestCase
