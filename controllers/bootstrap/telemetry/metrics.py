"""Prometheus metrics of cards' telemetry, from memory; never from or to the API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from controllers.bootstrap.telemetry_records import CardHealthState

FUSE_HELD = Gauge("gpu_fuse_held", "Nodes that a fuse keeps in service, by kind and group.", ["kind", "group"])


@dataclass(frozen=True, slots=True)
class CardMetrics:
    """One card of the collector."""

    node: str
    device: str
    """Name of the GPUDevice."""
    state: CardHealthState


class DeviceHealth(Collector):
    """What is known of every card; series of what is not known are left out."""

    def __init__(self, cards: Callable[[], Iterable[CardMetrics]]) -> None:
        """`cards` is asked at each scrape of ours."""
        self._cards = cards

    def collect(self) -> Iterable[Metric]:
        """Make the series."""
        labels = ["node", "device"]
        heat = GaugeMetricFamily("gpu_device_health_temperature_celsius", "Temperature of a card.", labels=labels)
        ecc = CounterMetricFamily("gpu_device_health_ecc_errors", "Double-bit memory errors of a card.", labels=labels)
        xid = GaugeMetricFamily("gpu_device_health_last_xid", "Last error number of a card; 0 for none.", labels=labels)
        slow = GaugeMetricFamily("gpu_device_health_throttled", "1 while heat or hardware slows it.", labels=labels)
        for card in self._cards():
            key, state = [card.node, card.device], card.state
            errors = state.ecc_aggregate if state.ecc_volatile is None else state.ecc_volatile
            if state.temperature is not None:
                heat.add_metric(key, state.temperature)
            if errors is not None:
                ecc.add_metric(key, errors)
            if state.last_xids is not None:
                xid.add_metric(key, state.last_xid or 0)
            if state.throttled is not None:
                slow.add_metric(key, int(state.throttled))
        yield from (heat, ecc, xid, slow)
