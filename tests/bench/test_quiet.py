"""What others take of the machine is told apart from what the benchmark takes."""

from __future__ import annotations

import os

import pytest

from reliability.bench import quiet
from reliability.bench.quiet import Moment, others

TICKS = os.sysconf("SC_CLK_TCK")


def test_busy_is_everything_but_waiting() -> None:
    #                user nice system idle iowait irq softirq steal guest guest_nice
    line = "cpu  " + " ".join(str(n * TICKS) for n in (10, 1, 5, 700, 90, 2, 3, 4, 8, 0))
    assert quiet._busy(f"{line}\ncpu0 1 1 1 1\n") == 25, "time of guests is in user time, stolen time is busy"


def test_others_are_what_is_left() -> None:
    before = Moment(at=100.0, busy=50.0, own={1: 10.0, 2: 5.0})
    after = Moment(at=110.0, busy=65.0, own={1: 14.0, 2: 5.0, 3: 6.0})
    assert others(before, after) == pytest.approx((15 - 4 - 6) / 10), "a process that is new counts from its start"


def test_rounding_of_ticks_takes_nothing_from_nobody() -> None:
    assert others(Moment(0.0, 5.0, {1: 1.0}), Moment(1.0, 5.9, {1: 2.0})) == 0
