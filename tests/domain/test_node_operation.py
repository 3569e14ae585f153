"""An operation on a node suspends its preparation up to a deadline, each operation by its own clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from controllers.api.gpunodeinventory import Bootstrap
from controllers.domain.clock import stamp_exact
from controllers.domain.node_operation import NONE, NodeOperation, goes_on, is_awaited, suspend

NOW, DEADLINE = 1_800_000_000.0, 600.0
MIG = NodeOperation("MigWork", "MIG work", "its cards are divided anew", "migApply", frozenset({"dcgm"}))
OTHER = replace(MIG, name=cast("Any", "DriverRollout"))


def recorded(suspended: bool | None, *, ago: float = 60.0, operation: Any = "MigWork") -> Bootstrap:
    return Bootstrap(suspended=suspended, last_run=stamp_exact(NOW - ago), operation=operation)


def test_without_an_operation_nothing_is_suspended() -> None:
    assert suspend(None, recorded(suspended=True), DEADLINE, NOW) == NONE
    assert (NONE.name, NONE.closed) == (None, frozenset())
    assert not is_awaited(None, None)


def test_a_new_operation_has_the_whole_deadline() -> None:
    for before in (None, Bootstrap(), recorded(None)):
        found = suspend(MIG, before, DEADLINE, NOW)
        assert (found.on, found.left, found.name, found.closed) == (True, DEADLINE, "MigWork", {"dcgm"})


@pytest.mark.parametrize("operation", ["MigWork", None])
def test_one_that_goes_on_keeps_its_clock(operation: str | None) -> None:
    """A version that recorded no name knew MIG work alone."""
    before = recorded(suspended=True, operation=operation)
    found = suspend(MIG, before, DEADLINE, NOW)

    assert (found.on, found.left) == (True, pytest.approx(DEADLINE - 60))
    assert goes_on(found, before)
    assert not goes_on(suspend(OTHER, before, DEADLINE, NOW), before)


def test_one_that_outlasts_its_deadline_is_over_until_another_begins() -> None:
    late = suspend(MIG, recorded(suspended=True, ago=DEADLINE), DEADLINE, NOW)
    assert (late.on, late.closed, late.name) == (False, frozenset(), "MigWork")
    over = recorded(suspended=False)
    assert suspend(MIG, over, DEADLINE, NOW).on is False
    assert not is_awaited(MIG, over)
    assert suspend(OTHER, over, DEADLINE, NOW).on is True
    assert is_awaited(OTHER, over)


def test_a_spoiled_time_begins_anew() -> None:
    assert suspend(MIG, Bootstrap(suspended=True, last_run="soon"), DEADLINE, NOW).left == DEADLINE
