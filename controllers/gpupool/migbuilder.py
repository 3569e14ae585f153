"""How far the nodes are with the MIG layout of a pool, and which cards are ready to be offered. Pure.

A card for which that fails stands aside: it is not offered and says why, and the pool goes on with the others. A pool
halts where every card has failed that it waits for, and none is left: it has nothing to give, and a profile that no
card takes looks like that.

A card that the bus or its node has lost, that an administrator has taken out of service, that is leaving, or on which
kubelet tells of a pod that the cluster does not have, is not waited for; it is not offered either until it is divided
as it should be.
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
from controllers.gpupool.assignment import is_wanted
from controllers.gpupool.building import Built, maintenance_since
from controllers.gpupool.migcards import acknowledged, ask_again, is_done, is_whole
from controllers.gpupool.migprogress import NEVER, Progress, of_part
from controllers.gpupool.operands.device_plugin import cards_in
from controllers.gpupool.quorum import nobody_else_bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec
    from controllers.domain.mig import PlannedCard
    from controllers.gpupool.observe import NodeFacts, ObservedPool
    from controllers.runtime.plan import Action


class Whole:
    """Modes that need whole cards: one that comes out of another pool may have to be turned back first."""

    def built(self, seen: ObservedPool, layout: AllocationSpec, now: float) -> Built:
        """All is there at once; what could not be turned back is told, and nobody waits for it."""
        return Built(failed=_failed(_cards(seen, layout, now)) if any(_parts(seen)) else {})

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
        cards = _cards(seen, layout, now)
        due: dict[str, float] = {}
        for device, found in cards:
            if found.due is not None:
                node = device.status.node_name or ""
                due[node] = min(found.due, due.get(node, NEVER))
        first = min(due.values(), default=NEVER)
        hopeless = bool(cards) and all(found.failed is not None for _, found in cards)
        hopeless = hopeless and not _is_any_left(seen, layout, now)
        done = not due and not hopeless
        return Built(done, tuple(sorted(due)), _failed(cards), first if first < NEVER else None, hopeless=hopeless)

    def is_ready(self, facts: NodeFacts, device: GPUDevice, layout: AllocationSpec) -> bool:
        """Whether the card is divided as the layout says."""
        part, goal = part_of(facts.layout, device), _goal(device, layout)
        return part is not None and isinstance(goal, CardLayout) and part.layout == goal and is_done(part, device)

    def retry(self, seen: ObservedPool, now: float) -> tuple[Action, ...] | None:
        """Have what failed or drifted tried again."""
        return _again(seen, now)


def progress(seen: ObservedPool, device: GPUDevice, layout: AllocationSpec, now: float) -> Progress:
    """How far a card is that is waited for: where it failed, it stands aside."""
    return _card(seen, device, layout, now) if _is_awaited(seen, device) else Progress()


def _parts(seen: ObservedPool) -> Iterator[PlannedCard | None]:
    return (part_of(seen.facts(device.status.node_name).layout, device) for device in seen.members)


def _cards(seen: ObservedPool, layout: AllocationSpec, now: float) -> list[tuple[GPUDevice, Progress]]:
    """The cards that are waited for, each with how far it is."""
    return [(device, _card(seen, device, layout, now)) for device in seen.members if _is_awaited(seen, device)]


def _is_any_left(seen: ObservedPool, layout: AllocationSpec, now: float) -> bool:
    """Whether a card that is not waited for, as its node is away for the moment, is as the layout says."""
    others = (device for device in seen.members if is_wanted(seen, device) and not _is_awaited(seen, device))
    return any(_card(seen, device, layout, now) == Progress() for device in others if blocked_by(device) is None)


def _failed(cards: list[tuple[GPUDevice, Progress]]) -> dict[str, str]:
    """What went wrong, by node: the first card of each."""
    told: dict[str, str] = {}
    for device, found in cards:
        if found.failed is not None:
            told.setdefault(device.status.node_name or "", f"{device.status.inventory_id}: {found.failed}")
    return told


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


def _card(seen: ObservedPool, device: GPUDevice, layout: AllocationSpec, now: float) -> Progress:
    """How far one card is with a layout."""
    facts, goal = seen.facts(device.status.node_name), _goal(device, layout)
    if isinstance(goal, str):
        return Progress(failed=goal)
    part = part_of(facts.layout, device)
    if goal == DISABLED and is_whole(facts, device):
        return Progress()
    if part is None and layout.mode == "MIG" and not facts.ready and untold_state(device) is not None:
        # Who tells it is not there yet: the node is still being prepared, and has as long for that as for a division.
        due = _deadline(seen)
        return Progress(due=due) if now < due else Progress(failed=str(untold_state(device)))
    # A pool that serves does not halt for it: only that card is not offered, and says why.
    if part is None and not is_applied(seen.pool) and (why := mode_obstacle(layout.mode, part, device)) is not None:
        return Progress(failed=str(why))
    if part is None or part.layout != goal:
        return Progress(due=NEVER)
    return of_part(seen, device, part, now)


def _deadline(seen: ObservedPool) -> float:
    """Until when the pool waits for its nodes; NEVER where it has not said yet that it does."""
    began = maintenance_since(seen.pool)
    return NEVER if began is None else began + seen.settings.maintenance.deadline


def _again(seen: ObservedPool, now: float) -> tuple[Action, ...] | None:
    """Ask anew for cards, also leaving ones, with which the MIG manager is through in vain or had its time.

    None while somebody may be on one of them: it is tried again at once when asked, and it may still be offered.
    """
    beside = unreported(seen.pool.name, seen.members, seen.pods)
    listed = frozenset(card for config in seen.configs for card in cards_in(config))
    cards: dict[str, list[str]] = defaultdict(list)
    for device in seen.members:
        part = part_of(seen.facts(device.status.node_name).layout, device)
        if part is None or not _is_vain(seen, device, part, now):
            continue
        if device.status.inventory_id not in listed and is_clear(device, beside, now):
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
    is_through = told is not None and told.phase in MIG_OVER
    return is_through or of_part(seen, device, part, now).failed is not None
