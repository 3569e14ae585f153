"""Which cards of a node are near to each other, and the nearest that suffice for a pod. Pure.

Near is, first, the same NVLink group: cards that reach each other over links or switches (`hardware.nvlink.peers`),
directly or over others of the pool; then the same NUMA node, for which the cards count that do not tell theirs. Where a
group is as good as another, the one with the least room that suffices is taken, so that whole groups are left for pods
that need them. Greedy, so that 64 cards cost no more than 64² steps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice, Hardware


@dataclass(frozen=True, slots=True)
class CardLocation:
    """The NVLink group and the NUMA node of a card; equal values are near to each other."""

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
    group = _groups({address: peers for _, address, _, peers in facts if address})
    return {name: CardLocation(group.get(address, name), numa) for name, address, numa, _ in facts}


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


def locality(options: Iterable[tuple[CardLocation, int]]) -> tuple[int, int]:
    """The most free slots that are in one NVLink group, and on one NUMA node."""
    linked: dict[str, int] = defaultdict(int)
    local: dict[int, int] = defaultdict(int)
    for location, free in options:
        linked[location.link] += free
        local[location.numa] += free
    return max(linked.values(), default=0), max(local.values(), default=0)


def nearest(options: Sequence[CardOption], node: Iterable[tuple[CardLocation, int]], units: int) -> list[CardOption]:
    """Rooms for so many slots, in the order in which they are to be filled; all that there are where that is too few.

    `node`: the slots of all cards of the node, free or not, which tell a full group from one in use.
    """
    fit = _Fit(options, node)
    if alone := [option for option in options if option.free >= units]:
        # One card is nearer than any two. Which one is the strategy's choice; among equals, not out of a full group.
        return [min(alone, key=lambda option: (option.order[0], *fit.rank(option, _link, _numa), option.order[1]))]
    for by, then in ((_link, _numa), (_numa, _link)):
        if enough := [group for group in _parts(options, by) if _free(group) >= units]:
            best = min(enough, key=lambda group, by=by: (*fit.rank(group[0], by), group[0].order))  # type: ignore[misc]
            return _fill(best, units, (then,))
    return _fill(options, units, (_numa, _link))


class _Fit:
    """Free and total slots of each NVLink group and NUMA node."""

    def __init__(self, options: Iterable[CardOption], node: Iterable[tuple[CardLocation, int]]) -> None:
        self._free: dict[str | int, int] = defaultdict(int)
        self._total: dict[str | int, int] = defaultdict(int)
        for option in options:
            for group in (option.location.link, option.location.numa):
                self._free[group] += option.free
        for location, slots in node:
            for group in (location.link, location.numa):
                self._total[group] += slots

    def rank(self, option: CardOption, *bys: Callable[[CardOption], str | int]) -> tuple[int, ...]:
        """Smaller is a better fit: little room, and of two with as much the one that is more in use."""
        groups = [by(option) for by in bys]
        return tuple(value for group in groups for value in (self._free[group], -self._total[group]))


def _link(option: CardOption) -> str | int:
    return option.location.link


def _numa(option: CardOption) -> str | int:
    return option.location.numa


def _free(options: Iterable[CardOption]) -> int:
    return sum(option.free for option in options)


def _parts(options: Iterable[CardOption], by: Callable[[CardOption], str | int]) -> list[list[CardOption]]:
    """The rooms by group, the best of each first."""
    parts: dict[str | int, list[CardOption]] = defaultdict(list)
    for option in sorted(options, key=lambda option: option.order):
        parts[by(option)].append(option)
    return list(parts.values())


def _fill(
    options: Sequence[CardOption], units: int, bys: tuple[Callable[[CardOption], str | int], ...]
) -> list[CardOption]:
    """Take whole groups, the largest first, and what is left from the smallest group that suffices for it."""
    if not bys:
        return sorted(options, key=lambda option: option.order)
    taken: list[CardOption] = []
    left = _parts(options, bys[0])
    while left and units > 0:
        enough = [group for group in left if _free(group) >= units]
        group = min(enough, key=_free) if enough else max(left, key=_free)
        left.remove(group)
        taken += _fill(group, units, bys[1:])
        units -= _free(group)
    return taken
