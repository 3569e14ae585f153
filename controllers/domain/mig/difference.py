"""What must change for a layout to come true, and what it takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.domain.catalogue import model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.domain.mig.layout import NodeLayout
    from controllers.domain.mig.records import CardLayout


@dataclass(frozen=True, slots=True)
class Change:
    """A card that is not divided as it is to be."""

    address: str
    before: CardLayout | None
    """None where nobody has told."""
    target: CardLayout
    needs_reset: bool
    """Whether the GPU is reset, so that every client of it must go first: DCGM, its exporter, GFD, plugins."""

    @property
    def changes_mode(self) -> bool:
        """Whether MIG mode is turned on or off, or may have to be."""
        return self.before is None or self.before.enabled != self.target.enabled


def difference(layout: NodeLayout, actual: Mapping[str, CardLayout]) -> tuple[Change, ...]:
    """The cards that change, by address.

    `actual`: how the cards of the node are divided, by address. A card of which nobody has told is taken to change:
    who plans by it must not leave pods there.
    """
    changes = []
    for card in layout.cards:
        before = actual.get(card.address)
        if card.layout is None or before == card.layout:
            continue
        known = model(card.vendor, card.device)
        change = Change(card.address, before, card.layout, needs_reset=False)
        # Leaving MIG mode takes what entering it takes: the driver's tool has one rule for both. Where the catalogue
        # does not say, a reset is expected: to send clients away in vain costs a minute, to keep them costs the work.
        resets = change.changes_mode and (known is None or known.mig_needs_reset is not False)
        changes.append(Change(card.address, before, card.layout, needs_reset=resets))
    return tuple(changes)
