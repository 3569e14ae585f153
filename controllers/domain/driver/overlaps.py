"""What of a cluster's GPUDrivers overlaps: who loses which nodes to whom, and who has nodes by age alone. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.domain.driver.precedence import Ranking


@dataclass(slots=True)
class Overlap:
    """What one driver shares with others."""

    lost: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Nodes that it matches and others have, by who has them."""
    contested: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Nodes that it has though others match them with the same priority, by the first of those."""


def overlaps(rankings: Iterable[tuple[str, Ranking]]) -> Mapping[str, Overlap]:
    """By driver, from each node's name and ranking in the order of names; drivers that share nothing are not there."""
    found: dict[str, Overlap] = defaultdict(Overlap)
    for node, ranking in rankings:
        if ranking.winner is None:
            continue
        for loser in ranking.losers:
            found[loser].lost[ranking.winner].append(node)
        if ranking.equals:
            found[ranking.winner].contested[ranking.equals[0]].append(node)
    return found


def explain(overlap: Overlap) -> str:
    """The overlap in a sentence: how many nodes, the first of them, who has them, and how to decide it."""
    parts = []
    if overlap.lost:
        nodes = [node for taken in overlap.lost.values() for node in taken]
        parts.append(
            f"{_counted(nodes)} {'are' if len(nodes) > 1 else 'is'} matched and go to others: "
            + listed(f"{winner} has {len(taken)}" for winner, taken in sorted(overlap.lost.items()))
        )
    if overlap.contested:
        nodes = [node for taken in overlap.contested.values() for node in taken]
        parts.append(
            f"{_counted(nodes)} also match {listed(sorted(overlap.contested))} with the same priority, so that only "
            "who had them first decides"
        )
    return "; ".join(parts) + ": give the drivers different spec.priority, or narrow spec.target" if parts else ""


def _counted(nodes: list[str]) -> str:
    return f"{len(nodes)} node{'s' if len(nodes) != 1 else ''} ({listed(sorted(nodes))})"
