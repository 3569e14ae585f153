"""The module's dashboards: what each shows, and how it is asked for. Pure."""

from __future__ import annotations

from typing import Final

from tools.dashboards.boards.control_plane import control_plane
from tools.dashboards.boards.driver import driver
from tools.dashboards.boards.node import node
from tools.dashboards.boards.overview import overview
from tools.dashboards.boards.pool import pool
from tools.dashboards.boards.workloads import workloads

BOARDS: Final = {
    "overview": overview,
    "node": node,
    "pool": pool,
    "workloads": workloads,
    "driver": driver,
    "control-plane": control_plane,
}
"""What makes each file of monitoring/grafana-dashboards/gpu/."""
