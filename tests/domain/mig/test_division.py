"""Mixed MIG layouts: which a card holds, and where its instances lie."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.catalogue.lookup import GEOMETRIES, MODELS
from controllers.domain.mig import CardLayout, Division, MigCard, divide, mixed
from controllers.domain.mig.placement import places
from tests.tools import placement

H100, A100_80, T4 = "2330", "20b2", "1eb8"
NAMES = sorted(GEOMETRIES)


def card(device: str, **more: object) -> MigCard:
    return MigCard("0000:17:00.0", "10de", device, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "shares", "instances"),
    [
        (H100, [("1g.10gb", 2), ("3g.40gb", 1)], {"1g.10gb": 2, "3g.40gb": 1}),
        (H100, [("all-1g.10gb.me", 1), ("1G.10GB", 2)], {"1g.10gb+me": 1, "1g.10gb": 2}),
        (H100, [("1g.10gb", 1), ("1g.10gb", 1), ("2g.20gb", 1)], {"1g.10gb": 2, "2g.20gb": 1}),
        (A100_80, [("4g.40gb", 1), ("3g.40gb", 1)], {"4g.40gb": 1, "3g.40gb": 1}),
        (A100_80, [("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1)], {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
    ],
)
def test_a_layout_that_has_its_places_is_the_cards(device, shares, instances):
    assert divide(card(device), mixed(shares)) == CardLayout(True, instances)


@pytest.mark.parametrize(
    ("device", "shares", "reason", "said"),
    [
        (H100, [("3g.40gb", 2), ("1g.10gb", 1)], "MIGLayoutDoesNotFit", "it has 7 compute and 8 memory slices"),
        (H100, [("3g.40gb", 1), ("4g.40gb", 1), ("1g.10gb", 1)], "MIGLayoutDoesNotFit", "from memory slice 0 or 4"),
        (H100, [("1g.10gb+me", 2)], "MIGLayoutDoesNotFit", "with the media extensions, which one may have"),
        # Seven compute slices and eight memory slices would do; three of 2g begin at 0, 2 and 4, and 3g at 0 or 4.
        (A100_80, [("2g.20gb", 2), ("3g.40gb", 1), ("1g.20gb", 1)], "MIGLayoutDoesNotFit", "2 × 2g.20gb"),
        (H100, [("1g.5gb", 1), ("3g.40gb", 1)], "MIGProfileNotOffered", "does not offer 1g.5gb"),
        (T4, [("1g.10gb", 1)], "MIGNotSupported", "cannot do MIG"),
        (H100, [("nonsense", 1)], "InvalidMIGProfile", "nonsense"),
    ],
)
def test_what_a_card_has_no_place_for_is_refused_with_the_reason(device, shares, reason, said):
    found = divide(card(device), mixed(shares))
    assert isinstance(found, str)
    assert found.startswith(f"{reason}: ")
    assert said in found


def test_a_driver_that_does_not_offer_a_profile_is_believed():
    found = divide(card(H100, offered=("1g.10gb", "7g.80gb")), mixed([("1g.10gb", 1), ("3g.40gb", 1)]))
    assert isinstance(found, str)
    assert found.startswith("MIGProfileNotOffered: ")


def test_one_profile_fills_the_card():
    assert divide(card(H100), Division("1g.10gb")) == CardLayout(True, {"1g.10gb": 7})


@given(st.data())
def test_what_is_accepted_lies_where_the_driver_lets_it_begin_and_overlaps_nothing(data):
    cut = GEOMETRIES[data.draw(st.sampled_from(NAMES))]
    counts = data.draw(
        st.dictionaries(st.sampled_from(sorted(cut.profiles)), st.integers(1, 4), min_size=1, max_size=4)
    )
    found = places(cut, counts)
    wanted = [name for name, count in counts.items() for _ in range(count)]
    assert (found is not None) == placement.fits(cut, wanted), "a driver that is played for tests says the same"
    if found is None:
        return
    assert sorted(name for name, _ in found) == sorted(wanted)
    assert all(start in cut.profiles[name].starts for name, start in found)
    taken = list(chain.from_iterable(range(at, at + cut.profiles[name].memory_slices) for name, at in found))
    assert len(set(taken)) == len(taken)
    assert max(taken) < cut.memory_slices


@given(st.data())
def test_every_layout_that_a_card_of_the_catalogue_takes_has_a_place_on_it(data):
    known = data.draw(st.sampled_from([m for m in MODELS.values() if m.geometry]))
    cut = GEOMETRIES[known.geometry or ""]
    shares = data.draw(
        st.lists(st.tuples(st.sampled_from(sorted(cut.profiles)), st.integers(1, 3)), min_size=1, max_size=3)
    )
    found = divide(MigCard("0000:17:00.0", known.vendor, known.device), mixed(shares))
    if isinstance(found, CardLayout):
        assert placement.fits(cut, [name for name, count in found.instances.items() for _ in range(count)])
        assert sum(found.instances.values()) == sum(count for _, count in shares)
