"""What the work on a node's driver means for others: up to its deadline, and on that machine alone."""

from __future__ import annotations

from typing import get_args

import pytest

from controllers.api.driver_work import CLOSED, OUT_OF_SERVICE, DriverWork, Phase
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.domain.clock import SKEW, stamp
from controllers.domain.driver.node_work import ABSENT_MAX, NONE, PLANNED, STUCK, limit_at, work_on
from tests.kit import objects

NOW, LIMIT = 1_700_000_000.0, 600.0
MACHINE, OTHER = (objects.node(meta={"uid": uid}) for uid in ("u", "of-another"))


def work(phase: Phase, deadline: str | None = stamp(NOW + LIMIT)) -> DriverWork:
    return DriverWork(driver="a", phase=phase, since=stamp(NOW), deadline=deadline, node_uid="u")


@pytest.mark.parametrize("phase", get_args(Phase))
def test_each_phase_means_what_the_contract_says(phase: Phase) -> None:
    found = work_on(work(phase), MACHINE, NOW)
    assert (found.is_out, found.is_closed) == (phase in OUT_OF_SERVICE, phase in CLOSED)
    assert found.is_planned == (phase in PLANNED)
    assert found.is_stuck == (phase in STUCK)
    assert (found.is_overdue, found.left) == (False, LIMIT + SKEW)


@pytest.mark.parametrize("phase", get_args(Phase))
def test_after_the_deadline_nothing_follows_from_it(phase: Phase) -> None:
    found = work_on(work(phase), MACHINE, NOW + LIMIT + SKEW)
    assert (found.is_out, found.is_planned, found.is_closed, found.is_overdue) == (False, False, False, True)
    assert found.left == 0


@pytest.mark.parametrize("phase", get_args(Phase))
def test_only_a_hand_over_takes_a_node_out_without_an_end(phase: Phase) -> None:
    found = work_on(work(phase, None), MACHINE, NOW)
    assert found.is_out == (phase == "HandedOver")
    assert found.is_overdue == (phase in PLANNED - {"HandedOver"})


def test_a_closed_node_is_out() -> None:
    assert CLOSED <= OUT_OF_SERVICE <= PLANNED
    assert not PLANNED & STUCK


def test_work_for_another_machine_and_no_work_mean_nothing() -> None:
    assert work_on(None, MACHINE, NOW) == work_on(work("Installing"), OTHER, NOW) == NONE


def test_a_deadline_that_is_no_time_is_over() -> None:
    assert work_on(work("Installing", "soon"), MACHINE, NOW).is_overdue


def node(*, ready: bool, since: float) -> Node:
    """A node that has been Ready, or not, since then."""
    said = {"type": "Ready", "status": str(ready), "last_transition_time": stamp(since)}
    return adapter(Node).validate_python({"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": [said]}})


@pytest.mark.parametrize(
    ("ready", "changed", "limit"),
    [
        (True, -99.0, LIMIT),  # Ready since before it began
        (True, 200.0, LIMIT + 200),  # back, 200 s after it began
        (True, 9000.0, LIMIT + ABSENT_MAX),
        (False, 200.0, 200 + ABSENT_MAX),  # away: for an hour from then on
        (False, 5000.0, LIMIT + ABSENT_MAX),
        (False, -9000.0, LIMIT),  # away for long when it began
    ],
)
def test_a_limit_stands_still_while_the_node_is_away_for_an_hour_at_most(
    *, ready: bool, changed: float, limit: float
) -> None:
    seen = node(ready=ready, since=NOW + changed)
    assert limit_at(NOW + LIMIT, NOW, seen, NOW + 9999) == NOW + limit
    found = work_on(work("Installing"), seen, NOW + limit + SKEW - 1)
    assert (found.is_out, found.left) == (True, 1)
    assert work_on(work("Installing"), seen, NOW + limit + SKEW).is_overdue
