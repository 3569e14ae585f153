"""Reasons of a card's conditions but for Configured."""

from __future__ import annotations

from typing import Final

from controllers.api.reasons.row import NOTHING, Row

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
    Row(
        "Faulted",
        "False",
        "Healthy",
        "telemetry shows no fault",
        NOTHING,
    ),
    Row(
        "Faulted",
        "True",
        "CardLost",
        "the card is gone while it is in a pool",
        "put it back, or remove its assignment; a pool that takes cards by itself lets go of it after "
        "`pools.danglingAfter`",
    ),
    Row(
        "Faulted",
        "False",
        "CardBack",
        "a card that was gone is back",
        NOTHING,
    ),
    Row(
        "Faulted",
        "True",
        "CriticalXid",
        "the driver told of an error after which the card cannot be trusted",
        "the message says what to do for that number; it returns by itself after clean scrapes, or `kubectl "
        "annotate gpudevice <card> gpu.deckhouse.io/return=true`",
    ),
    Row(
        "Faulted",
        "True",
        "DoubleBitEcc",
        "the count of uncorrected memory errors rose",
        "reset the card; replace it when it comes again",
    ),
    Row(
        "Faulted",
        "True",
        "RowRemapFailure",
        "memory rows can no longer be remapped",
        "replace the card; `kubectl annotate gpudevice <card> gpu.deckhouse.io/return=true` accepts it as it is",
    ),
    Row(
        "Faulted",
        "True",
        "Overheated",
        "three scrapes in a row at or over `health.temperatureFaultC`",
        "fans, airflow, load; it counts as clean below `health.temperatureClearC`",
    ),
    Row(
        "Faulted",
        "True",
        "ValidationFailed",
        "a validator finds fault with this card alone",
        "do as the message says ([words of the "
        "validators](conditions.md#gpunodeinventory-words-of-the-validators)); it ends with the check",
    ),
    Row(
        "Faulted",
        "False",
        "Recovered",
        "clean scrapes and a passed validation after a fault",
        NOTHING,
    ),
    Row(
        "Faulted",
        "False",
        "ReturnedByHand",
        "somebody annotated `gpu.deckhouse.io/return=true`",
        NOTHING,
    ),
    Row(
        "Faulted",
        "False",
        "Validated",
        "no validator finds fault with it any more",
        NOTHING,
    ),
    Row(
        "Faulted",
        "Unknown",
        "NoTelemetry",
        "the exporter answers and does not name the card, or does not answer",
        "`nvidia-smi` on the node: does the driver still see it? the exporter's pod",
    ),
)
