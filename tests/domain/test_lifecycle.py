"""The table of a card's life."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.lifecycle import TRANSITIONS, Facts, apply_transition, diagram, is_allowed, project

EVERY = [Facts(pooled=p, reserved=r, faulted=f) for p, r, f in itertools.product((False, True), repeat=3)]


def test_projection_is_in_the_order_of_the_design() -> None:
    assert project(Facts(pooled=True, reserved=True, faulted=True)) == "Faulted"
    assert project(Facts(pooled=True, reserved=True)) == "Reserved"
    assert project(Facts(pooled=True)) == "Assigned"
    assert project(Facts()) == "Unassigned"


@given(st.lists(st.sampled_from(sorted(TRANSITIONS)), max_size=40))
def test_no_walk_over_the_table_reserves_a_card_outside_a_pool(walk: list[str]) -> None:
    facts = Facts()
    for happening in walk:
        if is_allowed(facts, happening):
            facts = apply_transition(facts, happening)
        assert facts.pooled or not facts.reserved


def test_what_cannot_happen_raises() -> None:
    with pytest.raises(ValueError, match="cannot happen"):
        apply_transition(Facts(pooled=True, reserved=True), "release")


def test_an_expired_reservation_leaves_the_card_in_its_pool() -> None:
    assert project(apply_transition(Facts(pooled=True, reserved=True), "end reservation")) == "Assigned"


@pytest.mark.parametrize("facts", EVERY)
def test_a_fault_is_always_possible_and_always_ends(facts: Facts) -> None:
    assert is_allowed(facts, "recover" if facts.faulted else "fault")


def test_the_diagram_shows_every_happening() -> None:
    text = diagram()

    assert all(f": {name}" in text for name in TRANSITIONS)
