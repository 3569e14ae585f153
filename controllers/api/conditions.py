"""Types of conditions that several modules name, and how a condition changes. Owners: controllers/api/reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from controllers.api.meta import Condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.reasons.typed import Reason

MANAGED_DISABLED: Final = "ManagedDisabled"
INVENTORY_INCOMPLETE: Final = "InventoryIncomplete"
IGNORED: Final = "Ignored"
FAULTED: Final = "Faulted"
CONFIGURED: Final = "Configured"
PREREQUISITE_NOT_MET: Final = "PrerequisiteNotMet"
DRIVER_MISSING: Final = "DriverMissing"
DRIVER_OUTDATED: Final = "DriverOutdated"
CUDA_OUTDATED: Final = "CudaOutdated"
TOOLKIT_MISSING: Final = "ToolkitMissing"
MONITORING_MISSING: Final = "MonitoringMissing"
READY_FOR_POOLING: Final = "ReadyForPooling"
INFRA_DEGRADED: Final = "InfraDegraded"
DEGRADED_WORKLOADS: Final = "DegradedWorkloads"
MANAGED_ELSEWHERE: Final = "ManagedElsewhere"
UNASSIGNED_DEVICE: Final = "UnassignedDevice"
AVAILABLE: Final = "Available"
MAINTENANCE: Final = "Maintenance"
MISCONFIGURED: Final = "Misconfigured"
CAPACITY_LOW: Final = "CapacityLow"

MESSAGE_MAX: Final = 1024
NUMBERS: Final = {"True": 1, "False": 0, "Unknown": -1}
"""A condition's status as the metrics tell it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One condition without its type and time."""

    status: bool | None
    reason: Reason
    message: str


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of that type."""
    return next((c for c in conditions if c.type == kind), None)


def carried(found: Condition) -> Finding:
    """What a condition of ours says, to be said again."""
    status = {"True": True, "False": False}.get(found.status)
    return Finding(status, cast("Reason", found.reason), found.message)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether the condition is there and True."""
    found = find(conditions, kind)
    return found is not None and found.status == "True"


def condition(
    existing: Iterable[Condition],
    kind: str,
    *,
    status: bool | None,
    reason: Reason,
    message: str,
    now: str,
    generation: int | None = None,
) -> Condition:
    """The condition as it should be: its time changes only with its status.

    `status` None means Unknown. The message is cut at 1,024 characters.
    """
    word = {True: "True", False: "False", None: "Unknown"}[status]
    old = find(existing, kind)
    since = old.last_transition_time if old is not None and old.status == word else now
    return Condition(
        type=kind,
        status=word,  # type: ignore[arg-type]
        reason=reason,
        message=message[:MESSAGE_MAX],
        last_transition_time=since,
        observed_generation=generation,
    )


def condition_for(
    existing: Iterable[Condition], kind: str, found: Finding, *, now: str, generation: int | None = None
) -> Condition:
    """The condition that says what was found."""
    return condition(
        existing, kind, status=found.status, reason=found.reason, message=found.message, now=now, generation=generation
    )
