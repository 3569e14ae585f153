"""Reasons of a node's condition that the pools set."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_POOL
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_POOL
ROWS: Final = (
    Row(
        "UnassignedDevice",
        "False",
        "AllDecided",
        "every card that can be pooled is in a pool or declined",
        NOTHING,
    ),
    Row(
        "UnassignedDevice",
        "True",
        "AwaitingApproval",
        "a pool would take cards that nobody has confirmed",
        "`kubectl gpu assign <card> <pool>`, for all of the node `kubectl gpu assign --node <node> <pool>`; or "
        "`kubectl annotate gpudevice <card> gpu.deckhouse.io/assignment=<pool>`",
    ),
    Row(
        "UnassignedDevice",
        "True",
        "NoPoolMatched",
        "no pool matches these cards, or the named one does not exist",
        "create a pool, or widen a selector; or `kubectl label gpudevice <card> gpu.deckhouse.io/ignore=true`",
    ),
    Row(
        "UnassignedDevice",
        "True",
        "OutOfSelector",
        "the named pool does not take the card (selector, mode, `maxDevicesPerNode`, or the card is divided: "
        "`MIGEnabled`, `MIGStateUnknown` in its `Configured`), or each pool that matches it has its "
        "`maxDevicesPerNode` of the node or cannot serve it so",
        "name another pool, or change that one; or `kubectl label gpudevice <card> gpu.deckhouse.io/ignore=true`",
    ),
)
