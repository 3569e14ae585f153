"""The dashboard of one pool, or some. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.dashboards.boards.queries import POOL_OF, RATE, STATUS, WORDS, or_none, quantile, rate
from tools.dashboards.panels import Row, dashboard, lines, stacked, stat, table, variable

if TYPE_CHECKING:
    from tools.dashboards.panels import Json, Panel


def _queue(here: str) -> tuple[Panel, ...]:
    """Pods that wait for cards, and how fast they get some. `here` chooses the pools."""
    released = "gpupool_queue_release_seconds"
    return (
        stacked(
            "Pods that wait",
            {"{{pool}} {{reason}}": or_none(f"max by (pool, reason) (gpupool_queue_pods{here})", here)},
            about="By why they wait; docs/conditions.md has the reasons.",
        ),
        lines(
            "Age of the one that has waited longest",
            {"{{pool}}": or_none(f"max by (pool) (gpupool_queue_oldest_seconds{here})", here)},
            unit="s",
        ),
        lines(
            "Slots waited for, and slots available",
            {
                "{{pool}} waited for": f"max by (pool) (gpupool_queue_slots{here})",
                "{{pool}} available": f"max by (pool) (gpupool_capacity_available{here})",
            },
            about="Both at once: of those that wait none fits what is free, or it is kept for the first of them.",
        ),
        lines(
            "From room for a pod to its release",
            {f"{share:.0%}": quantile(share, released, chosen=here) for share in (0.5, 0.99)},
            unit="s",
            about="Of pods that have got their cards out of the queue.",
        ),
        lines(
            "Pods that are not let go on",
            {"{{pool}}": f"max by (pool) (gpupool_queue_stalled_seconds{here})"},
            unit="s",
            about="For how long there has been room for such a pod: alert GPUQueueStalled.",
        ),
        lines(
            "Pods by what the webhook said",
            {"{{verdict}}": rate("gpu_webhook_reviews_total", "verdict", chosen='{verdict=~"granted|queued|denied"}')},
            unit="reqps",
            about="Of all pools.",
        ),
    )


def pool() -> Json:
    """One pool, or some."""
    here = '{pool=~"$pool"}'
    numbers = (
        stat("Cards", f"sum(max by (pool) (gpupool_assignments{here}))"),
        stat("Slots", f"sum(max by (pool) (gpupool_capacity_total{here}))"),
        *(stat(f"Slots {word}", f"sum(max by (pool) (gpupool_capacity_{word}{here}))") for word in WORDS),
    )
    slots = (
        stacked("Slots", {word: f"sum(max by (pool) (gpupool_capacity_{word}{here}))" for word in WORDS}, width=12),
        lines("Slots by node", {"{{pool}} {{node}}": f"max by (pool, node) (gpupool_node_slots{here})"}, width=12),
        lines(
            "Slots that kubelets offer, and slots of the pool",
            {
                "{{pool}} offered": f"sum by (pool) (kube_node_status_allocatable {POOL_OF}{here}))",
                "{{pool}} total": f"max by (pool) (gpupool_capacity_total{here})",
            },
            width=12,
            about="The lines part where cards are withdrawn, or a plugin is away.",
        ),
        lines("Cards by state", {"{{pool}} {{state}}": f"max by (pool, state) (gpupool_devices{here})"}, width=12),
    )
    promises = (
        lines("Cards with reservations", {"{{pool}}": f"max by (pool) (gpu_device_reserved_total{here})"}),
        lines(
            "Age of the oldest reservation",
            {"{{pool}}": or_none(f"max by (pool) (gpu_device_reservation_age_seconds{here})", here)},
            unit="s",
        ),
        lines(
            "Reservations that ran out",
            {"{{pool}}": f"sum by (pool) (increase(gpupool_reservations_expired_total{here}{RATE}))"},
        ),
        lines(
            "Promises by what the pod got",
            {"{{pool}} {{got}}": f"sum by (pool, got) (increase(gpupool_promises_total{here}{RATE}))"},
            about="The promised card, another one of the promised node, or one elsewhere; counted when kubelet tells.",
        ),
        lines(
            "Reservations written",
            {"{{pool}}": rate("gpu_webhook_reservations_total", "pool", chosen=here)},
            unit="reqps",
        ),
        table("Conditions", f"max by (pool, condition) (gpupool_condition{here})", said=STATUS),
        lines(
            "Faulted cards",
            {"{{pool}}": or_none(f"count by (pool) (max by (pool, device) (gpu_device_faulted{here}))", here)},
        ),
    )
    rows = (
        Row("Now", numbers),
        Row("Slots", slots),
        Row("Queue", _queue(here)),
        Row("Reservations and conditions", promises),
    )
    choice = variable("pool", "Pool", "label_values(gpupool_capacity_total, pool)")
    return dashboard(
        "gpu-pool", "GPU / Pool", rows, choice, about="A pool's slots, its cards, its queue and its reservations."
    )
