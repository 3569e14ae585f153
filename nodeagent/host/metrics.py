"""Metrics of asking the driver, beside those of the role that asks."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

READINGS = Counter("gpu_nodeagent_driver_readings_total", "Readings of the driver: whole, partial, none.", ["result"])
READING_SECONDS = Gauge("gpu_nodeagent_driver_reading_seconds", "How long the driver's last reading took.")
