"""What the work on a node's driver means for others: up to its deadline, and on that machine alone."""

from __future__ import annotations

from typing import get_args

import pytest

from controllers.api.driver_work import CLOSED, OUT_OF_SERVICE, DriverWork, Phase
from controllers.domain.clock import SKEW, stamp
from controllers.domain.driver.node_work import NONE, PLANNED, STUCK, work_on

NOW, LIMIT = 1_700_000_000.0, 600.0


def work(phase: Phase, deadline: str | None = stamp(NOW + LIMIT)) -> DriverWork:
    return DriverWork(driver="a", phase=phase, since=stamp(NOW), deadline=deadline, node_uid="u")


@pytest.mark.parametrize("phase", get_args(Phase))
def test_each_phase_means_what_the_contract_says(phase: Phase) -> None:
    found = work_on(work(phase), "u", NOW)
    assert (found.is_out, found.is_closed) == (phase in OUT_OF_SERVICE, phase in CLOSED)
    assert found.is_planned == (phase in PLANNED)
    assert found.is_stuck == (phase in STUCK)
    assert (found.is_overdue, found.left) == (False, LIMIT + SKEW)


@pytest.mark.parametrize("phase", get_args(Phase))
def test_after_the_deadline_nothing_follows_from_it(phase: Phase) -> None:
    found = work_on(work(phase), "u", NOW + LIMIT + SKEW)
    assert (found.is_out, found.is_planned, found.is_closed, found.is_overdue) == (False, False, False, True)
    assert found.left == 0


@pytest.mark.parametrize("phase", get_args(Phase))
def test_only_a_hand_over_takes_a_node_out_without_an_end(phase: Phase) -> None:
    found = work_on(work(phase, None), "u", NOW)
    assert found.is_out == (phase == "HandedOver")
    assert found.is_overdue == (phase in PLANNED - {"HandedOver"})


def test_a_closed_node_is_out() -> None:
    assert CLOSED <= OUT_OF_SERVICE <= PLANNED
    assert not PLANNED & STUCK


def test_work_for_another_machine_and_no_work_mean_nothing() -> None:
    assert work_on(None, "u", NOW) == work_on(work("Installing"), "of-another", NOW) == NONE


def test_a_deadline_that_is_no_time_is_over() -> None:
    assert work_on(work("Installing", "soon"), "u", NOW).is_overdue
