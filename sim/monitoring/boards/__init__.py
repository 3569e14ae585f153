"""The module's dashboards: what each shows, and how it is asked for. Pure."""

from __future__ import annotations

from typing import Final

from sim.monitoring.boards.control_plane import control_plane
from sim.monitoring.boards.node import node
from sim.monitoring.boards.overview import overview
from sim.monitoring.boards.pool import pool
from sim.monitoring.boards.workloads import workloads

BOARDS: Final = {
    "overview": overview,
    "node": node,
    "pool": pool,
    "workloads": workloads,
    "control-plane": control_plane,
}
"""What makes each file of monitoring/grafana-dashboards/gpu/."""
