"""Layout handlers of the allocation modes: cards partitioned by MIG, and whole cards. Pure.

A card for which the layout fails is left out: it is not offered and its condition tells why, and the pool goes on with
the others. A pool halts where every card has failed that it waits for, and none is left: it has nothing to give, and a
profile that no card takes looks like that.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from controllers.api.gpudevice import MIG_OVER
from controllers.domain.eligibility import part_of
from controllers.domain.mig import CardLayout
from controllers.domain.usage import is_clear, unreported
from controllers.gpupool.mig.awaited_cards import (
    awaited_cards,
    desired_card_layout,
    failures_by_node,
    is_any_left,
    is_awaited,
)
from controllers.gpupool.mig.cards import acknowledged, is_done, is_whole, request_retry
from controllers.gpupool.mig.handler import LayoutProgress
from controllers.gpupool.mig.progress import NEVER, part_progress
from controllers.gpupool.operands.device_plugin import cards_in
from controllers.gpupool.quorum import nobody_else_bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec
    from controllers.domain.mig import PlannedCard
    from controllers.gpupool.views import NodeFacts, ObservedPool
    from controllers.runtime.plan import Action


class WholeCardMode:
    """Exclusive and TimeSlice: MIG mode of a card that comes out of another pool may have to be disabled first."""

    def progress(self, view: ObservedPool, layout: AllocationSpec, now: float) -> LayoutProgress:
        """Done at once; where MIG mode could not be disabled, that is a failure, and nobody waits for it."""
        return LayoutProgress(
            failed=failures_by_node(awaited_cards(view, layout, now)) if any(_member_parts(view)) else {}
        )

    def is_ready(self, facts: NodeFacts, device: GPUDevice, _layout: AllocationSpec) -> bool:
        """Whether the card can be offered as a whole one."""
        return is_whole(facts, device)

    def retry(self, view: ObservedPool, now: float) -> tuple[Action, ...] | None:
        """Have the cards tried again whose MIG mode was not disabled."""
        return _retry(view, now)


class MIGMode:
    """MIG: cards are partitioned into instances of one profile."""

    def progress(self, view: ObservedPool, layout: AllocationSpec, now: float) -> LayoutProgress:
        """How far the nodes are with partitioning the cards, or with disabling MIG mode where another mode follows."""
        cards = awaited_cards(view, layout, now)
        due: dict[str, float] = {}
        for device, found in cards:
            if found.due is not None:
                node = device.status.node_name or ""
                due[node] = min(found.due, due.get(node, NEVER))
        first = min(due.values(), default=NEVER)
        all_failed = bool(cards) and all(found.failed is not None for _, found in cards)
        all_failed = all_failed and not is_any_left(view, layout, now)
        done = not due and not all_failed
        return LayoutProgress(
            done, tuple(sorted(due)), failures_by_node(cards), first if first < NEVER else None, all_failed=all_failed
        )

    def is_ready(self, facts: NodeFacts, device: GPUDevice, layout: AllocationSpec) -> bool:
        """Whether the card is partitioned as the layout asks."""
        part, desired = part_of(facts.layout, device), desired_card_layout(device, layout)
        return part is not None and isinstance(desired, CardLayout) and part.layout == desired and is_done(part, device)

    def retry(self, view: ObservedPool, now: float) -> tuple[Action, ...] | None:
        """Have what failed or drifted tried again."""
        return _retry(view, now)


def _member_parts(view: ObservedPool) -> Iterator[PlannedCard | None]:
    return (part_of(view.facts(device.status.node_name).layout, device) for device in view.members)


def _retry(view: ObservedPool, now: float) -> tuple[Action, ...] | None:
    """Request anew the cards, also leaving ones, for which the MIG manager has failed or exceeded the deadline.

    None while somebody may be on one of them: it is tried again at once when asked, and it may still be offered.
    """
    beside = unreported(view.pool.name, view.members, view.pods)
    listed = frozenset(card for config in view.configs for card in cards_in(config))
    cards: dict[str, list[str]] = defaultdict(list)
    for device in view.members:
        part = part_of(view.facts(device.status.node_name).layout, device)
        if part is None or not _has_failed(view, device, part, now):
            continue
        if device.status.inventory_id not in listed and is_clear(device, beside, now):
            cards[device.status.node_name or ""].append(part.address)
        elif is_awaited(view, device):
            return None
    asked = request_retry(view, cards, now)
    return (*nobody_else_bound(view), *asked) if asked else ()


def _has_failed(view: ObservedPool, device: GPUDevice, part: PlannedCard, now: float) -> bool:
    """Whether nobody works on a card any more that is not partitioned as its part asks."""
    if part.layout is None or is_done(part, device):
        return False
    failures = acknowledged(part, device)
    is_through = failures is not None and failures.phase in MIG_OVER
    return is_through or part_progress(view, device, part, now).failed is not None
