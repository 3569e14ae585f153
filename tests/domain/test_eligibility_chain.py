"""What of the chain is the same for all pools is asked once a card, and the first that fails stays the first."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controllers.domain import eligibility
from controllers.domain.eligibility import CardContext, check_free_card, checks_left, first_failed
from controllers.domain.issuing import blocked_by
from controllers.domain.lifecycle import facts_of, is_allowed
from tests.kit.objects import card, condition, pool, published

FOREIGN = {"namespace": "legacy", "pod": "train", "container": "main", "resource": "nvidia.com/gpu"}
CARDS = (
    card(),
    card(meta={"deletion_timestamp": "2026-01-02T00:00:00Z"}),
    card(conditions=(condition("Faulted"),)),
    card(hardware=None),
    card(hardware={"mig": {"capable": True, "enabled": True}}),
    card(foreign_allocations=(FOREIGN,)),
    card(published=published("b"), foreign_allocations=(FOREIGN,)),
    card(conditions=(condition("Faulted"),), published=published("b")),
)
POOLS = (
    None,
    pool(),
    pool(meta={"deletion_timestamp": "2026-01-02T00:00:00Z"}),
    pool(allocation={"mode": "MIG", "migProfile": "1g.10gb"}),
    pool(allocation={"mode": "Exclusive", "maxDevicesPerNode": 1}),
)
EVERY_KIND = (
    eligibility.CARD_DELETING,
    eligibility.POOL_UNKNOWN,
    eligibility.POOL_DELETING,
    eligibility.HARDWARE_UNKNOWN,
    eligibility.NODE_NOT_READY,
    eligibility.MIG_ENABLED,
    eligibility.MIG_STATE_UNKNOWN,
    eligibility.NODE_FULL,
    eligibility.HELD_ELSEWHERE,
    eligibility.STILL_IN_USE,
)


def contexts() -> list[CardContext]:
    """Cards that no pool is asked about yet, each in all that may surround it."""
    around = product(CARDS, (True, False, None), (True, False))
    return [CardContext(device, "", None, None, ready, None, 0, held) for device, ready, held in around]


def test_a_card_that_passes_may_be_assigned_by_the_table_of_states() -> None:
    """The pool's plan makes the transition without asking the table again."""
    told = [(check_free_card(device, ready=True), is_allowed(facts_of(device, 0.0), "assign")) for device in CARDS]
    assert all(allowed for ineligible, allowed in told if ineligible is None)
    assert not all(allowed for _, allowed in told)


def test_what_a_person_said_of_a_card_is_told_before_its_fault() -> None:
    both = card(conditions=(condition("Faulted"), condition("Ignored")))
    of_chain, of_condition = eligibility.blocked(both), blocked_by(both)
    assert of_chain is not None
    assert of_condition is not None
    assert (of_chain.kind, of_condition.type) == ("Ignored", "Ignored")


def test_the_first_check_that_fails_is_the_first_of_the_whole_chain() -> None:
    found = set()
    for seen in contexts():
        left = checks_left(seen)
        for each, siblings in product(POOLS, (0, 1)):
            context = seen.of(each.name if each else "nowhere", each, siblings)
            told = first_failed(context)
            assert first_failed(context, left) == told, context
            found.add(told.kind if told is not None else None)
    assert found == {None, "Faulted", *EVERY_KIND}, "each was the first to fail, and none fails everywhere"


@pytest.mark.parametrize("check", eligibility.CHECKS, ids=lambda check: check.__name__)
def test_only_checks_that_never_look_at_the_pool_are_asked_once(check: eligibility.Check) -> None:
    keys = ("device", "ready", "part", "maybe_in_use", "knows_layout")
    blind = [SimpleNamespace(**{key: getattr(seen, key) for key in keys}) for seen in contexts()]
    if check in eligibility.SAME_FOR_ALL_POOLS:
        assert {check(cast("Any", seen)) is None for seen in blind} == {True, False}
    else:
        with pytest.raises(AttributeError):
            check(cast("Any", blind[0]))
