"""Which cards of a node are near to each other, and the nearest that suffice for a pod. Pure.

The one rule for webhook, queue, device plugin and console. Near is, first, the same clique: cards of which each has an
NVLink to each other, directly or over switches (`hardware.nvlink.peers`); then the same NVLink group, in which some
reach others only over third ones, as on boards with a cube mesh; then the same NUMA node, for which the cards count
that do not tell theirs. Where a group is as good as another, the one with the least room that suffices is taken, so
that whole groups are left for pods that need them. Greedy, so that 64 cards cost no more than 64² steps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice, Hardware


Level = Literal["clique", "link", "numa"]
Key = tuple[Level, str | int]
LEVELS: Final[tuple[Level, ...]] = ("clique", "link", "numa")
"""The nearest first."""
WITHIN: Final[dict[Level, tuple[Level, ...]]] = {
    "clique": ("numa",),
    "link": ("clique", "numa"),
    "numa": ("link", "clique"),
}
"""By what a group is filled part by part."""


@dataclass(frozen=True, slots=True)
class CardLocation:
    """The clique, the NVLink group and the NUMA node of a card; equal values are near to each other."""

    clique: str
    """Part of the NVLink group in which each card has a link to each other."""
    link: str
    """The NVLink group; a card without links is a group of its own."""
    numa: int
    """The NUMA node; -1 where the machine does not say."""


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


def _facts(name: str, hardware: Hardware | None) -> tuple[str, str, int, tuple[str, ...]]:
    """Name, PCI address, NUMA node, addresses of peers."""
    if hardware is None:
        return name, "", -1, ()
    numa = hardware.numa_node if hardware.numa_node is not None else -1
    return name, hardware.pci.address, numa, hardware.nvlink.peers if hardware.nvlink is not None else ()


@lru_cache(maxsize=4096)  # a node's cards are counted anew with each reservation, and stay where they are
def _locations(facts: tuple[tuple[str, str, int, tuple[str, ...]], ...]) -> Mapping[str, CardLocation]:
    peers = {address: linked for _, address, _, linked in facts if address}
    clique, group = _cliques(peers), _groups(peers)
    return {
        name: CardLocation(clique.get(address, name), group.get(address, name), numa)
        for name, address, numa, _ in facts
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


NOTHING_FREE: Final = (0, 0, 0)
"""The `locality` of a node without free slots."""


def locality(options: Iterable[tuple[CardLocation, int]]) -> tuple[int, int, int]:
    """The most free slots that are in one clique, in one NVLink group, and on one NUMA node."""
    most = dict.fromkeys(LEVELS, 0)
    for (level, _), count in _totals(options).items():
        most[level] = max(most[level], count)
    return most["clique"], most["link"], most["numa"]


def distance(found: tuple[int, int, int], units: int) -> int:
    """How far apart so many slots would be, of a `locality`: 0 in one clique … 2 on one NUMA node, 3 anywhere."""
    return next((level for level, most in enumerate(found) if most >= units), len(found))


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
            best = min(enough, key=lambda group, by=by: (*fit.rank(group[0], *_ranked(by)), group[0].order))  # type: ignore[misc]
            return _fill(best, units, WITHIN[by])
    return _fill(options, units, ("numa", "link", "clique"))


def _ranked(by: Level) -> tuple[Level, ...]:
    """A clique that is a part of its NVLink group is the better the less of that group is free."""
    return ("clique", "link") if by == "clique" else (by,)


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
    while left and units > 0:
        enough = [group for group in left if _free(group) >= units]
        group = min(enough, key=_free) if enough else max(left, key=_free)
        left.remove(group)
        taken += _fill(group, units, levels[1:])
        units -= _free(group)
    return taken
