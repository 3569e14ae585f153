"""What one viewer may have the console compute."""

from __future__ import annotations

import pytest

from console.budgets import FULL, LONGEST, SHARE, Budgets, BudgetSpentError
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


def spent(budgets: Budgets, viewer: Viewer, seconds: float) -> None:
    budgets.spend(budgets.of(viewer).who, seconds)


def test_who_had_much_computed_waits_and_nobody_else_does(clock: Clock) -> None:
    budgets = Budgets(clock)
    spent(budgets, ANNA, FULL - 0.5)
    budgets.of(ANNA).check()
    spent(budgets, ANNA, 1.0)
    with pytest.raises(BudgetSpentError, match="come again in 6 s") as refused:
        budgets.of(ANNA).check()
    assert refused.value.seconds == 6
    budgets.of(BORIS).check()
    with pytest.raises(BudgetSpentError):
        budgets.of(Viewer("anna", groups=("others",))).check()


def test_it_fills_up_again_as_time_goes_by(clock: Clock) -> None:
    budgets = Budgets(clock)
    spent(budgets, ANNA, FULL + 0.5)
    clock.advance(0.5 / SHARE + 0.1)
    budgets.of(ANNA).check()
    clock.advance(FULL / SHARE)
    spent(budgets, ANNA, FULL - 0.1)
    budgets.of(ANNA).check()
    spent(budgets, BORIS, 0.1)
    clock.advance(FULL / SHARE)
    spent(budgets, BORIS, 0.1)
    assert len(budgets._missing) == 1, "a full budget is not remembered"


def test_nobody_waits_for_ever(clock: Clock) -> None:
    budgets = Budgets(clock)
    for _ in range(100):
        spent(budgets, ANNA, FULL)
    clock.advance(LONGEST + 0.1)
    budgets.of(ANNA).check()


def test_what_fails_is_paid_for_too() -> None:
    budgets = Budgets()
    budget = budgets.of(ANNA)

    def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        budget.pay(fails)
    assert budgets.missing(budget.who) > 0
    assert budget.pay(lambda: 3) == 3
