"""Metrics of the device plugin, beside those of the runtime and of asking the driver."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

DEVICES = Gauge("gpu_device_plugin_devices", "Devices in kubelet's list, by health.", ["health"])
STREAMS = Gauge(
    "gpu_device_plugin_streams",
    "Kubelet's open ListAndWatch streams: 1 for each resource of the pool where all is well.",
)
REGISTRATIONS = Counter("gpu_device_plugin_registrations_total", "Registrations with kubelet, by result.", ["result"])
ALLOCATIONS = Counter("gpu_device_plugin_allocations_total", "Containers for which kubelet asked.", ["result"])
ALLOCATE_SECONDS = Histogram(
    "gpu_device_plugin_allocate_seconds",
    "Duration of an Allocate call in seconds.",
    buckets=(0.001, 0.005, 0.02, 0.1, 1),
)
PREFERENCES = Counter("gpu_device_plugin_preferences_total", "Preferences that kubelet asked for.")
REPORTS = Counter("gpu_device_plugin_reports_total", "Readings of kubelet's PodResources, by result.", ["result"])
UNKNOWN = Gauge("gpu_device_plugin_unknown_devices", "Devices that containers hold and no card of this node has.")
FOREIGN = Gauge("gpu_device_plugin_foreign_cards", "Cards of the node that containers hold by others' resources.")
