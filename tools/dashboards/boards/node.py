"""The dashboard of one node, or some. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.dashboards.boards.queries import POOL_OF, STATUS, or_zero
from tools.dashboards.panels import Row, dashboard, lines, stat, table, variable

if TYPE_CHECKING:
    from tools.dashboards.panels import Json


def node() -> Json:
    """One node, or some."""
    here = '{node=~"$node"}'

    def card(metric: str) -> dict[str, str]:
        return {"{{node}} {{device}}": f"max by (node, device) ({metric}{here})"}

    state = (
        table("Conditions", f"max by (node, condition) (gpu_node_inventory_condition{here})", said=STATUS),
        table("Driver", f"max by (node, version, cuda_version) (gpu_driver_version_info{here})", hide=("Value",)),
        stat("Cards", f"sum(max by (node) (gpu_inventory_devices_total{here}))"),
        stat("Cards in no pool", f"sum(max by (node) (gpu_device_unassigned_total{here}))"),
        stat("Faulted cards", or_zero(f"count(max by (device) (gpu_device_faulted{here}))"), bad_above=1),
        lines(
            "Slots by pool, as the pools count",
            {"{{node}} {{pool}}": f"max by (node, pool) (gpupool_node_slots{here})"},
        ),
        lines(
            "Slots by pool, as kubelet offers them",
            {"{{node}} {{pool}}": f"sum by (node, pool) (kube_node_status_allocatable{here} {POOL_OF}))"},
            about="What the scheduler goes by. Less than the pools count: a plugin has withdrawn cards, or is away.",
        ),
    )
    health = (
        lines("Temperature", card("gpu_device_health_temperature_celsius"), unit="celsius"),
        lines("Double-bit memory errors", card("gpu_device_health_ecc_errors_total")),
        lines("Last XID", card("gpu_device_health_last_xid"), about="Number of the card's last error; 0 for none."),
        lines("Slowed by heat or hardware", card("gpu_device_health_throttled"), about="1 while it is."),
    )
    use = (
        lines("Utilisation", card("DCGM_FI_DEV_GPU_UTIL"), unit="percent"),
        lines("Memory in use", card("DCGM_FI_DEV_FB_USED"), unit="mbytes"),
        lines("Power", card("DCGM_FI_DEV_POWER_USAGE"), unit="watt"),
        lines(
            "SM clock",
            {"{{node}} {{device}}": f"1e6 * max by (node, device) (DCGM_FI_DEV_SM_CLOCK{here})"},
            unit="hertz",
        ),
        lines("PCIe received", card("DCGM_FI_PROF_PCIE_RX_BYTES"), unit="Bps"),
        lines("PCIe sent", card("DCGM_FI_PROF_PCIE_TX_BYTES"), unit="Bps"),
    )
    rows = (Row("State", state), Row("Health of the cards", health), Row("Use of the cards", use))
    choice = variable("node", "Node", "label_values(gpu_bootstrap_ready, node)")
    return dashboard(
        "gpu-node", "GPU / Node", rows, choice, about="A node's conditions, its cards, their health and use."
    )
