"""The dashboard of the whole cluster. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from tools.dashboards.boards.queries import STATUS, WORDS, or_zero
from tools.dashboards.panels import Row, dashboard, lines, stacked, stat, table

if TYPE_CHECKING:
    from tools.dashboards.panels import Json


def overview() -> Json:
    """Everything at a glance."""
    numbers = (
        stat("GPU nodes", "count(max by (node) (gpu_bootstrap_ready))"),
        stat("Ready for pooling", "sum(max by (node) (gpu_bootstrap_ready))"),
        stat("Cards", "sum(max by (pool, state) (gpupool_devices))"),
        stat("Cards in no pool", "sum(max by (node) (gpu_device_unassigned_total))"),
        stat("Faulted cards", or_zero("count(max by (device) (gpu_device_faulted))"), bad_above=1),
        stat("Alerts", or_zero(f'count(ALERTS{{d8_module="{names.MODULE}", alertstate="firing"}})'), bad_above=1),
        stat("Slots", "sum(max by (pool) (gpupool_capacity_total))"),
        *(stat(f"Slots {word}", f"sum(max by (pool) (gpupool_capacity_{word}))") for word in WORDS),
        stat(
            "Slots used",
            "sum(max by (pool) (gpupool_capacity_used)) / sum(max by (pool) (gpupool_capacity_total))",
            unit="percentunit",
        ),
    )
    pools = (
        stacked("Slots", {word: f"sum(max by (pool) (gpupool_capacity_{word}))" for word in WORDS}),
        lines("Slots available by pool", {"{{pool}}": "max by (pool) (gpupool_capacity_available)"}),
        stacked("Cards by state", {"{{state}}": "sum by (state) (max by (pool, state) (gpupool_devices))"}),
        table("Pools", "max by (pool, mode, unit) (gpupool_info)", hide=("Value",)),
        table("Conditions of pools", "max by (pool, condition) (gpupool_condition)", said=STATUS),
    )
    nodes = (
        table(
            "Conditions of nodes that are True",
            "max by (node, condition) (gpu_node_inventory_condition) == 1",
            hide=("Value",),
        ),
        table("Drivers", "max by (node, version, cuda_version) (gpu_driver_version_info)", hide=("Value",)),
        lines("GPU utilisation by node", {"{{node}}": "avg by (node) (DCGM_FI_DEV_GPU_UTIL)"}, unit="percent"),
        lines("Hottest card by node", {"{{node}}": "max by (node) (DCGM_FI_DEV_GPU_TEMP)"}, unit="celsius"),
        stacked("Power by node", {"{{node}}": "sum by (node) (DCGM_FI_DEV_POWER_USAGE)"}, unit="watt"),
    )
    rows = (Row("Now", numbers), Row("Pools", pools), Row("Nodes", nodes))
    return dashboard("gpu-overview", "GPU / Overview", rows, about="Cards, pools and nodes of the whole cluster.")
