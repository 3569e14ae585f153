"""A pool's settings for its plugins, and what of them concerns one card."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.gpupool import AllocationSpec, MIGShare, MpsShares, TimeSlice
from controllers.domain.plugin_settings import offer_of, read

SHARED = AllocationSpec(mode="TimeSlice", time_slice=TimeSlice(max_slices_per_device=4))
DIVIDED = AllocationSpec(mode="MIG", mig_profile="1g.10gb")
SERVED = AllocationSpec(mode="MPS", mps=MpsShares(clients=6, threads="25%"))
SHARES = (
    MIGShare(profile="3g.40gb", count=1),
    MIGShare(profile="1g.10gb.me", count=1),
    MIGShare(profile="1g.10gb", count=2),
)
MIXED = AllocationSpec(mode="MIG", mig_layout=SHARES)
ALL = [AllocationSpec(), SHARED, DIVIDED, SERVED, MIXED]


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
    st.sampled_from([AllocationSpec(), SHARED, DIVIDED, SERVED]),
    st.dictionaries(st.sampled_from(["n-1", "n-2", "n-3", "n-4"]), st.integers(0, 7)),
)
def test_what_was_written_is_read(allocation: AllocationSpec, slots: dict[str, int]) -> None:
    made = offer_of("a", allocation, slots)

    assert read("a", made.text()) == made
    assert {card: made.of(card).slots for card in slots} == slots


def test_limits_of_mps_stand_beside_the_slots_and_no_profile_does() -> None:
    made = offer_of("a", SERVED, {"n-1": 6})

    assert json.loads(made.text()) == {
        "mode": "MPS", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 6,
        "mps": {"memory": "Equal", "threads": "25%"},
    }  # fmt: skip
    assert (made.suffixes, made.profiles, made.of("n-1").profiles) == (("a",), {}, None)


def test_a_mixed_layout_stands_beside_the_slots_and_every_profile_has_its_resource() -> None:
    made = offer_of("a", MIXED, {"n-1": 4, "n-2": 4})

    assert json.loads(made.text()) == {
        "mode": "MIG", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 4,
        "profiles": {"1g.10gb": 2, "1g.10gb+me": 1, "3g.40gb": 1},
    }  # fmt: skip
    assert read("a", made.text()) == made
    assert made.suffixes == ("a.1g.10gb", "a.1g.10gb.me", "a.3g.40gb")
    assert {each.profile: each.slots for each in made.of("n-1").profiles or ()} == dict(made.profiles)
    assert (made.limits, made.profile) == (None, None)


def test_what_other_modes_ask_for_changes_nothing() -> None:
    """A pool whose mode is changed keeps the blocks of its former ones."""
    every = {"time_slice": TimeSlice(), "mps": SERVED.mps, "mig_layout": SHARES}
    for plain in (AllocationSpec(), SHARED, SERVED, MIXED):
        beside = {key: value for key, value in every.items() if not getattr(plain, key)}
        assert offer_of("a", replace(plain, **beside), {"n-1": 4}) == offer_of("a", plain, {"n-1": 4})


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
        '{"mode": "MIG", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 1, "profiles": {"1g.10gb": -1}}',
        '{"mode": "MIG", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 1, "profiles": 3}',
        '{"mode": "MPS", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 1, "mps": {"memory": "Equal"}}',
        '{"mode": "MPS", "pool": "a", "resource": "gpu.deckhouse.io/a", "slots": 1, "mps": 3}',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_no_offer(text: str) -> None:
    assert read("a", text) is None


def test_the_acknowledgement_tells_modes_apart() -> None:
    versions = {offer_of("a", each, {"n-1": 4}).of("n-1").config_version for each in ALL}

    assert len(versions) == len(ALL)


def test_a_card_acknowledges_the_limits_and_the_layout_that_it_has() -> None:
    less = replace(SERVED, mps=MpsShares(clients=6, threads="20%"))
    other = replace(MIXED, mig_layout=(*SHARES[:2], MIGShare(profile="2g.20gb", count=2)))

    assert offer_of("a", SERVED, {"n-1": 6}).of("n-1") != offer_of("a", less, {"n-1": 6}).of("n-1")
    assert offer_of("a", MIXED, {"n-1": 4}).of("n-1") != offer_of("a", other, {"n-1": 4}).of("n-1")
    again = replace(MIXED, mig_layout=SHARES[::-1])
    assert offer_of("a", MIXED, {"n-1": 4}) == offer_of("a", again, {"n-1": 4})
