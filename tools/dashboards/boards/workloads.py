"""The dashboard of those who use pools. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools.dashboards.boards.queries import AS_LONG_AS, POOL_OF, RATE, RESOURCES, or_zero, rate
from tools.dashboards.panels import Row, dashboard, lines, stacked, stat, table, variable

if TYPE_CHECKING:
    from tools.dashboards.panels import Json

SHARED: Final = "Of a card that pods share the exporter tells the whole, under the name of one of them."


def workloads() -> Json:
    """Who uses the pools."""
    here = f'{{{RESOURCES}, namespace=~"$namespace"}}'
    limits = f"kube_pod_container_resource_limits{here}"
    # kube-state-metrics goes on telling the limits of pods that have ended, until they are deleted.
    asked = f'({limits} {AS_LONG_AS} (kube_pod_status_phase{{phase=~"Pending|Running"}} == 1))'
    chosen = f'{POOL_OF}{{pool=~"$pool"}})'
    pods = f"max by (namespace, pod) ({limits})"

    of_pods = '{pod!="", namespace=~"$namespace"}'
    utilisation = f"DCGM_FI_DEV_GPU_UTIL{of_pods}"

    def in_phase(phase: str) -> str:
        there = f'max by (namespace, pod) (kube_pod_status_phase{{phase="{phase}"}} == 1)'
        return or_zero(f"count({pods} * on (namespace, pod) {there})")

    now = (
        stat("Pods with cards", in_phase("Running")),
        stat("Pods that wait", in_phase("Pending"), about="Admitted, and not running yet."),
        stat("Slots asked for", f"sum({asked})"),
        stat("Namespaces", f"count(count by (namespace) ({asked}))"),
        stat(
            "Refused pods a minute",
            or_zero('sum(60 * rate(gpu_webhook_reviews_total{verdict="denied"}' + RATE + "))"),
        ),
        stat("Idle cards", or_zero(f"count({utilisation} == 0)"), about="Cards of pods on which no kernel runs now."),
    )
    use = (
        stacked("Slots by namespace", {"{{namespace}}": f"sum by (namespace) ({asked})"}, width=12),
        stacked("Slots by pool", {"{{pool}}": f"sum by (pool) ({asked} {chosen})"}, width=12),
        table("Pods", f"sum by (namespace, pod, node, pool) ({asked} {chosen})", width=24),
        lines(
            "GPU utilisation by namespace",
            {"{{namespace}}": f"avg by (namespace) ({utilisation})"},
            unit="percent",
            width=12,
            about=SHARED,
        ),
        lines(
            "GPU utilisation by pod",
            {"{{namespace}}/{{pod}}": f"avg by (namespace, pod) ({utilisation})"},
            unit="percent",
            width=12,
            about=SHARED,
        ),
        lines(
            "GPU memory in use by pod",
            {"{{namespace}}/{{pod}}": f"sum by (namespace, pod) (DCGM_FI_DEV_FB_USED{of_pods})"},
            unit="mbytes",
            width=12,
            about=SHARED,
        ),
        lines(
            "Activity by pod",
            {"{{namespace}}/{{pod}}": f"100 * avg by (namespace, pod) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{of_pods})"},
            unit="percent",
            width=12,
            about="Share of time in which the engine worked; of MIG instances too. Cards since Volta.",
        ),
    )
    answers = (
        lines(
            "Reviews by answer",
            {"{{verdict}} {{reason}}": rate("gpu_webhook_reviews_total", "verdict", "reason")},
            unit="reqps",
            width=12,
        ),
        lines(
            "Reservations by pool",
            {"{{pool}}": rate("gpu_webhook_reservations_total", "pool")},
            unit="reqps",
            width=12,
        ),
    )
    rows = (Row("Now", now), Row("Who uses what", use), Row("What the webhook answers", answers))
    choices = (
        variable("pool", "Pool", "label_values(gpupool_capacity_total, pool)"),
        variable(
            "namespace", "Namespace", f"label_values(kube_pod_container_resource_limits{{{RESOURCES}}}, namespace)"
        ),
    )
    return dashboard(
        "gpu-workloads", "GPU / Workloads", rows, *choices, about="Pods that have or want cards, by namespace and pool."
    )
