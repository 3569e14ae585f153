"""Telemetry is told from memory."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from controllers.bootstrap.health.dcgm_parser import CardSample
from controllers.bootstrap.health.ingest import ingest
from controllers.bootstrap.health.limits import Limits
from controllers.bootstrap.health.recall import recall_state
from controllers.bootstrap.records import CardStatus
from controllers.bootstrap.telemetry.metrics import CardMetrics, DeviceHealth


def test_what_is_known_is_told_and_nothing_else():
    state = recall_state(CardStatus(), 0)
    sample = CardSample("GPU-1", None, temperature=64, xids=(), ecc_volatile=2)
    cards = [
        CardMetrics("worker-01", "a", ingest(state, sample, Limits(), 15)),
        CardMetrics("worker-01", "b", state),
    ]
    registry = CollectorRegistry()
    registry.register(DeviceHealth(lambda: cards))
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    assert lines == [
        'gpu_device_health_temperature_celsius{device="a",node="worker-01"} 64.0',
        'gpu_device_health_ecc_errors_total{device="a",node="worker-01"} 2.0',
        'gpu_device_health_last_xid{device="a",node="worker-01"} 0.0',
    ]
