"""Roll-outs with nodes' own plans, while people and nodes interfere: no plan undoes another one, and it ends."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controllers.api import names
from controllers.domain.clock import stamp
from tests.driver.rollout.cluster import RolledOut
from tests.driver.world import NEXT, VERSION, held_by
from tests.kit.cluster import ConflictError

NODES = ("n0", "n1", "n2", "n3")
BREAKS: dict[str, Any] = {
    "nothing": None,
    "hangs": "hangs",
    "node": (30, '{"result":"Refused","reason":"DiskFull","message":"no room"}'),
    "revision": (1, "modprobe: ERROR: could not insert 'nvidia': Key was rejected"),
}
LIMIT = 2


class Whole(RuleBasedStateMachine):
    """Four nodes, of which two may be out at once; the process is killed after any write."""

    @initialize(rollback=st.sampled_from(["FailedNodes", "Wave", "All", "None"]))
    def start(self, rollback: str) -> None:
        self.cluster = RolledOut()
        self.cluster.fleet(
            len(NODES), waves=[50, 100], rollback=rollback, maxUnavailable={"nodes": str(LIMIT), "perPool": "100%"}
        )

    @rule(data=st.data(), stop=st.integers(0, 4))
    def reconcile_and_crash(self, data: st.DataObject, stop: int) -> None:
        key = data.draw(st.sampled_from(self.cluster.all_keys()))
        out = set(self.cluster.out())
        with contextlib.suppress(ConflictError):
            self.cluster.reconcile(*key, stop_after=stop)
        if key[0] == "Rollout" and set(self.cluster.out()) - out:
            assert len(self.cluster.out()) <= LIMIT

    @rule()
    def outside(self) -> None:
        self.cluster.outside()

    @rule(node=st.sampled_from((*NODES, NEXT)), how=st.sampled_from(sorted(BREAKS)))
    def breaks(self, node: str, how: str) -> None:
        self.cluster.breaks.pop(node, None)
        if BREAKS[how] is not None:
            self.cluster.breaks[node] = BREAKS[how]

    @rule(node=st.sampled_from(NODES), held=st.booleans())
    def looks(self, node: str, held: bool) -> None:
        self.cluster.looks.pop(node, None)
        if held:
            self.cluster.looks[node] = held_by("Xorg")

    @rule(node=st.sampled_from(NODES), there=st.booleans())
    def pod(self, node: str, there: bool) -> None:
        serves = self.cluster.in_service(node)
        (self.cluster.users.add if there and serves else self.cluster.users.discard)(node)

    @rule(seconds=st.sampled_from([1.0, 61.0, 901.0, 1801.0, 7200.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.now += seconds

    @rule(version=st.sampled_from([VERSION, NEXT]))
    def retarget(self, version: str) -> None:
        self.cluster.merge("GPUDriver", "main", {"spec": {"version": version}})

    @rule(on=st.sampled_from(["main", *NODES]), ends=st.booleans())
    def pause(self, on: str, ends: bool) -> None:
        kind = "GPUDriver" if on == "main" else "Node"
        until = None if ends else stamp(self.cluster.now + 5 * 86_400)
        self.cluster.merge(kind, on, {"metadata": {"annotations": {names.PAUSE: until}}})

    @rule(node=st.sampled_from(NODES), cordoned=st.booleans())
    def cordon(self, node: str, cordoned: bool) -> None:
        self.cluster.merge("Node", node, {"spec": {"unschedulable": cordoned or None}})

    @rule(node=st.sampled_from(NODES), wanted=st.booleans())
    def hand_over(self, node: str, wanted: bool) -> None:
        self.cluster.merge("Node", node, {"metadata": {"annotations": {names.HAND_OVER: "kured" if wanted else None}}})

    @rule(key=st.sampled_from([names.RESUME, names.DRIVER_RETRY]), node=st.sampled_from(NODES))
    def ask(self, key: str, node: str) -> None:
        kind, name = ("GPUDriver", "main") if key == names.RESUME else ("Node", node)
        self.cluster.merge(kind, name, {"metadata": {"annotations": {key: "true"}}})

    @rule()
    def settle_and_be_quiet(self) -> None:
        """Whatever happened, everything comes to rest and stays there: no two plans undo what the other does."""
        trial = copy.deepcopy(self.cluster)
        trial.settle()
        for key in trial.all_keys():
            assert not trial.planned(*key).writes, key

    @rule()
    def mended_all_come_to_what_is_wanted(self) -> None:
        """Where nothing is broken any more and everybody says to go on, each node serves with what is wanted."""
        trial = copy.deepcopy(self.cluster)
        trial.breaks, trial.looks = {}, {}
        trial.users.clear()
        trial.merge("GPUDriver", "main", {"metadata": {"annotations": {names.PAUSE: None}}})
        for node in NODES:
            gone = dict.fromkeys((names.PAUSE, names.HAND_OVER))
            trial.merge("Node", node, {"metadata": {"annotations": gone}, "spec": {"unschedulable": None}})
        for _ in range(12):
            trial.now += 7200
            trial.settle(rounds=120)
            trial.merge("GPUDriver", "main", {"metadata": {"annotations": {names.RESUME: "true"}}})
            for node in NODES:
                trial.merge("Node", node, {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
            trial.now += 61
            trial.settle(rounds=120)
        wanted = trial.objects["GPUDriver", "main"]["spec"]["version"]
        found = {node: (trial.version(node), trial.phase(node), trial.in_service(node)) for node in NODES}
        assert found == dict.fromkeys(NODES, (wanted, None, True)), (found, trial.rollout().waiting)

    @invariant()
    def nothing_that_is_kept_is_out_of_date(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.check_process()

    @invariant()
    def nobody_is_out_without_end(self) -> None:
        if hasattr(self, "cluster"):
            for node in self.cluster.out():
                work = self.cluster.work(node)
                assert work is not None
                assert work.get("deadline") or work["phase"] == "HandedOver", work


TestWhole = pytest.mark.slow("each step plans for all nodes anew, and faults show only after many steps")(
    Whole.TestCase
)
TestWhole.settings = settings(
    max_examples=8, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
