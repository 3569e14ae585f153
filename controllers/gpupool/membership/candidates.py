"""Candidates of a GPUPool: cards that it could take, or whose annotation names it in vain (`status.candidates`). Pure.

They are found node by node, with the node's pending cards, and kept in `candidate_index`: a change of a card concerns
only the pools that match it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from controllers.domain.approval import is_automatic
from controllers.domain.assignment import assigned_pool
from controllers.domain.eligibility import POOL_UNKNOWN
from controllers.gpupool.membership.approval import count_cards_by_pool
from controllers.gpupool.membership.obstacles import MatchedCard, check_annotation

if TYPE_CHECKING:
    from controllers.gpupool.views import ObservedNode


class Entry(NamedTuple):
    """One card as a pool lists it."""

    card: str
    reason: str
    automatic: bool
    """Whether the pool takes it without a person."""
    assignable: bool
    """Whether nobody has assigned it, and the pool gets it once somebody does."""


def candidates_on(view: ObservedNode) -> dict[str, tuple[Entry, ...]]:
    """The candidates of one node, by pool."""
    found: dict[str, list[Entry]] = defaultdict(list)
    taken = count_cards_by_pool(view)
    for device in view.unassigned:
        named = assigned_pool(device)
        if named is not None:
            hindered = check_annotation(view, device)
            if hindered is not None and hindered.kind != POOL_UNKNOWN:
                found[named].append(Entry(device.name, hindered.kind, automatic=False, assignable=False))
        elif pools := view.matching_pools.get(device.name):
            card = MatchedCard(view, device)
            for pool in pools:
                if card.check_pool(pool, taken[pool.name]) is None:
                    automatic = is_automatic(pool, device, view.settings)
                    found[pool.name].append(Entry(device.name, "AwaitingApproval", automatic, assignable=True))
    return {pool: tuple(entries) for pool, entries in found.items()}
