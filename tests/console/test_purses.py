"""What one viewer may have the console compute."""

from __future__ import annotations

import pytest

from console.purses import FULL, LONGEST, SHARE, EmptyPurseError, Purses
from console.viewers import Viewer

ANNA, BORIS = Viewer("anna"), Viewer("boris")


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def spent(purses: Purses, viewer: Viewer, seconds: float) -> None:
    purses.spend(purses.of(viewer).who, seconds)


def test_who_had_much_computed_waits_and_nobody_else_does(clock: Clock) -> None:
    purses = Purses(clock)
    spent(purses, ANNA, FULL - 0.5)
    purses.of(ANNA).check()
    spent(purses, ANNA, 1.0)
    with pytest.raises(EmptyPurseError, match="come again in 6 s") as refused:
        purses.of(ANNA).check()
    assert refused.value.seconds == 6
    purses.of(BORIS).check()
    with pytest.raises(EmptyPurseError):
        purses.of(Viewer("anna", groups=("others",))).check()


def test_it_fills_up_again_as_time_goes_by(clock: Clock) -> None:
    purses = Purses(clock)
    spent(purses, ANNA, FULL + 0.5)
    clock.advance(0.5 / SHARE + 0.1)
    purses.of(ANNA).check()
    clock.advance(FULL / SHARE)
    spent(purses, ANNA, FULL - 0.1)
    purses.of(ANNA).check()
    spent(purses, BORIS, 0.1)
    clock.advance(FULL / SHARE)
    spent(purses, BORIS, 0.1)
    assert len(purses._missing) == 1, "a full purse is not remembered"


def test_nobody_waits_for_ever(clock: Clock) -> None:
    purses = Purses(clock)
    for _ in range(100):
        spent(purses, ANNA, FULL)
    clock.advance(LONGEST + 0.1)
    purses.of(ANNA).check()


def test_what_fails_is_paid_for_too() -> None:
    purses = Purses()
    purse = purses.of(ANNA)

    def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        purse.pay(fails)
    assert purses.missing(purse.who) > 0
    assert purse.pay(lambda: 3) == 3
