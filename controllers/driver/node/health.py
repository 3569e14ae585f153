"""Whether a node is as well with its new driver as it was with the former one, by what is known of its cards. Pure.

The module's own conditions and reports are the source, and no monitoring system: what was so before the driver was
changed (`DriverWork.baseline`) does not speak against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.driver_work import CARDS_MAX, Baseline
from controllers.domain.wording import listed
from controllers.driver.node.pod import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import Fault, GPUDevice, Offer
    from controllers.api.reasons.typed import Reason
    from controllers.driver.views import ObservedNode

REASONS: Final[dict[Fault, Reason]] = {
    "CardLost": "CardsLost",
    "ValidationFailed": "CardFaulted",
    "CriticalXid": "Xid",
    "DoubleBitEcc": "CardFaulted",
    "RowRemapFailure": "CardFaulted",
    "Overheated": "CardFaulted",
}
"""By what has befallen a card since its driver was changed."""
DIVIDED_ANEW: Final[frozenset[Offer]] = frozenset(("AwaitingLayout", "Drifted"))
"""Words of gpupool for a card that is not partitioned as its pool asks."""


def baseline(devices: Iterable[GPUDevice]) -> Baseline:
    """What a node's cards are like before its driver is changed."""
    known = [(one.status.hardware.uuid, one) for one in devices if one.status.hardware and one.status.hardware.uuid]
    cards = sorted(uuid for uuid, one in known if not _is_gone(one))
    faulted = sorted(uuid for uuid, one in known if one.status.fault is not None)
    return Baseline(cards=tuple(cards[:CARDS_MAX]), faulted=tuple(faulted[:CARDS_MAX]))


def verdict(seen: ObservedNode) -> Outcome | None:
    """Why the node fails with its new driver; None while nothing speaks against it."""
    before = seen.work.baseline if seen.work is not None else None
    if before is None:
        return None
    there = {one.status.hardware.uuid: one for one in seen.devices if one.status.hardware and not _is_gone(one)}
    if gone := [uuid for uuid in before.cards if uuid not in there]:
        message = (
            f"{len(gone)} of {len(before.cards)} cards have been gone since the driver was changed: {listed(gone)}"
        )
        return Outcome(reason="CardsLost", message=message, fault="revision")
    for uuid in before.cards:
        fault = there[uuid].status.fault
        if fault is not None and uuid not in before.faulted:
            message = f"card {there[uuid].name} ({uuid}) has been faulty since the driver was changed: {fault}"
            return Outcome(reason=REASONS[fault], message=message, fault="revision")
    return None


def is_as_asked(devices: Iterable[GPUDevice]) -> bool:
    """Whether no card of the node is to be partitioned anew, as far as its pool tells."""
    return all(one.status.offer not in DIVIDED_ANEW for one in devices if one.status.pool_ref is not None)


def _is_gone(device: GPUDevice) -> bool:
    return device.status.lost_since is not None or device.is_remembered
