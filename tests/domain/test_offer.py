"""A pool's settings for its plugins, and what of them concerns one card."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.gpupool import AllocationSpec, TimeSlice
from controllers.domain.plugin_settings import PluginSettings, offer_of, read

SHARED = AllocationSpec(mode="TimeSlice", time_slice=TimeSlice(max_slices_per_device=4))
DIVIDED = AllocationSpec(mode="MIG", mig_profile="1g.10gb")


@pytest.mark.parametrize(("allocation", "slots"), [(AllocationSpec(), 1), (SHARED, 4)])
def test_a_pool_without_cards_says_what_a_card_will_have(allocation: AllocationSpec, slots: int) -> None:
    made = offer_of("a", allocation, {})

    assert made.of("n-1").slots == slots
    assert json.loads(made.text()) == {
        "mode": allocation.mode, "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": slots,
    }  # fmt: skip


def test_cards_that_differ_are_named_and_the_others_are_not() -> None:
    made = offer_of("a", DIVIDED, {"n-1": 7, "n-2": 7, "n-3": 4})

    assert json.loads(made.text()) == {
        "mode": "MIG", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 7, "profile": "1g.10gb",
        "cards": {"n-3": 4},
    }  # fmt: skip
    assert (made.of("n-1").slots, made.of("n-3").slots) == (7, 4)


def test_a_neighbours_number_does_not_concern_a_card() -> None:
    before = offer_of("a", DIVIDED, {"n-1": 7, "n-2": 7})
    after = offer_of("a", DIVIDED, {"n-1": 7, "n-2": 4, "n-3": 4})

    assert before.text() != after.text()
    assert before.of("n-1") == after.of("n-1")
    assert before.of("n-2") != after.of("n-2")


@given(
    st.sampled_from([AllocationSpec(), SHARED, DIVIDED]),
    st.dictionaries(st.sampled_from(["n-1", "n-2", "n-3", "n-4"]), st.integers(0, 7)),
)
def test_what_was_written_is_read(allocation: AllocationSpec, slots: dict[str, int]) -> None:
    made = offer_of("a", allocation, slots)

    assert read("a", made.text()) == made
    assert {card: made.of(card).slots for card in slots} == slots


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", "1",
        '{"mode": "Exclusive", "pool": "b", "resource": "gpu.deckhouse.io/b", "slots": 1}',
        '{"mode": "Exclusive", "pool": "a", "resource": "gpu.deckhouse.io/b", "slots": 1}',
        '{"mode": "Exclusive", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": -1}',
        '{"mode": "Exclusive", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": true}',
        '{"mode": "Exclusive", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 1, "cards": {"n-1": "2"}}',
        '{"mode": "Exclusive", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 1, "cards": 3}',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_no_offer(text: str) -> None:
    assert read("a", text) is None


def test_the_acknowledgement_tells_modes_apart() -> None:
    versions = {PluginSettings("a", mode, 1).of("n-1").config_version for mode in ("Exclusive", "TimeSlice")}

    assert len(versions) == 2
