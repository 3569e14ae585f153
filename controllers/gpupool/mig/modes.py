"""Layout handlers of the allocation modes: cards partitioned by MIG, and whole cards. Pure.

A card for which the layout fails is left out: it is not offered and its condition tells why, and the pool goes on with
the others. A pool halts where every card has failed that it waits for, and none is left: it has nothing to give, and a
profile that no card takes looks like that.

A card that the bus or its node has lost, that an administrator has taken out of service, that is leaving, or on which
kubelet reports a pod that the cluster does not have, is not waited for; it is not offered either until it is
partitioned as it should be.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from controllers.api.gpudevice import MIG_OVER
from controllers.domain.allocation import is_applied
from controllers.domain.eligibility import mode_obstacle, part_of, untold_state
from controllers.domain.mig import DISABLED, CardLayout, card_of, slots_of
from controllers.domain.slots import blocked_by
from controllers.domain.usage import is_clear, unreported
from controllers.gpupool.mig.cards import acknowledged, is_done, is_whole, request_retry
from controllers.gpupool.mig.handler import LayoutProgress, maintenance_since
from controllers.gpupool.mig.progress import NEVER, CardProgress, part_progress
from controllers.gpupool.operands import cards_in
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
            failed=_failures_by_node(_awaited_cards(view, layout, now)) if any(_member_parts(view)) else {}
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
        cards = _awaited_cards(view, layout, now)
        due: dict[str, float] = {}
        for device, found in cards:
            if found.due is not None:
                node = device.status.node_name or ""
                due[node] = min(found.due, due.get(node, NEVER))
        first = min(due.values(), default=NEVER)
        all_failed = bool(cards) and all(found.failed is not None for _, found in cards)
        all_failed = all_failed and not _is_any_left(view, layout, now)
        done = not due and not all_failed
        return LayoutProgress(
            done, tuple(sorted(due)), _failures_by_node(cards), first if first < NEVER else None, all_failed=all_failed
        )

    def is_ready(self, facts: NodeFacts, device: GPUDevice, layout: AllocationSpec) -> bool:
        """Whether the card is partitioned as the layout asks."""
        part, desired = part_of(facts.layout, device), _desired_card_layout(device, layout)
        return part is not None and isinstance(desired, CardLayout) and part.layout == desired and is_done(part, device)

    def retry(self, view: ObservedPool, now: float) -> tuple[Action, ...] | None:
        """Have what failed or drifted tried again."""
        return _retry(view, now)


def card_progress(view: ObservedPool, device: GPUDevice, layout: AllocationSpec, now: float) -> CardProgress:
    """How far a card is that is waited for; one that is not counts as done."""
    return _card_progress(view, device, layout, now) if _is_awaited(view, device) else CardProgress()


def _member_parts(view: ObservedPool) -> Iterator[PlannedCard | None]:
    return (part_of(view.facts(device.status.node_name).layout, device) for device in view.members)


def _awaited_cards(view: ObservedPool, layout: AllocationSpec, now: float) -> list[tuple[GPUDevice, CardProgress]]:
    """The cards that are waited for, each with how far it is."""
    return [(device, _card_progress(view, device, layout, now)) for device in view.members if _is_awaited(view, device)]


def _is_any_left(view: ObservedPool, layout: AllocationSpec, now: float) -> bool:
    """Whether a card that is not waited for, as its node is away for the moment, is as the layout says."""
    others = (device for device in view.members if view.wants(device) and not _is_awaited(view, device))
    return any(
        _card_progress(view, device, layout, now) == CardProgress() for device in others if blocked_by(device) is None
    )


def _failures_by_node(cards: list[tuple[GPUDevice, CardProgress]]) -> dict[str, str]:
    """What went wrong, by node: the first card of each."""
    failures: dict[str, str] = {}
    for device, found in cards:
        if found.failed is not None:
            failures.setdefault(device.status.node_name or "", f"{device.status.inventory_id}: {found.failed}")
    return failures


def _is_awaited(view: ObservedPool, device: GPUDevice) -> bool:
    node = view.facts(device.status.node_name).node
    if node is None or not node.ready or blocked_by(device) is not None or device.name in view.with_unknown_pods:
        return False
    # One that others have is divided when they have ended: the pool's other cards do not wait for pods of strangers.
    return not device.status.foreign_allocations and view.wants(device)


def _desired_card_layout(device: GPUDevice, layout: AllocationSpec) -> CardLayout | str | None:
    """How the card is to be partitioned, or why it cannot be; None where that is not known yet."""
    if layout.mode != "MIG":
        return DISABLED
    card = card_of(device)
    if card is None:
        return None
    slots = slots_of(card, layout.mig_profile or "")
    if slots.profile is None:
        return f"{slots.reason}: {slots.message}"
    return CardLayout(True, {slots.profile: slots.count})


def _card_progress(view: ObservedPool, device: GPUDevice, layout: AllocationSpec, now: float) -> CardProgress:
    """How far one card is with a layout."""
    facts, desired = view.facts(device.status.node_name), _desired_card_layout(device, layout)
    if isinstance(desired, str):
        return CardProgress(failed=desired)
    part = part_of(facts.layout, device)
    if desired == DISABLED and is_whole(facts, device):
        return CardProgress()
    if part is None and layout.mode == "MIG" and not facts.ready and untold_state(device) is not None:
        # Who tells it is not there yet: the node is still being prepared, and has as long for that as for a division.
        due = _maintenance_deadline(view)
        return CardProgress(due=due) if now < due else CardProgress(failed=str(untold_state(device)))
    # A pool that serves does not halt for it: only that card is not offered, and says why.
    if part is None and not is_applied(view.pool) and (why := mode_obstacle(layout.mode, part, device)) is not None:
        return CardProgress(failed=str(why))
    if part is None or part.layout != desired:
        return CardProgress(due=NEVER)
    return part_progress(view, device, part, now)


def _maintenance_deadline(view: ObservedPool) -> float:
    """Until when the pool waits for its nodes, in epoch seconds; NEVER before condition Maintenance is written."""
    began = maintenance_since(view.pool)
    return NEVER if began is None else began + view.settings.maintenance.deadline


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
        elif _is_awaited(view, device):
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
