"""Why a GPUDevice does not come into the GPUPool that its annotation names, and what people are told of it. Pure.

They are told in three places: the card's condition Configured (which also keeps an event from
being sent twice), the event GPUAnnotationMismatch, and the pool's `candidates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.assignment import annotation_hint, assigned_pool
from controllers.domain.eligibility import POOL_UNKNOWN, CardContext, check_mig_mode, first_failed, part_of
from controllers.domain.position import positions
from controllers.domain.selectors.explain import explain_mismatch
from controllers.domain.wording import short

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.domain.eligibility import Ineligible
    from controllers.domain.selectors.explain import Mismatch
    from controllers.gpupool.views import ObservedNode, ObservedPool


def check_annotation(view: ObservedNode, device: GPUDevice) -> Ineligible | None:
    """Why a card in no pool cannot follow its annotation; None where it has none, or will come in."""
    named = assigned_pool(device)
    if named is None:
        return None
    pool = view.by_name.get(named)
    mismatch = _mismatch(view, device, pool) if pool is not None else None
    return first_failed(_context(view, device, named, pool, mismatch=mismatch, siblings=view.members_of(named)))


def check_card_for_pool(view: ObservedNode, device: GPUDevice, pool: GPUPool, siblings: int) -> Ineligible | None:
    """Why a card in no pool could not come into one that matches it (`matching_pools`); None where it can.

    `siblings`: cards of the node that the pool has, or is about to take.
    """
    return first_failed(_context(view, device, pool.name, pool, mismatch=None, siblings=siblings))


def check_assignment(view: ObservedPool, device: GPUDevice, siblings: int) -> Ineligible | None:
    """Why a card cannot come into the pool that it names. `siblings`: cards of its node that the pool has."""
    facts, position = view.facts(device.status.node_name), view.positions.get(device.name, 0)
    labels = facts.node.metadata.labels if facts.node else {}
    return first_failed(
        CardContext(
            device=device,
            name=view.pool.name,
            pool=view.pool,
            mismatch=explain_mismatch(view.pool, device, labels, position),
            ready=facts.ready,
            part=part_of(facts.layout, device),
            siblings=siblings,
            maybe_in_use=device.status.inventory_id in view.maybe_in_use,
        )
    )


def conflicts_with_mig_mode(view: ObservedNode, pool: GPUPool, device: GPUDevice) -> bool:
    """Whether the pool cannot serve the card as MIG mode is on it now."""
    return check_mig_mode(pool.spec.allocation.mode, part_of(view.facts.layout, device), device) is not None


def not_followed_message(device: GPUDevice, found: Ineligible) -> str:
    """The message for a card that stays out of the pool which its annotation names."""
    hint = annotation_hint(short(assigned_pool(device) or ""))
    then = "; then the pool takes the card"
    if found.lasting:
        then = f", or remove the annotation (kubectl annotate gpudevice {device.name} {names.ASSIGNMENT}-)"
    if found.kind == POOL_UNKNOWN:
        then += "; it goes by itself after a while"
    return f"The annotation {hint} is not followed: {found.message}. {found.action}{then}."


def _context(
    view: ObservedNode,
    device: GPUDevice,
    named: str,
    pool: GPUPool | None,
    *,
    mismatch: Mismatch | None,
    siblings: int,
) -> CardContext:
    return CardContext(
        device=device,
        name=named,
        pool=pool,
        mismatch=mismatch,
        ready=view.facts.ready,
        part=part_of(view.facts.layout, device),
        siblings=siblings,
        maybe_in_use=device.status.inventory_id in view.maybe_in_use,
    )


def _mismatch(view: ObservedNode, device: GPUDevice, pool: GPUPool) -> Mismatch | None:
    if any(matching.name == pool.name for matching in view.matching_pools.get(device.name, ())):
        return None  # found once for each kind of card, for thousands of them
    labels = view.facts.node.metadata.labels if view.facts.node else {}
    place = next((at for at, other in zip(positions(view.devices), view.devices, strict=True) if other is device), 0)
    return explain_mismatch(pool, device, labels, place)
