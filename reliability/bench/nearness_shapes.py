"""Machines of eight cards for the benchmark of nearness: who is linked to whom, and what is near on an empty one. Pure.

Models of kinds of machines, not facts of one: links, PCI roots and NUMA nodes, as `nvidia-smi topo -m` shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CARDS: Final = 8
HALVES: Final = (frozenset(range(4)), frozenset(range(4, 8)))
PAIRS: Final = tuple(frozenset((at, at + 1)) for at in range(0, CARDS, 2))
_QUAD: Final = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2}
_CUBE: Final = {
    **_QUAD,
    **{(one + 4, other + 4): count for (one, other), count in _QUAD.items()},
    **{(at, at + 4): 2 if at in (0, 1) else 1 for at in range(4)},
}


@dataclass(frozen=True, slots=True)
class NodeShape:
    """One kind of machine; the cards are numbered from 0."""

    name: str
    links: Mapping[tuple[int, int], int]
    """How many NVLinks there are between two cards, the lower number first."""
    near: Mapping[int, tuple[frozenset[int], ...]]
    """By the number of a pod's cards, the groups of which one has them all on an empty machine."""
    root_cards: int = 1
    """How many cards hang on one PCI root."""
    switched: bool = False
    """Whether the links are to switches."""

    def peers(self, card: int) -> dict[int, int]:
        """The cards to which one has links, and how many."""
        if self.switched:
            return dict.fromkeys((other for other in range(CARDS) if other != card), 18)
        ends = [(*pair, count) for pair, count in self.links.items() if card in pair]
        return {one + other - card: count for one, other, count in sorted(ends)}

    def is_split(self, cards: frozenset[int]) -> bool:
        """Whether an empty machine would have had these cards nearer to each other."""
        return len(cards) in self.near and not any(cards <= group for group in self.near[len(cards)])


SHAPES: Final = (
    NodeShape("a100-pairs", {(at, at + 1): 12 for at in range(0, CARDS, 2)}, {2: PAIRS, 4: HALVES}),
    # All cards are as near as can be by their links, so that it is the NUMA node that counts.
    NodeShape("h100-sxm-8", {}, {2: HALVES, 4: HALVES}, switched=True),
    NodeShape("l40s-8", {}, {2: PAIRS, 4: HALVES}, root_cards=2),
    NodeShape("v100-mesh", _CUBE, {2: tuple(frozenset(pair) for pair, count in _CUBE.items() if count > 1), 4: HALVES}),
)
