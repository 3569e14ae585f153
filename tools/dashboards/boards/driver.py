"""The dashboard of drivers that the module brings onto nodes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.dashboards.boards.queries import STATUS
from tools.dashboards.panels import Row, dashboard, lines, stacked, stat, table, variable

if TYPE_CHECKING:
    from tools.dashboards.panels import Json


def driver() -> Json:
    """One GPUDriver, or some."""
    here = '{driver=~"$driver"}'

    def nodes(state: str) -> str:
        return f'sum(max by (driver) (gpu_driver_nodes{{driver=~"$driver", state="{state}"}}))'

    state = (
        table("Conditions", f"max by (driver, condition) (gpu_driver_condition{here})", said=STATUS),
        stat("Nodes as asked for", nodes("current")),
        stat("Nodes with another revision", nodes("outdated")),
        stat("Nodes at work", nodes("busy")),
        stat("Nodes that cannot get it", nodes("blocked"), bad_above=1),
        stat("Nodes that failed", nodes("failed"), bad_above=1),
        stat(
            "Paused", f"sum(max by (driver) (gpu_driver_paused{here}))", about="GPUDrivers that begin no node for now."
        ),
    )
    rollout = (
        lines(
            "Nodes of each kind with the revision",
            {
                "{{driver}} {{stratum}} {{state}}": f"max by (driver, stratum, state) (gpu_driver_stratum_nodes{here})",
            },
            about="All, started, finished: what one node of a kind shows holds for all of it.",
        ),
        lines(
            "Wave",
            {"{{driver}} {{stratum}}": f"max by (driver, stratum) (gpu_driver_stratum_wave{here})"},
            about="0 is the canary.",
        ),
        stacked("Nodes by phase", {"{{driver}} {{phase}}": f"max by (driver, phase) (gpu_driver_work{here})"}),
        lines(
            "Longest in its phase",
            {"{{driver}} {{phase}}": f"max by (driver, phase) (gpu_driver_work_oldest_seconds{here})"},
            unit="s",
        ),
        lines(
            "Tries",
            {"{{driver}} {{phase}}": f"max by (driver, phase) (gpu_driver_work_attempts{here})"},
            about="Of the node that was tried most often.",
        ),
        lines(
            "GPU hours out of service in a day",
            {"{{driver}}": f"max by (driver) (gpu_driver_gpu_hours{here})"},
            about="Of works that ended within 24 hours.",
        ),
    )
    rows = (Row("State", state), Row("Roll-out", rollout))
    choice = variable("driver", "GPUDriver", "label_values(gpu_driver_nodes, driver)")
    return dashboard(
        "gpu-driver", "GPU / Driver", rows, choice, about="How drivers come onto nodes, in waves, and what that costs."
    )
