"""How far the nodes are with the MIG layout of a pool, and which cards are ready to be offered. Pure.

A card that the bus or its node has lost, that an administrator has taken out of service, that is leaving, or on which
kubelet tells of a pod that the cluster does not have, is not waited for; it is not offered either until it is divided
as it should be.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import MAINTENANCE, find
from controllers.domain.allocation import is_applied
from controllers.domain.clock import seconds
from controllers.domain.mig import DISABLED, CardLayout, card_of, slots_of
from controllers.domain.slots import blocked_by
from controllers.gpupool.assignment import is_wanted
from controllers.gpupool.building import Built
from controllers.gpupool.fence import fence, nobody_else_bound
from controllers.gpupool.migcards import (
    acknowledged,
    ask_again,
    hindrance,
    is_done,
    is_whole,
    part_of,
    teller,
    untold,
)
from controllers.gpupool.operands import cards_in

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec
    from controllers.domain.mig import PlannedCard
    from controllers.gpupool.observe import NodeFacts, ObservedPool
    from controllers.runtime.plan import Action

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class _Card:
    """How far one card is: done where both are None."""

    due: float | None = None
    """When it will have had its time; NEVER where its time has not begun."""
    failed: str | None = None


class Whole:
    """Modes that need whole cards: one that comes out of another pool may have to be turned back first."""

    def built(self, _seen: ObservedPool, _layout: AllocationSpec, _now: float) -> Built:
        """All is there at once."""
        return Built()

    def is_ready(self, facts: NodeFacts, device: GPUDevice, _layout: AllocationSpec) -> bool:
        """Whether nothing of MIG is left to be undone."""
        return is_whole(facts, device)

    def retry(self, seen: ObservedPool, now: float) -> tuple[Action, ...] | None:
        """Have what was not turned back tried again."""
        return _again(seen, now)


class Divided:
    """Mode MIG."""

    def built(self, seen: ObservedPool, layout: AllocationSpec, now: float) -> Built:
        """How far the nodes are with dividing the cards, or with turning them back where another mode follows."""
        due: dict[str, float] = {}
        failed: dict[str, str] = {}
        for device in seen.members:
            if not _is_awaited(seen, device):
                continue
            node, found = device.status.node_name or "", _card(seen, device, layout, now)
            if found.failed is not None:
                failed.setdefault(node, f"{device.status.inventory_id}: {found.failed}")
            elif found.due is not None:
                due[node] = min(found.due, due.get(node, NEVER))
        first = min(due.values(), default=NEVER)
        pending = tuple(sorted(due.keys() - failed.keys()))
        return Built(not due and not failed, pending, failed, first if first < NEVER else None)

    def is_ready(self, facts: NodeFacts, device: GPUDevice, layout: AllocationSpec) -> bool:
        """Whether the card is divided as the layout says."""
        part, goal = part_of(facts, device), _goal(device, layout)
        return part is not None and isinstance(goal, CardLayout) and part.layout == goal and is_done(part, device)

    def retry(self, seen: ObservedPool, now: float) -> tuple[Action, ...] | None:
        """Have what failed or drifted tried again."""
        return _again(seen, now)


def _is_awaited(seen: ObservedPool, device: GPUDevice) -> bool:
    node = seen.facts(device.status.node_name).node
    if node is None or not node.ready or blocked_by(device) is not None or device.name in seen.strays:
        return False
    # One that others have is divided when they have ended: the pool's other cards do not wait for pods of strangers.
    return not device.status.foreign_allocations and is_wanted(seen, device)


def _goal(device: GPUDevice, layout: AllocationSpec) -> CardLayout | str | None:
    """How the card is to be divided, or why it cannot be; None where that is not known yet."""
    if layout.mode != "MIG":
        return DISABLED
    card = card_of(device)
    if card is None:
        return None
    slots = slots_of(card, layout.mig_profile or "")
    if slots.profile is None:
        return f"{slots.reason}: {slots.message}"
    return CardLayout(True, {slots.profile: slots.count})


def _card(seen: ObservedPool, device: GPUDevice, layout: AllocationSpec, now: float) -> _Card:
    """How far one card is with a layout."""
    facts, goal = seen.facts(device.status.node_name), _goal(device, layout)
    if isinstance(goal, str):
        return _Card(failed=goal)
    part = part_of(facts, device)
    if goal == DISABLED and is_whole(facts, device):
        return _Card()
    if part is None and layout.mode == "MIG" and not facts.ready and untold(device) is not None:
        return _Card(due=NEVER)  # who tells it is not there yet: the node is still being prepared
    # A pool that serves does not halt for it: only that card is not offered, and says why.
    if part is None and not is_applied(seen.pool) and (why := hindrance(layout.mode, facts, device)) is not None:
        return _Card(failed=str(why))
    if part is None or part.layout != goal:
        return _Card(due=NEVER)
    return _part(seen, device, part, now)


def _part(seen: ObservedPool, device: GPUDevice, part: PlannedCard, now: float) -> _Card:
    """How far one card is with its part of the node's layout."""
    if is_done(part, device):
        return _Card()
    told = acknowledged(part, device)
    if told is not None and told.phase == "Failed":
        return _Card(failed=told.reason or "the MIG manager does not say why")
    if _has_drifted(seen, device, part):
        return _Card(failed=str(untold(device) or "it is no longer divided as it was"))
    patience = seen.settings.maintenance.deadline
    try:
        due = seconds(part.asked) + patience
    except ValueError:
        return _Card(due=NEVER)
    if now < due:
        return _Card(due=due)
    how_far = f"the MIG manager says {told.phase}" if told is not None else "the MIG manager has not answered"
    if told is not None and told.phase == "Done":
        how_far += f", and the node's report does not show it; see whether {teller(device)} runs"
    return _Card(failed=f"not divided within maintenance.deadline ({patience:g} s): {how_far}")


def _has_drifted(seen: ObservedPool, device: GPUDevice, part: PlannedCard) -> bool:
    """Whether a card that was as its part says is so no longer.

    A report may come after the acknowledgement: only a card that was offered had been as it should. Once the pool
    has halted for it, and the card is withdrawn, it stays so until somebody resumes or the card is right again.
    """
    told, halted = acknowledged(part, device), find(seen.pool.status.conditions, MAINTENANCE)
    if told is None or told.phase != "Done":
        return False
    was_offered = device.status.published is not None and device.status.published.pool == seen.pool.name
    has_halted = halted is not None and halted.status == "True" and halted.reason == names.REASON_LAYOUT_FAILED
    return was_offered or has_halted


def _again(seen: ObservedPool, now: float) -> tuple[Action, ...] | None:
    """Ask anew for cards, also leaving ones, with which the MIG manager is through in vain or had its time.

    None while somebody may be on one of them: it is tried again at once when asked, and it may still be offered.
    """
    around, listed = fence(seen, now), frozenset(card for config in seen.configs for card in cards_in(config))
    cards: dict[str, list[str]] = defaultdict(list)
    for device in seen.members:
        part = part_of(seen.facts(device.status.node_name), device)
        if part is None or not _is_vain(seen, device, part, now):
            continue
        if device.status.inventory_id not in listed and around.is_clear(device):
            cards[device.status.node_name or ""].append(part.address)
        elif _is_awaited(seen, device):
            return None
    asked = ask_again(seen, cards, now)
    return (*nobody_else_bound(seen), *asked) if asked else ()


def _is_vain(seen: ObservedPool, device: GPUDevice, part: PlannedCard, now: float) -> bool:
    """Whether nobody is at a card any more that is not divided as its part says."""
    if part.layout is None or is_done(part, device):
        return False
    told = acknowledged(part, device)
    is_through = told is not None and told.phase in ("Failed", "Done")
    return is_through or _part(seen, device, part, now).failed is not None
