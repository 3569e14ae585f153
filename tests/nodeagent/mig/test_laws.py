"""Killed before any effect, any number of times, the manager comes to the same end as undisturbed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.domain.mig import DISABLED, CardLayout
from nodeagent.mig.cards import plan
from tests.nodeagent.mig.plane import Plane

LAYOUTS = (
    DISABLED,
    CardLayout(True),
    CardLayout(True, {"1g.5gb": 7}),
    CardLayout(True, {"2g.10gb": 3}),
    CardLayout(True, {"3g.20gb": 1, "1g.5gb": 2}),
)
STEPS = ("create:{}:1g.5gb", "create:{}:2g.10gb", "mode:{}:on", "mode:{}:off", "clear:{}", "reset:{}", "stuck:{}")
BYSTANDER = 2
Case = tuple[list[tuple[CardLayout, CardLayout]], list[tuple[str, int]]]
CASES = st.tuples(
    st.lists(st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS)), min_size=2, max_size=2),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1)), max_size=2),
)


def prepared(case: Case) -> Plane:
    """Two cards that change, and one in use that nobody may touch."""
    plane = Plane(cards=3)
    changes, faults = case
    for number, (before, after) in enumerate(changes):
        plane.divide(before, number)
        plane.want(after, number)
    plane.divide(LAYOUTS[2], BYSTANDER)
    plane.machine.state["in_use"] = [plane.address(BYSTANDER)]
    plane.machine.state["faults"] = [step.format(plane.address(number)) for step, number in faults]
    return plane


def end(plane: Plane) -> list[Any]:
    """What the cluster and the cards say in the end; why a step failed may be told in other words."""
    words = [(plane.phase(n), plane.reason(n).partition(":")[0]) for n in (0, 1)]
    layout = plan.desired_layout(plane.layout())
    assert layout is not None
    matters = plan.remembered(plane.journal, layout, plan.by_address(plane.cards()))
    return [words, deepcopy(plane.machine.state["cards"]), matters]


@given(case=CASES, deaths=st.lists(st.integers(0, 25), min_size=1, max_size=3))
@settings(max_examples=400, deadline=None)
def test_a_restart_goes_on_to_the_same_end(case: Case, deaths: list[int]) -> None:
    undisturbed, plane = prepared(case), prepared(case)
    undisturbed.rest()
    for after in deaths:
        plane.dies_after = plane.effects + after
        plane.rest()
    plane.dies_after = None
    plane.rest()
    assert plane.machine.state["touched"] == []
    if set(plane.machine.state["refused"]) <= set(undisturbed.machine.state["refused"]):
        assert end(plane) == end(undisturbed)
    else:  # what was half done had to be cleared away first, and that is what failed: it is told as any failure
        ends_well(plane, case)


def ends_well(plane: Plane, case: Case) -> None:
    """Every card is as wanted, or it is told why not, and it is as it was or that is told too."""
    for number, (before, after) in enumerate(case[0]):
        phase, reason = plane.phase(number), plane.reason(number)
        assert phase in ("Done", "Failed")
        if phase == "Done":
            assert plane.actual(number) == after
        else:
            assert reason
            assert plane.actual(number) == before or "could not be put back" in reason


@given(case=CASES)
@settings(max_examples=200, deadline=None)
def test_every_version_ends_and_done_means_as_wanted(case: Case) -> None:
    plane = prepared(case)
    plane.rest()
    ends_well(plane, case)
    effects = plane.effects
    plane.born()
    plane.rest()
    assert plane.effects == effects, "a second manager finds nothing to do"
