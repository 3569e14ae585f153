"""Who owns which field and which condition of a status (docs/dev/design.md, Owners of status fields).

The one list of it: `python -m tools.docs` writes it into templates/policies/_owners.tpl, where the API server's
policies read it. What is not here may be written by nobody; a test compares it with the models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names, reasons
from controllers.api.resources import GPUDEVICE, GPUDRIVER, GPUNODEINVENTORY, GPUPOOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.resources import Resource

PROCESSES: Final = {
    names.MANAGER_INVENTORY: names.INVENTORY,
    names.MANAGER_BOOTSTRAP: names.BOOTSTRAP,
    names.MANAGER_POOL: names.POOL_CONTROLLER,
    names.MANAGER_ADMISSION: names.WEBHOOK,
    names.MANAGER_PLUGIN: names.MANAGER_PLUGIN,
    names.MANAGER_MIG: names.MANAGER_MIG,
    names.MANAGER_DRIVER: names.DRIVER_CONTROLLER,
}
"""A process's ServiceAccount by its field manager."""


@dataclass(frozen=True, slots=True)
class Status:
    """Of one kind, by field manager: the fields of the status, and who owns each condition."""

    resource: Resource
    fields: Mapping[str, tuple[str, ...]]
    conditions: Mapping[str, str]


OWNED: Final = (
    Status(
        GPUDEVICE,
        {
            names.MANAGER_INVENTORY: ("nodeName", "inventoryID", "managed", "lostSince", "nodeGoneSince", "hardware"),
            names.MANAGER_BOOTSTRAP: ("health", "fault", "faultEnd"),
            names.MANAGER_POOL: ("poolRef", "autoAttach", "offer", "missingPool", "state", "reservations", "history"),
            names.MANAGER_ADMISSION: ("state", "reservations"),
            names.MANAGER_PLUGIN: ("published", "allocations", "foreignAllocations", "mps"),
            names.MANAGER_MIG: ("migApply",),
        },
        reasons.DEVICE_OWNERS,
    ),
    Status(
        GPUNODEINVENTORY,
        {
            names.MANAGER_INVENTORY: ("hw",),
            names.MANAGER_BOOTSTRAP: ("driver", "runtime", "monitoring", "bootstrap", "software", "managedElsewhere"),
            names.MANAGER_POOL: ("pools",),
            names.MANAGER_DRIVER: ("driverWork", "lastDriverWork"),
        },
        reasons.NODE_OWNERS,
    ),
    Status(
        GPUPOOL,
        {
            names.MANAGER_POOL: (
                "capacity",
                "appliedAllocation",
                "nodes",
                "devices",
                "candidates",
                "truncated",
                "passedOver",
                "queue",
                "phase",
                "lastReconfigured",
            ),
        },
        reasons.POOL_OWNERS,
    ),
    Status(
        GPUDRIVER,
        {
            names.MANAGER_DRIVER: (
                "observedGeneration",
                "target",
                "current",
                "revisions",
                "counts",
                "state",
                "strata",
                "spent",
                "eta",
                "versions",
                "nodes",
                "truncated",
            ),
        },
        reasons.DRIVER_OWNERS,
    ),
)


def table() -> str:
    """The table as YAML: resource, process, its fields and conditions."""
    lines = []
    for status in OWNED:
        lines.append(f"{status.resource.plural}:")
        for manager, fields in status.fields.items():
            lines += [f"  {PROCESSES[manager]}:", f"    fields: [{', '.join(fields)}]"]
            if kinds := [kind for kind, owner in status.conditions.items() if owner == manager]:
                lines.append(f"    conditions: [{', '.join(kinds)}]")
    return "\n".join(lines)
