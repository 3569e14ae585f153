"""Cards of a node against the pools that their annotations name, and what is said of those that stay out. Pure.

It is said in three places: the card's condition Configured (which also keeps an event from
being sent twice), the event GPUAnnotationMismatch, and the pool's `candidates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.assignment import annotation_hint, assigned_pool
from controllers.domain.eligibility import POOL_UNKNOWN, CardContext, first_failed, mode_obstacle, part_of
from controllers.domain.position import positions
from controllers.domain.unmatched import why_not
from controllers.domain.wording import short

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.domain.eligibility import Ineligible
    from controllers.domain.unmatched import Mismatch
    from controllers.gpupool.observe import ObservedNode, ObservedPool


def obstacle(seen: ObservedNode, device: GPUDevice) -> Ineligible | None:
    """Why a card in no pool cannot follow its annotation; None where it has none, or will come in."""
    named = assigned_pool(device)
    if named is None:
        return None
    pool = seen.by_name.get(named)
    mismatch = _mismatch(seen, device, pool) if pool is not None else None
    return first_failed(_context(seen, device, named, pool, mismatch=mismatch, siblings=seen.members_of(named)))


def obstacle_to(seen: ObservedNode, device: GPUDevice, pool: GPUPool, siblings: int) -> Ineligible | None:
    """Why a card in no pool could not come into one that matches it (`takers`); None where it can.

    `siblings`: cards of the node that the pool has, or is about to take.
    """
    return first_failed(_context(seen, device, pool.name, pool, mismatch=None, siblings=siblings))


def claim_obstacle(seen: ObservedPool, device: GPUDevice, siblings: int) -> Ineligible | None:
    """Why a card cannot come into the pool that it names. `siblings`: cards of its node that the pool has."""
    facts, position = seen.facts(device.status.node_name), seen.positions.get(device.name, 0)
    labels = facts.node.metadata.labels if facts.node else {}
    return first_failed(
        CardContext(
            device=device,
            name=seen.pool.name,
            pool=seen.pool,
            mismatch=why_not(seen.pool, device, labels, position),
            ready=facts.ready,
            part=part_of(facts.layout, device),
            siblings=siblings,
            held=device.status.inventory_id in seen.held,
        )
    )


def is_hindered(seen: ObservedNode, pool: GPUPool, device: GPUDevice) -> bool:
    """Whether the pool cannot serve the card as MIG mode is on it now."""
    return mode_obstacle(pool.spec.allocation.mode, part_of(seen.facts.layout, device), device) is not None


def sentence(device: GPUDevice, found: Ineligible) -> str:
    """What is said of a card that stays out of the pool which its annotation names."""
    hint = annotation_hint(short(assigned_pool(device) or ""))
    then = "; then the pool takes the card"
    if found.lasting:
        then = f", or remove the annotation (kubectl annotate gpudevice {device.name} {names.ASSIGNMENT}-)"
    if found.kind == POOL_UNKNOWN:
        then += "; it goes by itself after a while"
    return f"The annotation {hint} is not followed: {found.found}. {found.action}{then}."


def _context(
    seen: ObservedNode,
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
        ready=seen.facts.ready,
        part=part_of(seen.facts.layout, device),
        siblings=siblings,
        held=device.status.inventory_id in seen.held,
    )


def _mismatch(seen: ObservedNode, device: GPUDevice, pool: GPUPool) -> Mismatch | None:
    if any(matching.name == pool.name for matching in seen.takers.get(device.name, ())):
        return None  # judged by kind, for thousands of cards
    labels = seen.facts.node.metadata.labels if seen.facts.node else {}
    place = next((at for at, other in zip(positions(seen.devices), seen.devices, strict=True) if other is device), 0)
    return why_not(pool, device, labels, place)
