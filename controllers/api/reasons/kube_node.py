"""Reasons of the module's conditions of a Node."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP, NODE_HANDED_OVER, NODE_READY
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_BOOTSTRAP
ROWS: Final = (
    Row(
        NODE_READY,
        "True",
        "Ready",
        "the node is prepared: its cards may be in pools",
        NOTHING,
    ),
    Row(
        NODE_READY,
        "False",
        "NotReady",
        "the node is being prepared, or has a problem: its cards are given to no pod",
        "condition `ReadyForPooling` of the node's GPUNodeInventory says why: `kubectl gpu explain node <node>`",
    ),
    Row(
        NODE_HANDED_OVER,
        "True",
        "HandedOver",
        "somebody has asked for the node by annotation `gpu.deckhouse.io/hand-over`, and has it: no pod and none of "
        "the module's programs uses its driver",
        "when the work there is done: `kubectl annotate node <node> gpu.deckhouse.io/hand-over-`",
    ),
)
