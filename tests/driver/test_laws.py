"""The laws of the planners of drivers, on many small clusters (docs/dev/design.md, Laws of a planner).

Beside them, what must hold whatever happens: a driver comes only onto a node that had none, was fit and was to have
it; no label goes away or changes under one; as many are at work as may be; a revision that is bad comes to nobody.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controllers.api import names, resources
from controllers.api.driver_look import Prepared
from controllers.domain.driver.states import UNDER_WAY
from controllers.runtime.plan import Apply, JSONPatch, Merge
from tests.driver.world import NEXT, VERSION, Cluster, held_by
from tests.kit.cluster import ConflictError
from tests.kit.storage import Json

NODES = ("n1", "n2", "n3")
DRIVERS = ("main", "second")
BREAKS: dict[str, Any] = {
    "nothing": None,
    "hangs": "hangs",
    "unfit": "unfit",
    "node": (30, '{"result":"Refused","reason":"DiskFull","message":"no room"}'),
    "revision": (1, "modprobe: ERROR: could not insert 'nvidia': Key was rejected"),
    "waits": (20, '{"result":"Refused","reason":"DevicesHeld","message":"held"}'),
    "crash": (1, "who knows"),
}
LOOKS: dict[str, Any] = {
    "good": None,
    "missing": "manifest unknown",
    "held": held_by("Xorg"),
    "refused": Prepared(result="Refused", reason="RepositoryUnreachable", message="no answer"),
}


class Watched(Cluster):
    """A cluster that looks at each write of the process."""

    def admit(self, action: Apply | Merge | JSONPatch, old: Json | None, new: Json) -> None:
        """Whether a write may be."""
        if action.ref.resource is resources.NODE and old is not None:
            self._labelled(action.ref.name, old, new)
        if action.ref.resource is resources.DAEMONSET and old is not None:
            before, after = (one["spec"]["template"]["spec"]["containers"] for one in (old, new))
            assert before == after, "the driver of a DaemonSet changed"

    def _labelled(self, node: str, old: Json, new: Json) -> None:
        before, after = (one["metadata"]["labels"].get(names.DRIVER_VARIANT) for one in (old, new))
        if before == after:
            return
        assert after is not None, f"{node} lost its driver"
        work = self.work(node)
        assert work is not None, f"{node} is labelled and nobody says why"
        assert (work["phase"], work["to"]) in (("Installing", after), ("Validating", after)), f"{node}: {work} {after}"
        if before is not None:
            assert not self.serves(node), f"{node} had a driver that served"

    def serves(self, node: str) -> bool:
        """Whether the node is in service."""
        found = self.objects["GPUNodeInventory", node]["status"].get("conditions", [])
        return any(one["type"] == "ReadyForPooling" and one["status"] == "True" for one in found)


class Drivers(RuleBasedStateMachine):
    """People change GPUDrivers, nodes break and are mended, and the process is killed after any write."""

    @initialize()
    def start(self) -> None:
        self.cluster = Watched()
        self.cluster.settings = type(self.cluster.settings)(enabled=True, install_parallel=2, prefetch_parallel=2)
        for name in NODES:
            self.cluster.node(name)
        self.cluster.driver()
        self.boots = 0

    @rule(data=st.data(), stop=st.integers(0, 4))
    def reconcile_and_crash(self, data: st.DataObject, stop: int) -> None:
        key = data.draw(st.sampled_from(self.cluster.all_keys()))
        with contextlib.suppress(ConflictError):
            self.cluster.reconcile(*key, stop_after=stop)

    @rule()
    def outside(self) -> None:
        self.cluster.outside()

    @rule(node=st.sampled_from(NODES), how=st.sampled_from(sorted(BREAKS)))
    def breaks(self, node: str, how: str) -> None:
        self.cluster.breaks.pop(node, None)
        if BREAKS[how] is not None:
            self.cluster.breaks[node] = BREAKS[how]

    @rule(node=st.sampled_from(NODES), what=st.sampled_from(sorted(LOOKS)))
    def looks(self, node: str, what: str) -> None:
        self.cluster.looks.pop(node, None)
        if LOOKS[what] is not None:
            self.cluster.looks[node] = LOOKS[what]

    @rule(seconds=st.sampled_from([1.0, 61.0, 901.0, 1801.0, 7200.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.now += seconds

    @rule(name=st.sampled_from(DRIVERS), version=st.sampled_from([VERSION, NEXT]), priority=st.sampled_from([0, 5]))
    def write(self, name: str, version: str, priority: int) -> None:
        if ("GPUDriver", name) in self.cluster.objects:
            self.cluster.merge("GPUDriver", name, {"spec": {"version": version, "priority": priority}})
        else:
            self.cluster.driver(name, version=version, priority=priority)

    @rule(name=st.sampled_from(DRIVERS), paused=st.booleans())
    def pause(self, name: str, paused: bool) -> None:
        if ("GPUDriver", name) in self.cluster.objects:
            self.cluster.merge("GPUDriver", name, {"spec": {"rollout": {"paused": paused or None}}})

    @rule(name=st.sampled_from(DRIVERS))
    def delete(self, name: str) -> None:
        self.cluster.delete_driver(name)

    @rule(name=st.sampled_from(DRIVERS))
    def resume(self, name: str) -> None:
        if ("GPUDriver", name) in self.cluster.objects:
            self.cluster.merge("GPUDriver", name, {"metadata": {"annotations": {names.RESUME: "true"}}})

    @rule(node=st.sampled_from(NODES))
    def retry(self, node: str) -> None:
        self.cluster.merge("Node", node, {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})

    @rule(node=st.sampled_from(NODES), cordoned=st.booleans())
    def cordon(self, node: str, cordoned: bool) -> None:
        self.cluster.merge("Node", node, {"spec": {"unschedulable": cordoned or None}})

    @rule(node=st.sampled_from(NODES), out=st.booleans())
    def opt_out(self, node: str, out: bool) -> None:
        self.cluster.merge("Node", node, {"metadata": {"labels": {names.DRIVER_OPT_OUT: "true" if out else None}}})

    @rule(node=st.sampled_from(NODES))
    def reboot(self, node: str) -> None:
        self.boots += 1
        self.cluster.reboot(node, f"boot-{self.boots}")

    @rule()
    def switch(self) -> None:
        """The module is disabled, or enabled again."""
        self.cluster.enabled = not self.cluster.enabled

    @rule()
    def settle_and_be_quiet(self) -> None:
        """Whatever happened, everything comes to rest, and stays there; mended, every node that may be served is."""
        trial = copy.deepcopy(self.cluster)
        trial.settle()
        for key in trial.all_keys():
            assert not trial.planned(*key).writes, key
        self.at_rest(trial)

    def at_rest(self, trial: Watched) -> None:
        for node in NODES:
            work = trial.work(node)
            if not trial.enabled:
                assert work is None or work["phase"] in ("Installing", "Validating"), work
            if work is not None and work["phase"] == "Blocked":
                assert work.get("reason"), work
        for (kind, _), obj in trial.objects.items():
            if kind == "GPUDriver" and not trial.enabled:
                held = names.FINALIZER_DRIVER in obj["metadata"].get("finalizers", ())
                assert held == any((w := trial.work(n)) and w["driver"] == obj["metadata"]["name"] for n in NODES)
            if kind == "GPUDriver" and obj["metadata"].get("deletionTimestamp"):
                works = [work for n in NODES if (work := trial.work(n)) and work["driver"] == obj["metadata"]["name"]]
                assert any(work["phase"] in UNDER_WAY for work in works), "nothing is under way for it, and it stays"
        assert len(trial.checks()) == [trial.phase(n) for n in NODES].count("Preflight")

    @rule()
    def mended_all_come_into_service(self) -> None:
        """Where nothing is broken any more and everybody says to go on, each node gets its driver."""
        trial = copy.deepcopy(self.cluster)
        trial.breaks, trial.looks, trial.enabled = {}, {}, True
        for node in NODES:
            patch = {"metadata": {"labels": {names.DRIVER_OPT_OUT: None}}, "spec": {"unschedulable": None}}
            trial.merge("Node", node, patch)
        if not any(
            kind == "GPUDriver" and not obj["metadata"].get("deletionTimestamp")
            for (kind, _), obj in trial.objects.items()
        ):
            trial.settle()
            trial.driver("last")
        for _ in range(3):
            trial.now += 7200
            trial.settle()
            for (kind, name), _ in list(trial.objects.items()):
                if kind == "GPUDriver":
                    goes_on = {"metadata": {"annotations": {names.RESUME: "true"}}, "spec": {"rollout": None}}
                    trial.merge("GPUDriver", name, goes_on)
            for node in NODES:
                trial.merge("Node", node, {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
            trial.now += 60
            trial.settle()
        for node in NODES:
            assert trial.phase(node) is None, trial.work(node)
            assert trial.serves(node)
            assert trial.label(node) is not None

    @invariant()
    def within_limits(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.check()

    @invariant()
    def nothing_that_is_kept_is_out_of_date(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.check_process()


TestDrivers = Drivers.TestCase
TestDrivers.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
