"""Laws of pods that leave a node, on many small cases: who is never evicted, and that no node is left by half."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.runtime.plan import Delete, Evict
from tests.driver.draining import JOB
from tests.driver.test_draining import rolling
from tests.kit.cluster import ConflictError

ON_DISK: dict[str, Any] = {"name": "scratch", "emptyDir": {}}


@dataclass(frozen=True)
class Case:
    """A pod on the node, and what befalls it."""

    resource: str
    priority: int
    is_protected: bool
    is_refused: bool
    has_local_data: bool
    is_bare: bool

    @property
    def may_go(self) -> bool:
        """Whether it may be evicted."""
        return not (self.is_protected or self.is_refused or self.has_local_data or self.is_bare)


CASES = st.lists(
    st.builds(
        Case,
        resource=st.sampled_from([names.resource_name("a"), "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"]),
        priority=st.integers(-10, 10),
        is_protected=st.integers(0, 5).map(lambda n: n == 0),
        is_refused=st.integers(0, 5).map(lambda n: n == 0),
        has_local_data=st.integers(0, 5).map(lambda n: n == 0),
        is_bare=st.integers(0, 5).map(lambda n: n == 0),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(cases=CASES, strategy=st.sampled_from(["WhenIdle", "Drain"]), stops=st.lists(st.integers(0, 3), max_size=12))
def test_pods_that_may_go_leave_together_or_not_at_all_wherever_a_process_dies(
    cases: list[Case], strategy: str, stops: list[int]
) -> None:
    made = rolling(strategy, waitFor="10s", timeout="10m")
    for at, case in enumerate(cases):
        marks: dict[str, Any] = {"annotations": {names.DO_NOT_DISRUPT: "true"}} if case.is_protected else {}
        volumes = (ON_DISK,) if case.has_local_data else ()
        owner = None if case.is_bare else JOB
        made.pod(f"p{at}", resource=case.resource, priority=case.priority, owner=owner, volumes=volumes, **marks)
    made.refused = {f"p{at}" for at, case in enumerate(cases) if case.is_refused}
    made.take()
    began = made.now
    for stop in [*stops, *[None] * 40]:
        planned = made.planned("GPUNodeInventory", "n1").actions
        assert not [one for one in planned if isinstance(one, Delete) and one.ref.namespace != names.NAMESPACE]
        evicts = [one for one in planned if isinstance(one, Evict)]
        assert strategy == "Drain" or not evicts
        assert made.now >= began + 10 or not evicts, "they may end by themselves first"
        half = len(evicts) // 2
        assert [one.dry_run for one in evicts] == [True] * half + [False] * half
        assert all(one.ref.uid for one in evicts)
        with contextlib.suppress(ConflictError):
            made.reconcile("GPUNodeInventory", "n1", stop_after=stop)
        made.outside()
        made.now += 5
    if strategy == "WhenIdle" or not all(case.may_go for case in cases):
        assert made.ended == []
        made.now += 660
        made.settle()
        assert (made.phase(), made.in_service("n1")) == ("Deferred", True)
        return
    order = sorted(range(len(cases)), key=lambda at: (cases[at].priority, f"team/p{at}"))
    assert made.ended == [f"p{at}" for at in order]
    made.settle()
    assert made.phase() in ("Soaking", None)
