"""The table of a pool's life."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.pool_lifecycle import (
    BEHAVIOUR,
    NEW,
    TRANSITIONS,
    PoolFacts,
    apply_transition,
    diagram,
    edges,
    is_allowed,
    phase_of,
    table,
)  # fmt: skip


def walked(walk: list[str], start: PoolFacts) -> PoolFacts:
    facts = start
    for happening in walk:
        if is_allowed(facts, happening):
            facts = apply_transition(facts, happening)
    return facts


walks = st.lists(st.sampled_from(sorted(TRANSITIONS)), max_size=40)


@given(walks, st.sampled_from(NEW))
def test_a_layout_is_applied_only_when_nobody_is_there_and_it_is_built(walk: list[str], start: PoolFacts) -> None:
    facts = walked(walk, start)
    if phase_of(facts) == "Applying":
        assert facts.drained
        assert facts.built
        assert is_allowed(facts, "apply")
    else:
        assert not (is_allowed(facts, "apply") and facts.deleting)


@given(walks, st.sampled_from(NEW))
def test_from_anywhere_but_deletion_putting_it_back_or_resuming_leads_to_serving(
    walk: list[str], start: PoolFacts
) -> None:
    facts = walked(walk, start)
    if facts.deleting:
        return
    for happening in ("enable the module", "resume", "put it back"):
        if is_allowed(facts, happening):
            facts = apply_transition(facts, happening)
    assert phase_of(facts) == "Serving"


@pytest.mark.parametrize("phase", sorted(BEHAVIOUR))
def test_pods_are_refused_wherever_cards_are_withdrawn_for_a_while(phase: str) -> None:
    does = BEHAVIOUR[phase]  # type: ignore[index]
    assert does.offers or does.maintenance or phase == "Deleting"


def test_every_phase_is_reached_and_every_happening_is_drawn() -> None:
    text = diagram()

    assert {phase for a, b, _ in edges() for phase in (a, b)} == set(BEHAVIOUR)
    assert all(f": {name}" in text for name in TRANSITIONS)
    assert all(f"| {name} |" in table() for name in TRANSITIONS)


def test_what_cannot_happen_raises() -> None:
    with pytest.raises(ValueError, match="cannot happen"):
        apply_transition(PoolFacts(), "apply")
