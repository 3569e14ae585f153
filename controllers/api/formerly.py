"""What versions of the module said in a condition's reason alone, and fields of the status say now. Pure.

Read where such a field is not filled yet: by the first plan after an upgrade, which fills it. The one place where a
condition's reason or message is read back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from controllers.api.components import COMPONENTS
from controllers.api.conditions import CONFIGURED, INVENTORY_INCOMPLETE, MAINTENANCE, MISCONFIGURED, find
from controllers.api.gpudevice import Fault
from controllers.api.gpunodeinventory import Kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDeviceStatus, Offer
    from controllers.api.gpunodeinventory import Stage
    from controllers.api.gpupool import GPUPoolStatus, PoolPhase
    from controllers.api.meta import Condition

_STAGES: Final[Mapping[str, Stage]] = {
    "Ready": "Ready",
    "ModuleDisabled": "NotWanted",
    "NotManaged": "NotWanted",
    "NoCards": "NotWanted",
    "NoServedCards": "NotWanted",
    "NodeNotReady": "Node",
    "NoReport": "Agent",
    "StaleReport": "Agent",
    "AgentNotReady": "Agent",
    "DriverNotFound": "Driver",
    "DriverTooOld": "Driver",
    "CudaTooOld": "Cuda",
    "ToolkitNotFound": "Toolkit",
    "HeartbeatAwaited": "Monitoring",
    "HeartbeatMissing": "Monitoring",
}
_KEPT: Final[Mapping[str, Kept]] = {word: word for word in get_args(Kept)}


def stage(pooling: Condition) -> tuple[Stage | None, str | None]:
    """`bootstrap.stage` and `bootstrap.component`, by ReadyForPooling; None where a validator's word stood there."""
    for component in COMPONENTS:
        if pooling.reason in (component.not_ready, component.overdue):
            return "Component", component.name
    return _STAGES.get(pooling.reason), None


def kept(pooling: Condition) -> Kept | None:
    """`bootstrap.kept`, by ReadyForPooling."""
    return _KEPT.get(pooling.reason)


_FAULTS: Final[Mapping[str, Fault]] = {"Lost": "CardLost", **{word: word for word in get_args(Fault)}}
_HELD: Final = "Held"
_HELD_BACK: Final = " Held back: "
"""What was added to the reason (status Unknown) and the message of a card that a fuse kept in service."""


def fault(faulted: Condition | None) -> tuple[Fault, str] | None:
    """`status.fault`, by Faulted, with its sentence; None where that tells of none."""
    if faulted is None or faulted.status == "False":
        return None
    word = faulted.reason.removesuffix(_HELD)
    if word not in _FAULTS or (faulted.status == "Unknown") != (word != faulted.reason):
        return None
    return _FAULTS[word], faulted.message.partition(_HELD_BACK)[0] if word != faulted.reason else faulted.message


def is_returned(faulted: Condition | None) -> bool:
    """Whether a person has returned the card, which was all that told of rows that were accepted, by Faulted."""
    return faulted is not None and (faulted.status, faulted.reason) == ("False", "ReturnedByHand")


def is_lost(conditions: Iterable[Condition]) -> bool:
    """Whether `status.lostSince` would be there, by InventoryIncomplete."""
    return any((c.type, c.status, c.reason) == (INVENTORY_INCOMPLETE, "True", "CardLost") for c in conditions)


_OFFERS: Final[Mapping[str, Offer]] = {
    "Published": "Offered",
    "Withdrawn": "Withdrawn",
    "AwaitingPlugin": "AwaitingPlugin",
    "AwaitingWithdrawal": "AwaitingWithdrawal",
    "AwaitingLayout": "AwaitingLayout",
    "LayoutDrifted": "Drifted",
    "PoolUnknown": "PoolUnknown",
}


def offer(status: GPUDeviceStatus) -> Offer | None:
    """`status.offer`, by Configured; None where that was not said."""
    configured = find(status.conditions, CONFIGURED)
    return _OFFERS.get(configured.reason, "KeptOut") if configured is not None else None


_PHASES: Final[Mapping[str, PoolPhase]] = {
    "ModuleDisabled": "Disabled",
    "LayoutFailed": "Halted",
    "Rebuilding": "Rebuilding",
    "Applying": "Applying",
}


def phase(status: GPUPoolStatus) -> PoolPhase | None:
    """`status.phase`, by Maintenance and Misconfigured; None where they were not said."""
    maintenance, misconfigured = find(status.conditions, MAINTENANCE), find(status.conditions, MISCONFIGURED)
    if maintenance is None:
        return None
    if maintenance.status == "True":
        return _PHASES.get(maintenance.reason, "Draining")
    return "NotServed" if misconfigured is not None and misconfigured.reason == "ModeNotServed" else "Serving"
