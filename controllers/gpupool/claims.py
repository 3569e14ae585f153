"""Why a card stays out of the pool that its annotation names. Pure.

It is said in three places: the card's condition Configured (which also keeps an event from
being sent twice), the event GPUAnnotationMismatch, and the pool's `candidates`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import IGNORED
from controllers.domain.allocation import undividable
from controllers.domain.approval import is_ignored
from controllers.domain.slots import blocked_by
from controllers.gpupool.migcards import hindrance
from controllers.gpupool.select import claim, held_elsewhere, in_use, serves

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.gpupool.observe import ObservedNode

POOL_UNKNOWN: Final = "PoolUnknown"
POOL_DELETING: Final = "PoolDeleting"
POOL_NOT_SERVED: Final = "PoolNotServed"
OUT_OF_SELECTOR: Final = "OutOfSelector"
HARDWARE_UNKNOWN: Final = "HardwareUnknown"
NODE_NOT_READY: Final = "NodeNotReady"
NODE_FULL: Final = "NodeFull"
STILL_IN_USE: Final = "StillInUse"
HELD_ELSEWHERE: Final = "HeldElsewhere"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a claimed card out; the reason may also be a condition of the card that is True."""

    reason: str
    message: str


def obstacle(seen: ObservedNode, device: GPUDevice) -> Obstacle | None:
    """Why a card in no pool cannot follow its annotation; None where it has none, or will come in."""
    named = claim(device)
    if named is None:
        return None
    pool = seen.by_name.get(named)
    card = _of_card(seen, device) or _of_mig(seen, device, pool)
    found = _of_pool(seen, device, named, pool) or card or _of_place(seen, device, pool)
    if found is None:
        return None
    reason, what, do = found
    return Obstacle(reason, f"The annotation {names.ASSIGNMENT}={named} is not followed: {what}. {do}.")


Found = tuple[str, str, str]
"""The reason, what was found and expected, and what to do."""
REMOVE = f"remove the annotation (kubectl annotate gpudevice <card> {names.ASSIGNMENT}-)"


def _of_pool(seen: ObservedNode, device: GPUDevice, named: str, pool: GPUPool | None) -> Found | None:
    if pool is None:
        do = f"Create the pool, name another, or {REMOVE}; it goes by itself after a while"
        return POOL_UNKNOWN, f"there is no GPUPool {named}", do
    if pool.metadata.deletion_timestamp is not None:
        return POOL_DELETING, f"GPUPool {named} is being deleted", f"Name another pool, or {REMOVE}"
    if not serves(pool):
        what = f"GPUPool {named} cannot be served as it is written"
        return POOL_NOT_SERVED, what, "Its condition Misconfigured says why"
    if (why := undividable(pool, device)) is not None:
        return OUT_OF_SELECTOR, why, f"Change the pool's migProfile, name another pool, or {REMOVE}"
    if all(taker.name != named for taker in seen.takers.get(device.name, ())) and device.status.hardware is not None:
        what = f"the selectors of GPUPool {named} do not mean this card or its node {seen.name}"
        return OUT_OF_SELECTOR, what, f"Change the pool's selectors, name another pool, or {REMOVE}"
    return None


def _of_card(seen: ObservedNode, device: GPUDevice) -> Found | None:
    blocked = blocked_by(device)
    # The mark counts at once; the condition comes and goes after it, and does neither while inventory is away. Both say
    # the same, so that nothing is told twice.
    kind = blocked.type if blocked is not None else IGNORED if is_ignored(device.metadata) else None
    if kind == IGNORED:
        do = f"Remove {names.LABEL_IGNORE}; then the pool takes the card"
        return IGNORED, f"{names.LABEL_IGNORE}=true keeps the card out of every pool", do
    if kind is not None:
        return kind, f"the card's condition {kind} is True", f"{kind} says what to do; then the pool takes the card"
    if device.status.hardware is None:
        do = "The node's agent has to report the card; then the pool takes it"
        return HARDWARE_UNKNOWN, "the card's hardware is not known yet", do
    if not seen.facts.ready:
        do = "The conditions of that GPUNodeInventory say why; once it is ready the pool takes the card"
        return NODE_NOT_READY, f"node {seen.name} is not ReadyForPooling", do
    return None


def _of_mig(seen: ObservedNode, device: GPUDevice, pool: GPUPool | None) -> Found | None:
    found = hindrance(pool.spec.allocation.mode, seen.facts, device) if pool is not None else None
    return (found.reason, found.what, f"{found.do}, or {REMOVE}") if found is not None else None


def _of_place(seen: ObservedNode, device: GPUDevice, pool: GPUPool | None) -> Found | None:
    limit = pool.spec.allocation.max_devices_per_node if pool else None
    if pool is not None and limit is not None and seen.members_of(pool.name) >= limit:
        what = f"GPUPool {pool.name} has as many cards of node {seen.name} as its maxDevicesPerNode ({limit}) allows"
        return NODE_FULL, what, f"Raise maxDevicesPerNode, name another pool, or {REMOVE}"
    if (users := held_elsewhere(device)) is not None:
        return HELD_ELSEWHERE, users, "Once those pods have ended the pool takes it"
    if in_use(device, seen.held):
        return STILL_IN_USE, "the card still serves a pod, or is still offered", "Once that has ended the pool takes it"
    return None
