"""NVLink peers of each card, from the remote ends of its links. Pure.

A link ends at another card, or at an NVSwitch, which joins all cards that it has links to. A
driver before 465 does not tell which of the two an end is: an address that no card has is then
taken for a switch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.host.facts.records import DriverCard


@dataclass(frozen=True, slots=True)
class Links:
    """The ends of one card's links that are up."""

    cards: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    """Addresses of which the driver does not say what they are."""
    switched: bool = False
    failed: bool = False
    """Whether the driver failed to tell all of it this time."""

    @property
    def any(self) -> bool:
        """Whether a link is up."""
        return bool(self.cards or self.unknown or self.switched)


@dataclass(frozen=True, slots=True)
class Reach:
    """The peers of each card, by address."""

    peers: Mapping[str, tuple[str, ...]]
    failed: frozenset[str]

    def of(self, card: DriverCard) -> DriverCard:
        """The card with its peers."""
        failed = (*card.failed, "nvlink_peers") if card.address in self.failed else card.failed
        return replace(card, nvlink_peers=self.peers[card.address], failed=failed)


def peers(links: Mapping[str, Links], *, all_answer: bool) -> Reach:
    """Who reaches whom; without `all_answer` a card may be missing, and no list is sure to be whole."""
    switched = {address for address, ends in links.items() if ends.switched or ends.unknown - links.keys()}
    reached = {
        address: tuple(
            sorted(
                (ends.cards | (ends.unknown & links.keys()) | (switched if address in switched else set())) - {address}
            )
        )
        for address, ends in links.items()
    }
    unsure = {address for address, ends in links.items() if ends.failed or (ends.any and not all_answer)}
    return Reach(reached, frozenset(unsure))
