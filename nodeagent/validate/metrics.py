"""Metrics of validation, beside those of the runtime."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

LOOKS = Counter("gpu_validate_looks_total", "Looks at the node by their verdict (ok, failed, unknown).", ["result"])
LAST_LOOK = Gauge("gpu_validate_last_look_timestamp_seconds", "When the node was last looked at, Unix time.")
CHECK = Gauge("gpu_validate_check", "Checks by name: 1 ok, 0 failed, -1 could not be made.", ["check"])
CARDS = Gauge("gpu_validate_cards", "Cards that passed.")
CUDA_TRIES = Counter(
    "gpu_validate_cuda_tries_total", "Tries of CUDA on a card: ok, in_use, failed, silent.", ["result"]
)
