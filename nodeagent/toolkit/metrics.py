"""Metrics of role `toolkit`."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

STATE = Gauge("gpu_toolkit_state", "1 for the state that the node's container runtime is in, else 0.", ["state"])
WRITES = Counter("gpu_toolkit_writes_total", "Files of the host that were changed.")
RESTARTS = Counter("gpu_toolkit_runtime_restarts_total", "Restarts of the container runtime by the module.")
