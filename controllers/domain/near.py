"""Which cards of a node are near to each other, and the nearest that suffice for a pod. Pure.

The one rule for webhook, queue, device plugin and console, and for what is said of a pod afterwards. Near is, first,
the same bond: cards of a clique between which there are the most NVLinks; then the same clique: cards of which each has
an NVLink to each other, directly or over switches (`hardware.nvlink.peers`); then the same NVLink group, in which some
reach others only over third ones, as on boards with a cube mesh; then the same PCI root; then the same NUMA node, for
which the cards count that do not tell theirs. Where a group is as good as another, the one with the least room that
suffices is taken, so that whole groups are left for pods that need them. Greedy, so that 64 cards cost no more than
64² steps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice, Hardware


Level = Literal["bond", "clique", "link", "root", "numa"]
Key = tuple[Level, str | int]
Locality = tuple[int, int, int, int, int]
Apart = tuple[bool, ...]
LEVELS: Final[tuple[Level, ...]] = ("bond", "clique", "link", "root", "numa")
"""The nearest first."""
WITHIN: Final[dict[Level, tuple[Level, ...]]] = {
    "bond": ("numa", "root"),
    "clique": ("bond", "numa", "root"),
    "link": ("clique", "bond", "numa", "root"),
    "root": ("link", "clique", "bond"),
    "numa": ("link", "clique", "bond", "root"),
}
"""By what a group is filled part by part."""


@dataclass(frozen=True, slots=True)
class CardLocation:
    """The groups of a card, one of each level; equal values are near to each other."""

    bond: str
    """Part of the clique in which there are as many links between each two as there are anywhere in it."""
    clique: str
    """Part of the NVLink group in which each card has a link to each other."""
    link: str
    """The NVLink group; a card without links is a group of its own."""
    root: str
    """The PCI root that the card hangs on; a card that does not tell it is a group of its own."""
    numa: int
    """The NUMA node; -1 where the machine does not say."""

    @classmethod
    def unknown(cls, card: str) -> CardLocation:
        """The location of a card of which nothing is known but its name: near to none."""
        return cls(card, card, card, card, -1)


@dataclass(frozen=True, slots=True)
class CardOption:
    """A card with free slots, and how good it is by the pool's strategy: smaller is better."""

    card: str
    free: int
    order: tuple[int, int]
    location: CardLocation


def locations(cards: Iterable[GPUDevice]) -> Mapping[str, CardLocation]:
    """The locations of the cards of one node, by name."""
    return _locations(tuple(_facts(card.name, card.status.hardware) for card in cards))


class _Facts(NamedTuple):
    """What the location of a card is made from."""

    name: str
    address: str = ""
    root: str = ""
    numa: int = -1
    peers: tuple[str, ...] = ()
    links: tuple[int, ...] = ()


def _facts(name: str, hardware: Hardware | None) -> _Facts:
    if hardware is None:
        return _Facts(name)
    numa, pci = hardware.numa_node if hardware.numa_node is not None else -1, hardware.pci
    peers, links = (hardware.nvlink.peers, hardware.nvlink.links) if hardware.nvlink is not None else ((), ())
    return _Facts(name, pci.address, pci.root or "", numa, peers, links if len(links) == len(peers) else ())


@lru_cache(maxsize=4096)  # a node's cards are counted anew with each reservation, and stay where they are
def _locations(facts: tuple[_Facts, ...]) -> Mapping[str, CardLocation]:
    peers = {card.address: card.peers for card in facts if card.address}
    clique, group = _cliques(peers), _groups(peers)
    bond = _cliques(_bonded(facts, clique))
    return {
        card.name: CardLocation(
            bond.get(card.address, card.name),
            clique.get(card.address, card.name),
            group.get(card.address, card.name),
            # In some virtual machines all cards are said to hang on one root, whatever their NUMA nodes.
            f"{card.root} {card.numa}" if card.root else card.name,
            card.numa,
        )
        for card in facts
    }


def _bonded(facts: Iterable[_Facts], clique: Mapping[str, str]) -> dict[str, list[str]]:
    """For each address the peers of its clique to which it has the most links; all of them where none are counted."""
    counts = {
        card.address: {
            peer: links
            for peer, links in zip(card.peers, card.links or (1,) * len(card.peers), strict=True)
            if peer in clique and clique[peer] == clique[card.address]
        }
        for card in facts
        if card.address
    }
    most: dict[str, int] = defaultdict(int)
    for address, linked in counts.items():
        most[clique[address]] = max(most[clique[address]], *linked.values(), 0)
    return {
        address: [peer for peer, links in linked.items() if links == most[clique[address]]]
        for address, linked in counts.items()
    }


def _cliques(peers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """For each address the first address of its clique; each takes in what it can before the next one begins."""
    found: dict[str, str] = {}
    for first in sorted(peers):
        if first in found:
            continue
        members = [first]
        for address in sorted(peers[first]):
            is_open = address in peers and address not in found and address != first
            if is_open and all(address in peers[one] and one in peers[address] for one in members):
                members.append(address)
        found |= dict.fromkeys(members, first)
    return found


def _groups(peers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """For each address the first address of its group."""
    found: dict[str, str] = {}
    for first in sorted(peers):
        front = [first] if first not in found else []
        while front:
            address = front.pop()
            if address in found:
                continue
            found[address] = first
            front += [peer for peer in peers[address] if peer in peers]
    return found


NOTHING_FREE: Final[Locality] = (0, 0, 0, 0, 0)
"""The `locality` of a node without free slots."""


def locality(options: Iterable[tuple[CardLocation, int]]) -> Locality:
    """The most free slots that are in one group of each of `LEVELS`."""
    most = dict.fromkeys(LEVELS, 0)
    for (level, _), count in _totals(options).items():
        most[level] = max(most[level], count)
    return most["bond"], most["clique"], most["link"], most["root"], most["numa"]


def locality_rank(found: Locality, units: int) -> Apart:
    """For each level, the nearest first, whether no group has so many slots, of a `locality`: smaller is nearer.

    The first level decides; among nodes that are equal in it the next one does, such as the NUMA node where all cards
    reach each other over switches.
    """
    return tuple(most < units for most in found)


def apart(places: Iterable[CardLocation]) -> Apart:
    """For each level, the nearest first, whether these cards are in several groups: smaller is nearer."""
    found = list(places)
    return tuple(len({_key(each, level) for each in found}) > 1 for level in LEVELS)


def nearest(
    options: Sequence[CardOption],
    node: Iterable[tuple[CardLocation, int]],
    units: int,
    around: Iterable[CardLocation] = (),
) -> list[CardOption]:
    """Cards for so many slots, in the order in which they are to be filled; all that there are where that is too few.

    `node`: the slots of all cards of the node, free or not, which tell a full group from one in use; `around`: where
    cards are that were chosen before, to which these are to be near.
    """
    if chosen := list(around):
        return sorted(options, key=lambda option: (_apart(option.location, chosen), option.order))
    fit = _Fit(options, node)
    if alone := [option for option in options if option.free >= units]:
        # One card is nearer than any two. Which one is the strategy's choice; among equals, not out of a full group.
        return [min(alone, key=lambda option: (option.order[0], *fit.rank(option, *LEVELS), option.order[1]))]
    for by in LEVELS:
        if enough := [group for group in _parts(options, by) if _free(group) >= units]:
            best = min(enough, key=lambda group, by=by: (*fit.rank(group[0], *_RANKED[by]), group[0].order))  # type: ignore[misc]
            return _fill(best, units, WITHIN[by])
    return _fill(options, units, ("numa", *WITHIN["numa"]))


_RANKED: Final[dict[Level, tuple[Level, ...]]] = {
    "bond": ("bond", "clique", "link"),
    "clique": ("clique", "link"),
    "link": ("link",),
    "root": ("root", "numa"),
    "numa": ("numa",),
}
"""A group that is a part of a larger one is the better the less of that is free."""


def _key(location: CardLocation, level: Level) -> Key:
    return level, getattr(location, level)


def _totals(slots: Iterable[tuple[CardLocation, int]]) -> dict[Key, int]:
    """The slots of each group of each level."""
    found: dict[Key, int] = defaultdict(int)
    for location, count in slots:
        for level in LEVELS:
            found[_key(location, level)] += count
    return found


def _apart(location: CardLocation, chosen: Sequence[CardLocation]) -> tuple[int, ...]:
    """Smaller is nearer: for each level, how many of these are in another group."""
    return tuple(sum(_key(other, level) != _key(location, level) for other in chosen) for level in LEVELS)


class _Fit:
    """Free and total slots of each group."""

    def __init__(self, options: Iterable[CardOption], node: Iterable[tuple[CardLocation, int]]) -> None:
        self._free = _totals((option.location, option.free) for option in options)
        self._total = _totals(node)

    def rank(self, option: CardOption, *levels: Level) -> tuple[int, ...]:
        """Smaller is a better fit: little room, and of two with as much the one that is more in use."""
        groups = [_key(option.location, level) for level in levels]
        return tuple(value for group in groups for value in (self._free[group], -self._total.get(group, 0)))


def _free(options: Iterable[CardOption]) -> int:
    return sum(option.free for option in options)


def _parts(options: Iterable[CardOption], by: Level) -> list[list[CardOption]]:
    """The cards by group, the best of each first."""
    parts: dict[Key, list[CardOption]] = defaultdict(list)
    for option in sorted(options, key=lambda option: option.order):
        parts[_key(option.location, by)].append(option)
    return list(parts.values())


def _fill(options: Sequence[CardOption], units: int, levels: tuple[Level, ...]) -> list[CardOption]:
    """Take whole groups, the largest first, and what is left from the smallest group that suffices for it."""
    if not levels:
        return sorted(options, key=lambda option: option.order)
    taken: list[CardOption] = []
    left = _parts(options, levels[0])
    if len(left) == len(options) and levels[1:]:
        return _fill(options, units, levels[1:])  # each card is a group of its own, which says nothing of the others
    while left and units > 0:
        enough = [group for group in left if _free(group) >= units]
        group = min(enough, key=_free) if enough else max(left, key=_free)
        left.remove(group)
        taken += _fill(group, units, levels[1:])
        units -= _free(group)
    return taken
