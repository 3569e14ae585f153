"""Reasons of the module's condition of a Node."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP, NODE_READY
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
        "the node is being prepared, or something is the matter with it: its cards are given to nobody",
        "condition `ReadyForPooling` of the node's GPUNodeInventory says why: `kubectl gpu explain node <node>`",
    ),
)
