"""Reasons of a node's conditions that speak of a driver which a GPUDriver brings."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import Row

OWNER: Final = MANAGER_BOOTSTRAP
ROWS: Final = (
    Row(
        "ReadyForPooling",
        "False",
        "DriverWork",
        "the node's driver is changed, or somebody has asked for the node (`gpu.deckhouse.io/hand-over`): this was "
        "decided, so no fuse holds the node, and it counts in none",
        "nothing; `status.driverWork` of the node's GPUNodeInventory says how far it is and until when",
    ),
    Row(
        "DriverMissing",
        "Unknown",
        "DriverAwaited",
        "no driver is loaded yet, and a GPUDriver brings one",
        "nothing; `status.driverWork` of the node's GPUNodeInventory says how far it is",
    ),
    Row(
        "DriverMissing",
        "True",
        "DriverNotInstalled",
        "no driver is loaded, and the GPUDriver that is to bring one cannot",
        "do as the message says; `kubectl gpu driver` shows which nodes have the same trouble",
    ),
    Row(
        "InfraDegraded",
        "True",
        "DriverWorkOverdue",
        "`gpu-driver-controller` has not gone on with its work on the node's driver by the deadline that it set itself:"
        " the node is judged by its own checks",
        "see why it does not work: `kubectl -n d8-gpu-operator logs deployment/gpu-driver-controller`; whether it runs"
        " is setting `driver.enabled`",
    ),
)
