"""Nodes that others serve, too: what of the Node tells it, and what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.runtime.plan import EmitEvent
from tests.bootstrap.world import NODE, Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.runtime.plan import Plan

KIND = "ManagedElsewhere"
DEPLOY = "nvidia.com/gpu.deploy."


@pytest.fixture
def ready() -> Cluster:
    made = Cluster()
    made.prepare()
    return made


def shows(
    cluster: Cluster, *, allocatable: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> Plan:
    with cluster.edit("Node", NODE) as node:
        node["status"]["allocatable"] = {"cpu": "8", **(allocatable or {})}
        node["metadata"]["labels"].update(labels or {})
    return cluster.step()


def test_a_node_of_ours_alone(ready: Cluster) -> None:
    shows(ready, allocatable={"gpu.deckhouse.io/a": "8"}, labels={"nvidia.com/gpu.count": "8"})
    assert ready.condition(KIND) == ("False", "NothingFound")


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"])
def test_what_kubelet_offers_is_proof_of_another_device_plugin(ready: Cluster, resource: str) -> None:
    shows(ready, allocatable={resource: "7"})
    assert ready.condition(KIND) == ("True", "DevicePluginFound")
    told = ready.message(KIND)
    assert f"kubelet offers {resource} (7)" in told
    assert f"kubectl label node {NODE} nvidia.com/gpu.deploy.operands=false" in told
    assert f"kubectl label node {NODE} {names.LABEL_ENABLED}=false" in told
    assert ready.pooling() == ("True", "Ready"), "it is told, and stops nothing"
    assert ready.plan().writes == ()

    shows(ready, allocatable={resource: "0"})
    assert ready.condition(KIND) == ("False", "NothingFound"), "what stays of a plugin that is gone"


@pytest.mark.parametrize("allocatable", [
    {"nvidia.com/hostdev": "4"}, {"nvidia.com/gpus": "1"}, {"nvidia.com/gpu": "many"}, {"amd.com/gpu": "8"},
])  # fmt: skip
def test_what_is_no_card_of_another_plugin(ready: Cluster, allocatable: dict[str, str]) -> None:
    shows(ready, allocatable=allocatable)
    assert ready.condition(KIND) == ("False", "NothingFound")


def test_the_operators_labels_name_what_it_is_told_to_run(ready: Cluster) -> None:
    labels = {"container-toolkit": "true", "mig-manager": "paused-for-mig-change", "driver": "pre-installed"}
    labels |= {"device-plugin": "false", "dcgm": "true", "operands": "false"}
    shows(ready, labels={DEPLOY + part: value for part, value in labels.items()})
    assert ready.condition(KIND) == ("True", "OperatorLabelled")
    assert "told to run its container-toolkit, mig-manager there" in ready.message(KIND)


def test_both_are_told(ready: Cluster) -> None:
    shows(ready, allocatable={"nvidia.com/gpu": "8"}, labels={f"{DEPLOY}driver": "true"})
    assert ready.condition(KIND) == ("True", "DevicePluginFound")
    assert "told to run its driver there" in ready.message(KIND)


def test_an_event_says_so_once(ready: Cluster) -> None:
    said = [shows(ready, allocatable={"nvidia.com/gpu": count}) for count in "87"]
    notes = [[action.reason for action in made.actions if isinstance(action, EmitEvent)] for made in said]
    assert notes == [[names.EVENT_INVENTORY_CONDITION], []]


def test_a_node_that_is_not_managed_is_theirs(ready: Cluster) -> None:
    ready.inventory(managed=False)
    shows(ready, allocatable={"nvidia.com/gpu": "8"}, labels={f"{DEPLOY}driver": "true"})
    assert ready.condition(KIND) == ("False", "NotManaged")
