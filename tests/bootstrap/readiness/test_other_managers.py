"""Nodes that others serve, too: what of the Node tells it, and what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names, resources
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


def foreign(cluster: Cluster, app: str, *, privileged: bool = True, phase: str = "Running", **meta: Any) -> None:
    """A pod of another program on the node."""
    labels = {"app": app} | ({"app.kubernetes.io/component": "nvidia-driver"} if "driver" in app else {})
    owner = {"kind": "DaemonSet", "name": app, "uid": "1", "controller": True}
    made = {"name": f"{app}-1", "namespace": "gpu-operator", "labels": labels, "ownerReferences": [owner], **meta}
    container = {"name": "main", "image": "x", "securityContext": {"privileged": privileged}}
    spec = {"nodeName": NODE, "containers": [container]}
    cluster.put(resources.POD, {"metadata": made, "spec": spec, "status": {"phase": phase}})


def elsewhere(cluster: Cluster) -> dict[str, str] | None:
    cluster.step()
    found: dict[str, str] | None = cluster.status().get("managedElsewhere")
    return found


@pytest.mark.parametrize(("app", "part", "reason"), [
    ("nvidia-driver-daemonset", "driver", "ProgramsFound"),
    ("nvidia-gpu-driver-ubuntu24.04-7d4", "driver", "ProgramsFound"),
    ("nvidia-container-toolkit-daemonset", "toolkit", "ProgramsFound"),
    ("nvidia-device-plugin-daemonset", "plugin", "DevicePluginFound"),
    ("nvidia-mig-manager", "mig", "ProgramsFound"),
])  # fmt: skip
def test_a_pod_of_another_program_is_named_with_what_it_does(ready: Cluster, app: str, part: str, reason: str) -> None:
    foreign(ready, app)
    assert elsewhere(ready) == {part: f"gpu-operator/{app}"}
    assert ready.condition(KIND) == ("True", reason)
    assert f"(gpu-operator/{app})" in ready.message(KIND)
    assert ready.pooling() == ("True", "Ready")
    assert ready.plan().writes == ()

    ready.drop(resources.POD, f"gpu-operator/{app}-1")
    assert elsewhere(ready) is None
    assert ready.condition(KIND) == ("False", "NothingFound")


@pytest.mark.parametrize("pod", [
    {"privileged": False}, {"phase": "Failed"}, {"phase": "Succeeded"},
    {"labels": {"app": "nvidia-dcgm-exporter"}}, {"labels": {"app": "nvidia-operator-validator"}},
])  # fmt: skip
def test_a_pod_that_cannot_be_such_a_program_or_is_none_says_nothing(ready: Cluster, pod: dict[str, Any]) -> None:
    foreign(ready, "nvidia-device-plugin-daemonset", **pod)
    assert elsewhere(ready) is None


def test_a_pod_that_no_daemonset_keeps_is_named_itself_and_an_adopted_driver_is_the_modules(ready: Cluster) -> None:
    foreign(ready, "nvidia-driver-daemonset", ownerReferences=[])
    assert elsewhere(ready) == {"driver": "gpu-operator/nvidia-driver-daemonset-1"}

    with ready.edit("Pod", "gpu-operator/nvidia-driver-daemonset-1") as pod:
        pod["metadata"]["labels"][names.DRIVER_ADOPTED] = "true"
    assert elsewhere(ready) is None


def test_a_driver_that_is_to_come_counts_before_its_pod_is_there(ready: Cluster) -> None:
    selector = {f"{DEPLOY}driver": "true"}
    daemonset(ready, selector)
    other_node(ready)
    assert elsewhere(ready) is None, "the node is not labelled for it"
    shows(ready, labels=selector)
    assert elsewhere(ready) == {"driver": "gpu-operator/nvidia-driver-daemonset"}


def daemonset(cluster: Cluster, selector: Mapping[str, str], *, privileged: bool = True) -> None:
    """A DaemonSet of drivers in the operator's namespace."""
    container = {"name": "driver", "image": "x", "securityContext": {"privileged": privileged}}
    meta = {"name": "nvidia-driver-daemonset", "namespace": "gpu-operator"}
    labels = {"app.kubernetes.io/component": "nvidia-driver"}
    spec = {"template": {"spec": {"nodeSelector": selector, "containers": [container]}}}
    cluster.put(resources.DAEMONSET, {"metadata": {**meta, "labels": labels}, "spec": spec})


def other_node(cluster: Cluster, *, privileged: bool = True) -> None:
    """A part of the operator, as the API server lets it in, on another node."""
    foreign(cluster, "nvidia-mig-manager", privileged=privileged)
    with cluster.edit("Pod", "gpu-operator/nvidia-mig-manager-1") as pod:
        pod["spec"]["nodeName"] = "another"


@pytest.mark.parametrize(("template", "let_in"), [(True, False), (False, True)])
def test_a_tenants_daemonset_blocks_no_node(ready: Cluster, *, template: bool, let_in: bool) -> None:
    """Labels, selector and template are anybody's to write; pods with these privileges are not let in."""
    selector = {f"{DEPLOY}driver": "true"}
    daemonset(ready, selector, privileged=template)
    other_node(ready, privileged=let_in)
    shows(ready, labels=selector)
    assert elsewhere(ready) is None


def test_a_daemonset_that_anybody_could_make_says_nothing_of_a_node(ready: Cluster) -> None:
    template = {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": []}}
    meta = {"name": "x", "namespace": "team", "labels": {"app.kubernetes.io/component": "nvidia-driver"}}
    ready.put(resources.DAEMONSET, {"metadata": meta, "spec": {"template": template}})
    shows(ready, labels={"kubernetes.io/os": "linux"})
    assert elsewhere(ready) is None
