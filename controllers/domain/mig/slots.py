"""How many instances of a profile a card holds, or why none. Pure.

The catalogue's geometries are the truth about counts; what the driver offers is the truth about names, since boards
of one model may differ in them. A profile is resolved for each card anew: `1g.10gb` is an eighth of an A100 80 GB and a
quarter of an A100 40 GB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.domain.catalogue import canonical_profile, geometry, model
from controllers.domain.mig.records import describe

if TYPE_CHECKING:
    from controllers.domain.catalogue import Geometry, Model
    from controllers.domain.mig.records import MigCard

INVALID_PROFILE = "InvalidMIGProfile"
NOT_CAPABLE = "MIGNotSupported"
UNKNOWN_MODEL = "UnknownModel"
UNKNOWN_GEOMETRY = "UnknownMIGGeometry"
NOT_OFFERED = "MIGProfileNotOffered"


@dataclass(frozen=True, slots=True)
class CardSlots:
    """Slots of a card under a profile."""

    count: int
    """Instances that the card holds; 0 where it cannot be divided so."""
    profile: str | None = None
    """The profile in the driver's spelling; None where the count is 0."""
    reason: str | None = None
    """One word that says why the count is 0."""
    message: str = ""
    """The same as a sentence."""


def slots_of(card: MigCard, profile: str) -> CardSlots:
    """How many instances of a profile (in any spelling) the card holds."""
    name = canonical_profile(profile)
    if name is None:
        return CardSlots(0, reason=INVALID_PROFILE, message=f"{profile!r} is no MIG profile; one is spelled 1g.10gb")
    known = model(card.vendor, card.device)
    called = describe(card, known.product if known else None)
    cut = _geometry(card, known, called)
    if isinstance(cut, CardSlots):
        return cut
    if name in cut.profiles and (not card.offered or name in card.offered):
        return CardSlots(cut.profiles[name].instances, name)
    if name in card.offered:
        message = f"{called} offers {name}, but how many of them it holds is not in the catalogue"
        return CardSlots(0, reason=UNKNOWN_GEOMETRY, message=message)
    has = ", ".join(card.offered or cut.profiles)
    return CardSlots(0, reason=NOT_OFFERED, message=f"{called} does not offer {name}; it offers {has}")


def _geometry(card: MigCard, known: Model | None, called: str) -> Geometry | CardSlots:
    """How the card can be divided, or why in no way that we know."""
    # Where no driver was asked, the catalogue says it: a family without MIG says nothing of a reset.
    without = card.capable is None and known is not None and known.geometry is None and known.mig_needs_reset is None
    if not card.nvidia or card.capable is False or without:
        return CardSlots(0, reason=NOT_CAPABLE, message=f"{called} cannot do MIG")
    if known is None:
        return CardSlots(0, reason=UNKNOWN_MODEL, message=f"{called} is not in the catalogue of cards")
    cut = geometry(known.geometry) if known.geometry else None
    if cut is None:
        return CardSlots(0, reason=UNKNOWN_GEOMETRY, message=f"how {called} can be divided is not in the catalogue")
    return cut
