"""Metrics under GPU Operator's names: what they say of a node, and that they are not there unless asked for."""

from __future__ import annotations

import pytest

from controllers.bootstrap.metrics.compatibility import ABOUT, Compatibility
from tests.bootstrap.world import NODE, Cluster


@pytest.fixture
def made() -> Cluster:
    cluster = Cluster()
    cluster.prepare()
    return cluster


def told(cluster: Cluster, *, wanted: bool = True) -> dict[str, float]:
    found = Compatibility(cluster.view(), lambda: wanted).collect()
    return {
        sample.name: sample.value for metric in found for sample in metric.samples if sample.labels == {"node": NODE}
    }


def test_a_node_in_service_is_ready_in_every_respect(made: Cluster) -> None:
    with made.edit("Node", NODE) as node:
        node["status"]["allocatable"] = {"gpu.deckhouse.io/a": "7", "gpu.deckhouse.io/b": "1", "nvidia.com/gpu": "8"}
    assert told(made) == {**dict.fromkeys(ABOUT, 1), "gpu_operator_node_device_plugin_devices_total": 8}


def test_a_node_without_driver_and_pools_is_not(made: Cluster) -> None:
    made.report(driver="")
    made.step()
    found = told(made)
    assert found["gpu_operator_node_driver_ready"] == found["gpu_operator_node_driver_validation"] == 0
    assert found["gpu_operator_node_plugin_ready"] == found["gpu_operator_node_device_plugin_devices_total"] == 0
    assert found["gpu_operator_nvidia_pci_devices_total"] == 1


def test_nobody_who_does_not_ask_for_them_gets_them(made: Cluster) -> None:
    assert told(made, wanted=False) == {}
