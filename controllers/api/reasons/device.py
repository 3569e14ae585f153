"""Reasons of the card's conditions that gpu-inventory-controller sets: management, completeness, `ignore`."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_INVENTORY
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_INVENTORY
ROWS: Final = (
    Row(
        "ManagedDisabled",
        "True False",
        "NodeLabel ManagedByDefault NotManaged",
        "as on its node: the node's label, or without one the settings, decide",
        "`kubectl label node <node> gpu.deckhouse.io/enabled=true --overwrite`, or `=false`",
    ),
    Row(
        "InventoryIncomplete",
        "False",
        "Complete",
        "everything that identifies the card is known",
        NOTHING,
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "AttributesMissing",
        "the message names what nobody could tell; the card is not pooled",
        "a driver on the host; the agent's log",
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "VendorNotServed",
        "the card is not NVIDIA's: it goes into no pool, and its node is neither prepared for it nor incomplete by it",
        "nothing; another vendor's device plugin may serve it",
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "CardLost",
        "a card in a pool or in use is gone from its node",
        "put it back, or `kubectl annotate gpudevice <card> gpu.deckhouse.io/assignment-`",
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "AwaitingReport",
        "the report does not name it, and is not fresh enough to say that it is gone",
        "wait for the agent",
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "NodeGone",
        "its Node is deleted; what a person said of the card is kept for the Node's return until the time in the "
        "message, and pools go without it",
        "nothing; where the machine is gone for good, or is not trusted any more, `kubectl delete gpudevice <card>`",
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "NotRecognised",
        "its Node was deleted and is back, and no report has named the card's uuid in its place since",
        "a driver on the host; where it is another card, nothing: it replaces this one when its uuid is told",
    ),
    Row(
        "InventoryIncomplete",
        "Unknown",
        "NoReport",
        "the agent's report says nothing of cards",
        "condition `InventoryIncomplete` of the node says what is missing",
    ),
    Row(
        "Ignored",
        "False",
        "NotIgnored",
        "nobody keeps the card out",
        NOTHING,
    ),
    Row(
        "Ignored",
        "True",
        "IgnoreRequested",
        "`gpu.deckhouse.io/ignore=true`, as label or annotation",
        "`kubectl label gpudevice <card> gpu.deckhouse.io/ignore-`",
    ),
)
