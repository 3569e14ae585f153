"""The dashboard of the module's own processes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.dashboards.boards.queries import OURS, RATE, or_zero, quantile, rate
from tools.dashboards.panels import Row, dashboard, lines, stat, table

if TYPE_CHECKING:
    from tools.dashboards.panels import Json


def control_plane() -> Json:
    """The module's own processes."""
    here = f'{{job=~"{OURS}"}}'
    days = "(min(gpu_webhook_certificate_expires_timestamp_seconds > 0) - time()) / 86400"
    alive = (
        table("Replicas", f"max by (job, pod, instance) (up{here})", said={"1": "up", "0": "down"}),
        table("Leaders", f"max by (job, lease, instance) (gpu_leader{here}) == 1", hide=("Value",)),
        table(
            "Open settings",
            "max by (setting) (gpu_setting_open)",
            hide=("Value",),
            about="Of the installation; docs/security.md tells what each leaves open.",
        ),
        stat("Certificate: days left", days),
        stat("Invalid settings", f"sum(max by (job) (gpu_settings_invalid{here}))", bad_above=1),
        stat("Held by fuses", or_zero("sum(max by (kind, group) (gpu_fuse_held))"), bad_above=1),
        stat("Events not sent", or_zero(f"sum(increase(gpu_events_dropped_total{here}{RATE}))"), bad_above=1),
        stat("Unreadable objects", or_zero(f"sum(max by (kind) (gpu_unreadable_objects{here}))"), bad_above=1),
        stat(
            "Failed scrapes",
            or_zero(f'sum(rate(gpu_scrapes_total{{result!="ok"}}{RATE}))'),
            unit="reqps",
            about="Of the exporters on the nodes.",
        ),
    )
    work = (
        lines(
            "Reconciliations",
            {"{{controller}} {{result}}": rate("gpu_reconciles_total", "controller", "result")},
            unit="ops",
        ),
        lines(
            "Reconciliation, 99th percentile",
            {"{{controller}}": quantile(0.99, "gpu_reconcile_seconds", "controller")},
            unit="s",
        ),
        lines("Keys that wait", {"{{controller}}": "sum by (controller) (gpu_queue_depth)"}),
        lines(
            "Writes",
            {"{{kind}} {{verb}}": rate("gpu_writes_total", "kind", "verb")},
            unit="ops",
            about="None while nothing changes.",
        ),
        lines(
            "Requests to the API server",
            {"{{job}} {{code}}": rate("gpu_client_requests_total", "job", "code", chosen=here)},
            unit="reqps",
        ),
        lines(
            "Watches that ended",
            {"{{kind}} {{reason}}": or_zero(rate("gpu_watch_ends_total", "kind", "reason"))},
            unit="ops",
        ),
    )
    webhook = (
        lines("Reviews", {"{{verdict}}": rate("gpu_webhook_reviews_total", "verdict")}, unit="reqps"),
        lines(
            "Decision",
            {f"{share:.0%}": quantile(share, "gpu_webhook_decision_seconds") for share in (0.5, 0.99)},
            unit="s",
            about="Without waiting for the API server.",
        ),
        lines(
            "Writing reservations",
            {f"{share:.0%}": quantile(share, "gpu_webhook_write_seconds") for share in (0.5, 0.99)},
            unit="s",
        ),
        lines("Conflicts", {"conflicts": f"sum(rate(gpu_webhook_conflicts_total{RATE}))"}, unit="ops"),
        lines(
            "Objects judged",
            {"{{kind}} {{verdict}}": rate("gpu_webhook_validations_total", "kind", "verdict")},
            unit="reqps",
        ),
        lines("RBAC asked", {"{{result}}": rate("gpu_webhook_access_reviews_total", "result")}, unit="reqps"),
    )
    cost = (
        lines(
            "CPU", {"{{job}} {{instance}}": f"rate(process_cpu_seconds_total{here}{RATE})"}, unit="none", about="Cores."
        ),
        lines("Memory", {"{{job}} {{instance}}": f"process_resident_memory_bytes{here}"}, unit="bytes"),
        lines(
            "Longest stall of the event loop", {"{{job}} {{instance}}": f"gpu_event_loop_stall_seconds{here}"}, unit="s"
        ),
        lines("Cached objects", {"{{job}} {{kind}}": f"max by (job, kind) (gpu_cached_objects{here})"}, width=12),
        lines("Scrapes of exporters", {"{{result}}": rate("gpu_scrapes_total", "result")}, unit="reqps", width=12),
    )
    rows = (Row("Alive", alive), Row("Work", work), Row("Admission webhook", webhook), Row("What it costs", cost))
    return dashboard("gpu-control-plane", "GPU / Control plane", rows, about="The module's four processes.")
