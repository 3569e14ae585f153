"""Alerts and the ADR name only metrics that somebody exports; what the collectors say is what the objects say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from prometheus_client.registry import Collector

from controllers.api.gpudevice import GPUDevice
from controllers.api.record import adapter
from controllers.bootstrap.metrics.nodes import Readiness, Software
from controllers.bootstrap.records import Card
from controllers.gpupool.collectors import StatusCollector
from tests.kit import objects
from tests.kit.manifests import body
from tests.kit.objects import condition
from tests.monitoring.exported import Nothing, of_others, ours
from tests.monitoring.rules import Alert, alerts, metrics_in

ADR = {
    "gpu_node_inventory_condition",
    *(f"gpupool_capacity_{word}" for word in ("total", "used", "reserved", "unavailable", "available")),
    "gpupool_assignments",
    "gpupool_node_slots",
    "gpu_device_unassigned_total",
    "gpu_device_reserved_total",
    "gpu_device_reservation_age_seconds",
    "gpu_bootstrap_ready",
    "gpu_driver_version_info",
}


def test_every_metric_of_the_adr_is_exported() -> None:
    assert ours() >= ADR
    assert "kube_node_status_allocatable" in {name for alert in alerts() for name in metrics_in(alert.expr)}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: f"{alert.name}-{alert.labels.get('process', '')}")
def test_an_alert_reads_only_what_is_exported(alert: Alert) -> None:
    assert metrics_in(alert.expr)
    assert metrics_in(alert.expr) <= ours() | of_others()


def test_names_of_metrics_are_found_in_an_expression() -> None:
    text = 'sum by (le) (rate(a_bucket{x="b_c"}[5m])) > on (pool) group_left (z) max(d) or 0 * absent(up{job="e"} == 1)'
    assert metrics_in(text) == {"a_bucket", "d", "up"}


def samples(family_name: str, collector: Collector) -> dict[tuple[str, ...], float]:
    (family,) = [one for one in collector.collect() if one.name == family_name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def world(**caches: object) -> SimpleNamespace:
    empty = dict.fromkeys(("inventories", "devices", "pools"), Nothing())
    empty["nodes"] = {}
    return SimpleNamespace(**{**empty, **caches})


def test_a_condition_of_a_node_has_one_series_from_its_owner() -> None:
    said = [condition("DriverMissing", "True"), condition("UnassignedDevice", "False"), condition("Other", "True")]
    seen = world(inventories=[objects.inventory("n", conditions=said)])
    name = "gpu_node_inventory_condition"
    assert samples(name, Readiness(seen)) == {("n", "DriverMissing"): 1}
    assert samples(name, StatusCollector(seen)) == {("n", "UnassignedDevice"): 0}


def test_a_faulted_card_is_told_with_its_pool_and_reason_and_others_are_not() -> None:
    def card(name: str, status: str) -> Card:
        told = objects.card("n", pool="a", meta={"name": name}, conditions=[condition("Faulted", status, "Hot")])
        return adapter(Card).validate_python(body(told))

    seen = world(devices=[card("ill", "True"), card("well", "False"), card("held", "Unknown")])
    assert samples("gpu_device_faulted", Readiness(seen)) == {("n", "ill", "a", "Hot"): 1}


def test_each_version_that_a_node_runs_has_a_series_and_so_has_what_differs_from_what_is_wanted() -> None:
    def one(component: str, running: str, wanted: str | None = None) -> dict[str, str | None]:
        return {"component": component, "running": running, "wanted": wanted}

    told = [
        one("kernel", "6.8, own"),
        one("toolkit", "v1", "v2"),
        one("gfd", "v3", "v3"),
        one("device-plugin", "v1, v2", "v2"),
    ]
    nodes = [objects.inventory("n", software=told), objects.inventory("bare")]
    collector = Software(world(inventories=nodes))
    assert samples("gpu_software_info", collector) == {
        ("n", "kernel", "6.8, own"): 1,
        ("n", "toolkit", "v1"): 1,
        ("n", "gfd", "v3"): 1,
        ("n", "device-plugin", "v1"): 1,
        ("n", "device-plugin", "v2"): 1,
    }
    assert samples("gpu_software_skew", collector) == {("n", "toolkit"): 1, ("n", "device-plugin"): 1}


def test_a_pool_tells_its_conditions_its_cards_and_how_kube_state_metrics_calls_its_resource() -> None:
    held = condition("Maintenance", reason="R")
    pool = objects.pool("a100-full", conditions=[held], allocation={"mode": "TimeSlice"})
    cards = [objects.card(pool="a100-full"), objects.card(state="Unassigned"), objects.card()]
    told = StatusCollector(world(pools=[pool], devices=cards))
    assert samples("gpupool_condition", told) == {("a100-full", "Maintenance", "R"): 1}
    assert samples("gpupool_devices", told) == {("a100-full", "Assigned"): 1, ("", "Unassigned"): 2}
    assert samples("gpupool", told) == {("a100-full", "TimeSlice", "timeslice", "gpu_deckhouse_io_a100_full"): 1}


def test_slots_that_can_be_given_are_those_of_offered_cards_on_nodes_that_take_pods() -> None:
    """In use or not; a card that is withdrawn, or whose node is cordoned, is none of them."""

    def card(name: str, node: str = "n", slots: int | None = 4, **marks: object) -> GPUDevice:
        more = {"allocations": [objects.allocation(slots=2)], **({} if slots else {"published": None}), **marks}
        return objects.card(node, pool="a", slots=slots or 0, meta={"name": name}, **more)

    allocation = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}}
    pool = objects.pool(allocation=allocation, status={"applied_allocation": allocation})
    devices = [
        card("one"),
        card("two"),
        card("withdrawn", slots=None),
        card("faulted", conditions=[condition("Faulted")]),
        card("away", node="cordoned"),
        card("gone", node="gone"),
    ]
    nodes = {"n": objects.node("n"), "cordoned": objects.node("cordoned", unschedulable=True)}
    told = StatusCollector(world(pools=[pool], devices=devices, nodes=nodes))
    assert samples("gpupool_node_slots_issuable", told) == {("a", "n"): 8}
