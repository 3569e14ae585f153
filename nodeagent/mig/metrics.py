"""Metrics of the MIG manager, beside those of the runtime and of asking the driver."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

CARDS = Counter("gpu_mig_manager_cards_total", "Cards whose part of the layout came to an end, by result.", ["result"])
WAITING = Gauge("gpu_mig_manager_waiting_cards", "Cards that wait to be divided, by what they wait for.", ["why"])
RUNS = Counter("gpu_mig_manager_runs_total", "Runs of programs that change or check cards.", ["program", "result"])
WORK_SECONDS = Histogram(
    "gpu_mig_manager_work_seconds",
    "Duration of one work on the node's cards in seconds, its checks and what was put back included.",
    buckets=(1, 5, 15, 30, 60, 120, 300, 600),
)
