"""The checks of whether a card may come into the pool that its annotation names; `chain` has their order.

A check is a function of a CardContext that tells what is in the way, or None. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from controllers.api import names
from controllers.api.conditions import IGNORED
from controllers.domain.approval import is_declined
from controllers.domain.eligibility.mig import check_mig_mode
from controllers.domain.eligibility.records import Ineligible
from controllers.domain.issuing import blocked_by
from controllers.domain.usage import foreign_users, in_use
from controllers.domain.wording import short

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.reasons.typed import Reason
    from controllers.domain.eligibility.records import CardContext

SERVED_MODES: Final = ("Exclusive", "TimeSlice", "MPS", "MIG")
"""Modes that this version hands out; a pool of another mode is Misconfigured and says so."""

CARD_DELETING: Final = "CardDeleting"
POOL_UNKNOWN: Final = "PoolUnknown"
POOL_DELETING: Final = "PoolDeleting"
POOL_NOT_SERVED: Final = "PoolNotServed"
OUT_OF_SELECTOR: Final = "OutOfSelector"
HARDWARE_UNKNOWN: Final = "HardwareUnknown"
NODE_NOT_READY: Final = "NodeNotReady"
NODE_FULL: Final = "NodeFull"
STILL_IN_USE: Final = "StillInUse"
HELD_ELSEWHERE: Final = "HeldElsewhere"


def card_stays(seen: CardContext) -> Ineligible | None:
    """The card's GPUDevice is not being deleted.

    The annotation goes with it, and so would whatever a pool wrote there.
    """
    if seen.device.metadata.deletion_timestamp is None:
        return None
    do = "Wait for the new one, which the next report of its node brings if the card is there"
    return Ineligible(CARD_DELETING, f"GPUDevice {seen.device.name} is being deleted", do)


def pool_exists(seen: CardContext) -> Ineligible | None:
    """There is such a pool."""
    if seen.pool is not None:
        return None
    return Ineligible(
        POOL_UNKNOWN, f"there is no GPUPool {short(seen.name)!r}", "Create the pool, name another", lasting=True
    )


def pool_stays(seen: CardContext) -> Ineligible | None:
    """The pool is not being deleted."""
    if seen.pool is None or seen.pool.metadata.deletion_timestamp is None:
        return None
    found = f"GPUPool {seen.name} is being deleted"
    return Ineligible(POOL_DELETING, found, "Name another pool", lasting=True)


def mode_is_served(seen: CardContext) -> Ineligible | None:
    """The module, in this version, hands out cards in the pool's mode."""
    if seen.pool is None or seen.pool.spec.allocation.mode in SERVED_MODES:
        return None
    found = f"GPUPool {seen.name} cannot be served as it is written"
    return Ineligible(
        POOL_NOT_SERVED,
        found,
        "Change its mode (its condition Misconfigured says to what), name another pool",
        lasting=True,
    )


def selectors_match(seen: CardContext) -> Ineligible | None:
    """The pool's selectors match the card and its node, and the card can be divided by the pool's profile."""
    if seen.mismatch is None or seen.device.status.hardware is None:
        return None  # of a card whose hardware nobody knows a selector says nothing
    found = f"GPUPool {seen.name} does not match card {seen.device.name}: {seen.mismatch}"
    do = "Change that of the pool, name another pool"
    return Ineligible(OUT_OF_SELECTOR, found, do, lasting=True)


def no_condition_blocks(seen: CardContext) -> Ineligible | None:
    """No condition of the card, and no mark of a person, keeps it out of pools."""
    return blocked(seen.device)


def hardware_is_known(seen: CardContext) -> Ineligible | None:
    """The node's agent has reported the card."""
    if seen.device.status.hardware is not None:
        return None
    do = "The node's agent has to report it first"
    return Ineligible(HARDWARE_UNKNOWN, "the card's hardware is not known yet", do)


def node_is_ready(seen: CardContext) -> Ineligible | None:
    """The card's node is ReadyForPooling, as far as that could be read."""
    if seen.ready is not False:
        return None
    node = seen.device.status.node_name
    do = f"kubectl describe gpunodeinventory {node} says why"
    return Ineligible(NODE_NOT_READY, f"node {node} is not ReadyForPooling", do)


def mode_fits(seen: CardContext) -> Ineligible | None:
    """The card can be served in the pool's mode as MIG mode is on it now, as far as the layout could be read."""
    if seen.pool is None or not seen.knows_layout:
        return None
    return check_mig_mode(seen.pool.spec.allocation.mode, seen.part, seen.device)


def node_has_room(seen: CardContext) -> Ineligible | None:
    """The pool may have another card of the node."""
    if seen.pool is None or has_room(seen.pool, seen.siblings):
        return None
    limit, node = seen.pool.spec.allocation.max_devices_per_node, seen.device.status.node_name
    found = f"GPUPool {seen.name} has as many cards of node {node} as its maxDevicesPerNode ({limit}) allows"
    return Ineligible(NODE_FULL, found, "Raise maxDevicesPerNode, name another pool", lasting=True)


def nobody_else_has_it(seen: CardContext) -> Ineligible | None:
    """No container has the card by a resource that is not the module's."""
    users = foreign_users(seen.device)
    return Ineligible(HELD_ELSEWHERE, users, "They have to end first") if users else None


def nobody_uses_it(seen: CardContext) -> Ineligible | None:
    """No pool offers the card any more, and no pod has it."""
    if not in_use(seen.device, held=seen.maybe_in_use):
        return None
    found = "the card still serves a pod, or is still offered"
    return Ineligible(STILL_IN_USE, found, "That has to end first")


def blocked(device: GPUDevice) -> Ineligible | None:
    """What of the card itself keeps it out of every pool, a person or a condition; None where nothing does.

    That it is declined comes first: nobody waits for such a card, whatever else may end. The mark and the condition
    Ignored say the same, so that nothing is told twice.
    """
    if is_declined(device):
        found = f"{names.LABEL_IGNORE}=true keeps the card out of every pool"
        return Ineligible(IGNORED, found, f"Remove {names.LABEL_IGNORE} ({unmarking(device)})")
    if (condition := blocked_by(device)) is None:
        return None
    kind, do = condition.type, f"kubectl describe gpudevice {device.name} says what to do"
    return Ineligible(cast("Reason", kind), f"the card's condition {kind} is True", do, cause=condition)


def unmarking(device: GPUDevice) -> str:
    """The commands that remove `ignore` from where it stands; as of a label where only its condition is left."""
    places = (("label", device.metadata.labels), ("annotate", device.metadata.annotations))
    verbs = [verb for verb, marks in places if marks.get(names.LABEL_IGNORE) == "true"] or ["label"]
    return "; ".join(f"kubectl {verb} gpudevice {device.name} {names.LABEL_IGNORE}-" for verb in verbs)


def has_room(pool: GPUPool, siblings: int) -> bool:
    """Whether the pool may have another card of a node of which it has so many."""
    limit = pool.spec.allocation.max_devices_per_node
    return limit is None or siblings < limit


def serves(pool: GPUPool) -> bool:
    """Whether the pool takes cards at all."""
    return pool.metadata.deletion_timestamp is None and pool.spec.allocation.mode in SERVED_MODES
