"""Why a GPUDevice does not come into the GPUPool that its annotation names, and what people are told of it. Pure.

They are told in three places: the card's condition Configured (which also keeps an event from
being sent twice), the event GPUAnnotationMismatch, and the pool's `candidates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.assignment import annotation_hint, assigned_pool
from controllers.domain.eligibility import (
    CARD_DELETING,
    POOL_UNKNOWN,
    CardContext,
    checks_left,
    first_failed,
    part_of,
)
from controllers.domain.position import positions
from controllers.domain.selectors.explain import explain_mismatch
from controllers.domain.wording import short

if TYPE_CHECKING:
    from collections.abc import Collection

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.domain.eligibility import Ineligible
    from controllers.domain.selectors.explain import Mismatch
    from controllers.gpupool.views import NodeFacts, ObservedNode, ObservedPool


def check_annotation(view: ObservedNode, device: GPUDevice) -> Ineligible | None:
    """Why a card in no pool cannot follow its annotation; None where it has none, or will come in."""
    named = assigned_pool(device)
    if named is None:
        return None
    pool = view.by_name.get(named)
    mismatch = _mismatch(view, device, pool) if pool is not None else None
    seen = _context(view.facts, device, view.maybe_in_use)
    return first_failed(seen.of(named, pool, view.members_of(named), mismatch))


class MatchedCard:
    """A card in no pool, against pools that match it (`matching_pools`): what is the same for all is found once."""

    __slots__ = ("_checks", "_seen")

    def __init__(self, view: ObservedNode, device: GPUDevice) -> None:
        """Look at what is the same for all."""
        self._seen = _context(view.facts, device, view.maybe_in_use)
        self._checks = checks_left(self._seen)

    def check_pool(self, pool: GPUPool, siblings: int) -> Ineligible | None:
        """Why the card could not come into the pool; None where it can.

        `siblings`: cards of the node that the pool has, or is about to take.
        """
        return first_failed(self._seen.of(pool.name, pool, siblings), self._checks)


def check_assignment(view: ObservedPool, device: GPUDevice, siblings: int) -> Ineligible | None:
    """Why a card cannot come into the pool that it names. `siblings`: cards of its node that the pool has."""
    facts, position = view.facts(device.status.node_name), view.positions.get(device.name, 0)
    labels = facts.node.metadata.labels if facts.node else {}
    mismatch = explain_mismatch(view.pool, device, labels, position)
    return first_failed(_context(facts, device, view.maybe_in_use).of(view.pool.name, view.pool, siblings, mismatch))


def not_followed_message(device: GPUDevice, found: Ineligible) -> str:
    """The message for a card that stays out of the pool which its annotation names."""
    hint = annotation_hint(short(assigned_pool(device) or ""))
    then = "; then assign it again" if found.kind == CARD_DELETING else "; then the pool takes the card"
    if found.lasting:
        then = f", or remove the annotation (kubectl annotate gpudevice {device.name} {names.ASSIGNMENT}-)"
    if found.kind == POOL_UNKNOWN:
        then += "; it goes by itself after a while"
    return f"The annotation {hint} is not followed: {found.message}. {found.action}{then}."


def _context(facts: NodeFacts, device: GPUDevice, maybe_in_use: Collection[str]) -> CardContext:
    """A card of a node, and no pool yet. `maybe_in_use`: cards (inventoryIDs) that may be allocated to a bound pod."""
    return CardContext(
        device=device,
        name="",
        pool=None,
        mismatch=None,
        ready=facts.ready,
        part=part_of(facts.layout, device),
        siblings=0,
        maybe_in_use=device.status.inventory_id in maybe_in_use,
    )


def _mismatch(view: ObservedNode, device: GPUDevice, pool: GPUPool) -> Mismatch | None:
    if any(matching.name == pool.name for matching in view.matching_pools.get(device.name, ())):
        return None  # found once for each kind of card, for thousands of them
    labels = view.facts.node.metadata.labels if view.facts.node else {}
    place = next((at for at, other in zip(positions(view.devices), view.devices, strict=True) if other is device), 0)
    return explain_mismatch(pool, device, labels, place)
