"""One MIG layout for a node out of all its pools. Pure.

A card in a MIG pool is to hold as many instances of the pool's profile as fit, or those of its mixed layout. A card
that left its pool is turned back where it was we who turned MIG on, and stays in the layout until that has come true.
Every other card is absent and never touched.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.domain import pci
from controllers.domain.mig.division import divide
from controllers.domain.mig.records import DISABLED, CardLayout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.domain.mig.records import MigCard

VERSION_LENGTH = 16


@dataclass(frozen=True, slots=True)
class PlannedCard:
    """A card of ours in the layout."""

    address: str
    vendor: str
    device: str
    uuid: str | None
    index: int | None
    """Its place, by address, among the NVIDIA cards that the driver serves; None for one that it does not."""
    layout: CardLayout | None
    """How it is to be divided; None leaves it as it is, and only remembers that it is ours."""
    ours: bool
    """Whether MIG mode is to be turned off when the card leaves its pool."""
    asked: str = ""
    """When it was asked for, RFC 3339: asking again for the same is another version, so that it is tried anew."""
    boot: str = ""
    """Boot of the node, and the variant of its driver, with which it was last asked for again without a person."""
    again: int = 0
    """How often that was, in that boot and with that driver."""
    used_since_failure: bool = False
    """Whether others have had the card since its work failed: once they have ended there is a reason to try again."""

    @property
    def version(self) -> str:
        """What tells this card's layout from another, whatever its neighbours are to do."""
        return _digest([_facts(self.layout), self.asked])


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """How the cards of a node are to be divided."""

    cards: tuple[PlannedCard, ...] = ()
    """By address."""

    @property
    def version(self) -> str:
        """What tells this layout from another, cards and indexes included."""
        return _digest(
            [[c.address, c.vendor, c.device, c.uuid, c.index, _facts(c.layout), c.ours, c.asked] for c in self.cards],
        )


def plan(cards: Iterable[MigCard]) -> NodeLayout:
    """The layout of a node. `cards` are all cards of the node, in any order, each address once.

    A card that cannot be divided as its pool asks is left as it is.
    """
    everyone = sorted(cards, key=lambda card: pci.place(card.address))
    if len({card.address for card in everyone}) < len(everyone):
        raise ValueError("two cards of one node have the same PCI address")
    counted = [card.address for card in everyone if card.nvidia and card.served]
    indexes = {address: index for index, address in enumerate(counted)}
    planned: list[PlannedCard] = []
    for card in everyone:
        asked = divide(card, card.division) if card.division is not None else None
        layout = _layout(card, asked)
        if layout is not None or (asked is not None and _to_turn_back(card)):
            index = indexes.get(card.address)
            planned.append(PlannedCard(card.address, card.vendor, card.device, card.uuid, index, layout, card.ours))
    return NodeLayout(tuple(planned))


def _layout(card: MigCard, asked: CardLayout | str | None) -> CardLayout | None:
    """How the card is to be divided; None where it is not to be touched."""
    if asked is not None:
        return asked if isinstance(asked, CardLayout) else None
    return DISABLED if _to_turn_back(card) else None


def _to_turn_back(card: MigCard) -> bool:
    """Whether the card is to be turned back once it is in no MIG pool, or as far as anybody knows."""
    return card.nvidia and card.ours and card.actual != DISABLED


def was_ours(previous: NodeLayout | None, card: MigCard) -> bool:
    """Whether MIG mode of the card is ours to turn off, by the layout before this one.

    A card that comes to a pool with MIG mode off is ours: we are the ones who turn it on. One that came with it on
    stays as the administrator had it. Another card in the same slot is another card.
    """
    if card.division is not None and card.actual == DISABLED:
        return True
    before = next((c for c in previous.cards if c.address == card.address), None) if previous else None
    return before is not None and before.ours and _same(before, card)


def _same(before: PlannedCard, card: MigCard) -> bool:
    # A driver that is away tells no uuid.
    told = before.uuid is not None and card.uuid is not None
    return before.device == card.device and (before.uuid == card.uuid or not told)


def _facts(layout: CardLayout | None) -> list[object] | None:
    return None if layout is None else [layout.enabled, sorted(layout.instances.items())]


def _digest(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:VERSION_LENGTH]
