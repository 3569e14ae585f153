"""Metrics of discovery, beside those of the runtime."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

SCANS = Counter("gpu_discover_scans_total", "Scans of the node by their result (ok, failed).", ["result"])
LAST_SCAN = Gauge("gpu_discover_last_scan_timestamp_seconds", "When a scan last succeeded, in seconds of Unix time.")
CARDS = Gauge("gpu_discover_cards", "Cards in the report.")
LOST = Gauge("gpu_discover_missed_cards", "Cards in the report that the last scan did not find.")
