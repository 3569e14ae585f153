"""What is done once in a while: the first time at once, then when its period is over, each key by itself."""

from __future__ import annotations

import pytest

from controllers.runtime import pace
from controllers.runtime.pace import Pace
from tests.kit.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, pace)


def test_what_was_never_done_may_be_done_now(clock: Clock) -> None:
    assert Pace().seconds_left("a", 5.0) == 0.0


def test_what_was_done_waits_for_the_rest_of_its_period(clock: Clock) -> None:
    writes = Pace()
    writes.mark_done("a")
    clock.now += 2.0
    assert (writes.seconds_left("a", 5.0), writes.seconds_left("b", 5.0)) == (3.0, 0.0)
    assert writes.seconds_left("a", 1.0) == 0.0, "the period is of the moment: it may have become a shorter one"
    clock.now += 3.0
    assert writes.seconds_left("a", 5.0) == 0.0


def test_a_period_begins_with_the_last_time(clock: Clock) -> None:
    writes = Pace()
    writes.mark_done("a")
    clock.now += 4.0
    writes.mark_done("a")
    assert writes.seconds_left("a", 5.0) == 5.0


def test_what_is_forgotten_is_as_if_it_was_never_done(clock: Clock) -> None:
    writes = Pace()
    writes.mark_done("a")
    writes.forget("a")
    writes.forget("never there")
    assert (len(writes), writes.seconds_left("a", 5.0)) == (0, 0.0)
