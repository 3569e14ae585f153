"""Whether a node is as well with its new driver as it was with the former one. Pure.

The module's own conditions and reports are the source, and no monitoring system: what was so before the driver was
changed (`DriverWork.baseline`) does not speak against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.conditions import READY_FOR_POOLING, find
from controllers.api.driver_work import CARDS_MAX, Baseline
from controllers.api.gpudevice import MIG_WORK
from controllers.domain.clock import begun
from controllers.domain.driver.choice import is_wanted
from controllers.domain.driver.states import BACK
from controllers.domain.wording import listed
from controllers.driver.node.draft import in_service
from controllers.driver.node.pod import Outcome, outcome
from controllers.driver.node.validators import found_on_card, found_on_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controllers.api.driver_work import DriverWork, Phase
    from controllers.api.gpudevice import Fault, GPUDevice, Offer
    from controllers.api.gpunodeinventory import Stage
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
SILENT: Final[dict[Stage, Reason]] = {
    "Driver": "ValidationTimeout",
    "Cuda": "ValidationTimeout",
    "DriverCheck": "ValidationTimeout",
    "ContainerCheck": "ValidationTimeout",
    "Component": "ValidationTimeout",
    "Monitoring": "MonitoringSilent",
}
"""By what keeps a node out of service that had come back into it; that its kubelet or its agent is away is not the
driver's doing."""
NODES_OWN: Final[frozenset[Stage]] = frozenset(("Node", "Agent", "Toolkit", "Component"))
"""Stages that say nothing of the driver: a kubelet, an agent, a toolkit or a pod of the module may be away, or not come
up, for reasons of its own."""
SILENT_MAX: Final = 300.0
"""Seconds for which a node may be out of service so."""
VERSION_KNOWN: Final = 120.0
"""Seconds after the driver's pod is ready in which the agent has asked the driver anew: it does so each minute."""
DIVIDED_ANEW: Final[frozenset[Offer]] = frozenset(("AwaitingLayout", "Drifted"))
"""Words of gpupool for a card that is not partitioned as its pool asks."""
JUDGED: Final[tuple[Phase, ...]] = ("Validating", *BACK)
"""Phases in which the new driver's pod is, or has been, ready."""


def baseline(devices: Iterable[GPUDevice]) -> Baseline:
    """What a node's cards are like before its driver is changed."""
    known = [(one.status.hardware.uuid, one) for one in devices if one.status.hardware and one.status.hardware.uuid]
    cards = sorted(uuid for uuid, one in known if not _is_gone(one))
    faulted = sorted(uuid for uuid, one in known if one.status.fault is not None)
    return Baseline(cards=tuple(cards[:CARDS_MAX]), faulted=tuple(faulted[:CARDS_MAX]))


def verdict(seen: ObservedNode, now: float) -> Outcome | None:
    """Why the node fails with its new driver; None while nothing speaks against it."""
    return next((found for found, left in _findings(seen, now) if left <= 0), None)


def verdict_in(seen: ObservedNode, now: float) -> float | None:
    """Seconds until something counts that speaks against the driver and may yet pass; None where nothing does."""
    return min((left for _, left in _findings(seen, now) if left > 0), default=None)


def is_as_asked(devices: Iterable[GPUDevice]) -> bool:
    """Whether no card of the node is to be partitioned anew, as far as its pool and its MIG manager tell."""
    return not any(_is_divided_anew(one) for one in devices if one.status.pool_ref is not None)


def _is_divided_anew(device: GPUDevice) -> bool:
    """Whether the card has yet to get its instances.

    The MIG manager is the first to see that they are lost; what its pool says of the card follows once the node serves.
    """
    reply, hardware = device.status.mig_apply, device.status.hardware
    if device.status.offer in DIVIDED_ANEW or (reply is not None and reply.phase in (*MIG_WORK, "Lost")):
        return True
    mig = hardware.mig if hardware is not None else None
    if reply is None or mig is None or not mig.enabled or reply.phase != "Done":
        return False
    # Of another loading of the driver, the one says nothing of the other; the older of the two comes anew.
    return bool(reply.driver_load and mig.driver_load) and reply.driver_load != mig.driver_load


def _findings(seen: ObservedNode, now: float) -> Iterator[tuple[Outcome, float]]:
    """What speaks against the driver, the weightiest first, each with the seconds until it counts."""
    work = seen.work
    if work is None or work.phase not in JUDGED or (work.undoes is not None and in_service(seen)):
        return  # a node that serves with its former driver again is better off so than broken
    found = (_cards_gone(seen, work), found_on_node(seen), _card_faulty(seen, work))
    yield from ((one, 0.0) for one in found if one is not None)
    if (other := other_version(seen)) is not None:
        yield other, begun(work.since, now) + VERSION_KNOWN - now if work.phase == "Validating" else 0.0
    if work.phase in BACK and (silent := _silent(seen, now)) is not None:
        yield silent


def _cards_gone(seen: ObservedNode, work: DriverWork) -> Outcome | None:
    """Cards that the node had before."""
    before, there = work.baseline, _there(seen)
    gone = [uuid for uuid in before.cards if uuid not in there] if before is not None else []
    if before is None or not gone:
        return None
    message = f"{len(gone)} of {len(before.cards)} cards have been gone since the driver was changed: {listed(gone)}"
    return Outcome(reason="CardsLost", message=message, fault="revision")


def _card_faulty(seen: ObservedNode, work: DriverWork) -> Outcome | None:
    """A card that was well before."""
    before, there = work.baseline, _there(seen)
    for uuid in before.cards if before is not None else ():
        one = there.get(uuid)
        if one is None or before is None or uuid in before.faulted or (fault := one.status.fault) is None:
            continue
        address = one.status.hardware.pci.address if one.status.hardware is not None else ""
        if fault == "ValidationFailed" and (found := found_on_card(seen, address)) is not None:
            return found
        message = f"card {one.name} ({uuid}) has been faulty since the driver was changed: {fault}"
        return Outcome(reason=REASONS[fault], message=message, fault="revision")
    return None


def _there(seen: ObservedNode) -> dict[str | None, GPUDevice]:
    """The cards that the node has, by UUID."""
    return {one.status.hardware.uuid: one for one in seen.devices if one.status.hardware and not _is_gone(one)}


def _is_gone(device: GPUDevice) -> bool:
    return device.status.lost_since is not None or device.is_remembered


def other_version(seen: ObservedNode) -> Outcome | None:
    """A driver that is not the one that was asked for."""
    reported, wanted = seen.report.driver_version if seen.report is not None else "", seen.wanted_version
    if not reported or wanted is None or is_wanted(wanted, reported):
        return None
    message = f"the driver says that it is {reported}, and {wanted} is wanted"
    return Outcome(reason="OtherVersion", message=message, fault="revision")


def _silent(seen: ObservedNode, now: float) -> tuple[Outcome, float] | None:
    """A node that left service again by itself although its driver's pod is ready."""
    status = seen.inventory.status if seen.inventory is not None else None
    recorded = status.bootstrap if status is not None else None
    said = find(status.conditions, READY_FOR_POOLING) if status is not None else None
    if recorded is None or recorded.stage is None or said is None or said.status == "True":
        return None
    reason = SILENT.get(recorded.stage)
    if reason is None or recorded.last_run is None or not outcome(seen.pod).serves:
        return None
    message = f"the node left service with the new driver: ReadyForPooling says {said.reason}: {said.message}"
    found = Outcome(reason=reason, message=message, fault="node" if recorded.stage in NODES_OWN else "revision")
    return found, begun(recorded.last_run, now) + SILENT_MAX - now
