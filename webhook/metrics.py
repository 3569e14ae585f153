"""Metrics of the webhook; the runtime's stand beside them."""

from __future__ import annotations

import contextlib

from prometheus_client import Counter, Gauge, Histogram

REVIEWS = Counter("gpu_webhook_reviews_total", "Reviews answered, by verdict and reason.", ["verdict", "reason"])
VALIDATIONS = Counter(
    "gpu_webhook_validations_total",
    "Reviews of other objects than pods answered, by kind, verdict (allowed, warned, denied) and reason.",
    ["kind", "verdict", "reason"],
)
VALIDATION_SECONDS = Histogram(
    "gpu_webhook_validation_seconds",
    "Time to judge an object other than a pod, what is read from the API server included, in seconds, by kind.",
    ["kind"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 4),
)
DECISION_SECONDS = Histogram(
    "gpu_webhook_decision_seconds",
    "Time to read a review and decide, without waiting for the API server, in seconds.",
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
)
WRITE_SECONDS = Histogram(
    "gpu_webhook_write_seconds",
    "Time to write the reservations of one pod, in seconds.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4),
)
CONFLICTS = Counter("gpu_webhook_conflicts_total", "Writes of reservations that somebody else's write came before.")
RESERVATIONS = Counter("gpu_webhook_reservations_total", "Reservations written, by pool.", ["pool"])
TAKEN_BACK = Counter("gpu_webhook_reservations_taken_back_total", "Reservations taken back: not all could be made.")
LEFT_TO_QUEUE = Counter(
    "gpu_webhook_reservations_left_to_queue_total",
    "Pods that wait in queues since no reservation was written at once: InFlight, as many as"
    " admission.reservationsInFlight were being written; Slow, it took more than a quarter of a second and was taken"
    " back; Unwritten, others' writes came first, or the API server refused it.",
    ["why"],
)
for _why in ("InFlight", "Slow", "Unwritten"):
    LEFT_TO_QUEUE.labels(_why)  # a series that begins with its first event would hide it from a rate
ACCESS_REVIEWS = Counter(
    "gpu_webhook_access_reviews_total",
    "Times that RBAC's word on a pool was wanted, by result: hit (remembered), joined (being asked), miss (asked),"
    " failure.",
    ["result"],
)
ACCESS_REVIEW_SECONDS = Histogram(
    "gpu_webhook_access_review_seconds",
    "Time to ask the API server who may use a pool, in seconds.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
)
CONNECTIONS_ENDED = Counter(
    "gpu_webhook_connections_ended_total",
    "Connections ended by us, by why: handshake (none within 3 s, or a broken one), silent (a request that has"
    " begun and is not whole, or an answer that is not read, for 3 s), crowded (the longest so of too many that shake"
    " hands, ask nothing or are kept).",
    ["why"],
)
SETTING_OPEN = Gauge(
    "gpu_setting_open", "1 for each setting of the installation that, as it is, leaves something open.", ["setting"]
)
CERTIFICATE_EXPIRES = Gauge(
    "gpu_webhook_certificate_expires_timestamp_seconds", "When the serving certificate expires."
)


def forget(pool: str) -> None:
    """Drop the series of a pool that is gone, so that their number does not grow with every pool there ever was."""
    with contextlib.suppress(KeyError):
        RESERVATIONS.remove(pool)
