"""How many instances of a profile a card holds, and why none."""

from __future__ import annotations

import pytest

from controllers.domain.catalogue.lookup import GEOMETRIES, MODELS
from controllers.domain.mig import MigCard, slots_of
from tests.tools.placement import fits

A100_40, A100_80, H100, GB200, RTX_PRO = ("20b0", "20b2", "2330", "2941", "2bb1")


def card(device: str, vendor: str = "10de", **more) -> MigCard:
    return MigCard("0000:17:00.0", vendor, device, **more)


def divisible() -> list[tuple[str, str]]:
    """A device of each geometry, with the geometry's name."""
    found = {one.geometry: one.device for one in MODELS.values() if one.geometry}
    return sorted((device, name) for name, device in found.items())


@pytest.mark.parametrize(("device", "name"), divisible())
def test_every_profile_holds_as_often_as_it_fits(device, name):
    cut = GEOMETRIES[name]
    for profile in cut.profiles:
        slots = slots_of(card(device), profile)
        assert (slots.profile, slots.reason) == (profile, None)
        assert fits(cut, [profile] * slots.count)
        assert not fits(cut, [profile] * (slots.count + 1))


def test_each_geometry_of_the_catalogue_is_some_card_s():
    assert {name for _, name in divisible()} == set(GEOMETRIES)


@pytest.mark.parametrize(
    ("device", "profile", "count", "name"),
    [
        (A100_40, "1g.5gb", 7, "1g.5gb"),
        (A100_40, "1g.5gb.me", 1, "1g.5gb+me"),
        (A100_80, "all-2g.20gb", 3, "2g.20gb"),
        (H100, "7g.80gb", 1, "7g.80gb"),
        (A100_80, "1g.10gb", 7, "1g.10gb"),
        (A100_40, "1g.10gb", 4, "1g.10gb"),
        (A100_40, "1g.10gb+me", 0, None),
        (RTX_PRO, "all-1g.24gb-me", 4, "1g.24gb-me"),
        (RTX_PRO, "2g.48gb.me.all", 1, "2g.48gb+me.all"),
    ],
)
def test_a_spelling_is_resolved_for_each_card(device, profile, count, name):
    slots = slots_of(card(device), profile)
    assert (slots.count, slots.profile) == (count, name)


@pytest.mark.parametrize(
    ("one", "profile", "reason", "says"),
    [
        (card(H100), "1c.3g.40gb", "InvalidMIGProfile", "'1c.3g.40gb' is no MIG profile"),
        (
            card(H100),
            "1g.5gb",
            "MIGProfileNotOffered",
            "(NVIDIA H100 80GB HBM3) does not offer 1g.5gb; it offers 1g.10gb,",
        ),
        (card(H100, offered=("2g.20gb",)), "1g.10gb", "MIGProfileNotOffered", "it offers 2g.20gb"),
        (card("1eb8"), "1g.5gb", "MIGNotSupported", "card 0000:17:00.0 (Tesla T4) cannot do MIG"),
        (card(H100, capable=False), "1g.10gb", "MIGNotSupported", "cannot do MIG"),
        (card("74a1", "1002"), "1g.10gb", "MIGNotSupported", "cannot do MIG"),
        (card("ffff"), "1g.10gb", "UnknownModel", "(nvidia ffff) is not in the catalogue"),
        (card("20b3"), "1g.8gb", "UnknownMIGGeometry", "how card 0000:17:00.0 (NVIDIA A100-SXM-64GB) can be divided"),
        (card("26b9", capable=True), "1g.8gb", "UnknownMIGGeometry", "is not in the catalogue"),
        (card(GB200, offered=("1g.24gb",)), "1g.24gb", "UnknownMIGGeometry", "offers 1g.24gb, but how many"),
    ],
)
def test_a_card_that_cannot_says_why(one, profile, reason, says):
    slots = slots_of(one, profile)
    assert (slots.count, slots.profile, slots.reason) == (0, None, reason)
    assert says in slots.message
