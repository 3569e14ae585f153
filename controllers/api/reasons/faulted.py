"""Reasons of a card's condition Faulted, which gpu-bootstrap-controller sets."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_BOOTSTRAP
ROWS: Final = (
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
        "put it back, or remove its assignment; a pool that takes cards by itself releases it after "
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
