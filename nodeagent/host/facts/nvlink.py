"""NVLink peers of each card, from the remote ends of its links. Pure.

A link ends at another card, or at an NVSwitch, which joins all cards that it has links to. A
driver before 465 does not tell which of the two an end is: an address that no card has is then
taken for a switch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from nodeagent.host.facts.records import DriverCard


@dataclass(frozen=True, slots=True)
class Links:
    """The ends of one card's links that are up."""

    cards: Mapping[str, int] = field(default_factory=dict)
    """How many end at each card, by address."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """The same of addresses of which the driver does not say what they are."""
    switched: int = 0
    """How many end at switches."""
    failed: bool = False
    """Whether the driver failed to tell all of it this time."""

    @property
    def any(self) -> bool:
        """Whether a link is up."""
        return bool(self.cards or self.unknown or self.switched)


@dataclass(frozen=True, slots=True)
class Reach:
    """The peers of each card, and how many links go to each, by address."""

    peers: Mapping[str, Mapping[str, int]]
    failed: frozenset[str]

    def of(self, card: DriverCard) -> DriverCard:
        """The card with its peers."""
        failed = (*card.failed, "nvlink_peers") if card.address in self.failed else card.failed
        peers = self.peers[card.address]
        return replace(card, nvlink_peers=tuple(peers), nvlink_links=tuple(peers.values()), failed=failed)


def peers(links: Mapping[str, Links], *, all_answer: bool) -> Reach:
    """Who reaches whom; without `all_answer` a card may be missing, and no list is sure to be whole."""
    switched = {
        address: count
        for address, ends in links.items()
        if (count := ends.switched + sum(ends.unknown[other] for other in ends.unknown.keys() - links.keys()))
    }
    reached = {address: _reached(address, ends, links.keys(), switched) for address, ends in links.items()}
    unsure = {address for address, ends in links.items() if ends.failed or (ends.any and not all_answer)}
    return Reach(reached, frozenset(unsure))


def _reached(address: str, ends: Links, known: AbstractSet[str], switched: Mapping[str, int]) -> dict[str, int]:
    """The peers of one card, by address: those at its links' ends, and over switches whoever has links to one, too."""
    found = {**ends.cards, **{other: ends.unknown[other] for other in ends.unknown.keys() & known}}
    if address in switched:
        for other, count in switched.items():
            found[other] = found.get(other, 0) + min(count, switched[address])
    return {other: found[other] for other in sorted(found) if other != address}
