"""How a pool of mode MIG asks for its cards to be divided, and what that makes of one card. Pure.

A pool asks for one profile, of which each card has as many instances as it holds, or for a mixed layout: so many
instances of each of several profiles, on every card alike.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from controllers.domain.catalogue import canonical_profile, geometry, model
from controllers.domain.mig.placement import places
from controllers.domain.mig.records import CardLayout, Division, describe
from controllers.domain.mig.slots import slots_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.domain.mig.records import MigCard

DOES_NOT_FIT: Final = "MIGLayoutDoesNotFit"


def mixed(shares: Iterable[tuple[str, int]]) -> Division:
    """A mixed layout of profiles in any spelling; those of one add up. What is no profile stays as it is written."""
    counted: Counter[str] = Counter()
    for name, count in shares:
        counted[canonical_profile(name) or name] += count
    return Division(instances=tuple(sorted(counted.items())))


def divide(card: MigCard, division: Division) -> CardLayout | str:
    """How the card is to be divided, or why it cannot be: one word, and a sentence."""
    if not division.instances:
        slots = slots_of(card, division.profile)
        if slots.profile is None:
            return f"{slots.reason}: {slots.message}"
        return CardLayout(True, {slots.profile: slots.count})
    for name, _ in division.instances:
        if (slots := slots_of(card, name)).profile is None:
            return f"{slots.reason}: {slots.message}"
    known = model(card.vendor, card.device)
    cut = known.geometry if known is not None else None
    if known is None or cut is None or not _fits(cut, division.instances):
        called = describe(card, known.product if known else None)
        return f"{DOES_NOT_FIT}: {called} has no place for {division} at once{_slices(cut, division)}"
    return CardLayout(True, dict(division.instances))


@lru_cache(maxsize=1024)
def _fits(name: str, instances: tuple[tuple[str, int], ...]) -> bool:
    found = geometry(name)
    return found is not None and places(found, dict(instances)) is not None


def _slices(name: str | None, division: Division) -> str:
    """What the card has and each profile takes, for whoever is to choose another layout."""
    cut = geometry(name) if name is not None else None
    if cut is None:
        return ""
    profiles = (cut.profiles[profile] for profile, _ in division.instances)
    sizes = "; ".join(
        f"{each.name} takes {each.compute_slices} and {each.memory_slices} of them, from memory slice"
        f" {' or '.join(map(str, each.starts))}{', with the media extensions, which one may have' * each.media}"
        for each in profiles
    )
    return f": it has {cut.compute_slices} compute and {cut.memory_slices} memory slices; {sizes}"
