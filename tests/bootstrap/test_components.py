"""The components' objects: as reviewed, and restored when somebody edits them."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import names, resources
from controllers.api.settings import Settings, parse_settings
from controllers.bootstrap import operands
from controllers.bootstrap.components import covers
from controllers.bootstrap.phases import PHASES
from controllers.runtime.plan import Apply, Delete
from tests.bootstrap.world import Cluster

GOLDEN = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
BUILT = operands.daemonsets(Settings().bootstrap)
PODS = [(phase.component, BUILT[operands.object_name(phase.component)]["spec"]["template"]["spec"]) for phase in PHASES]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.execute(made.plan_components().actions, names.MANAGER_BOOTSTRAP)
    return made


def daemonset(cluster: Cluster, component: str) -> dict[str, Any]:
    return cluster.objects["DaemonSet", f"{names.NAMESPACE}/gpu-{component}"]


@pytest.mark.parametrize("name", sorted(BUILT))
def test_objects_are_as_reviewed(name: str) -> None:
    """`UPDATE_GOLDEN=1` writes them anew; the difference is then reviewed with the change."""
    text, file = yaml.safe_dump(BUILT[name], sort_keys=True, width=120), GOLDEN / f"{name}.yaml"
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text)

    assert text == file.read_text()


@pytest.mark.parametrize(("component", "pod"), PODS)
def test_every_component_keeps_the_house_rules(component: str, pod: dict[str, Any]) -> None:
    assert pod["nodeSelector"] == {names.deploy_label(component): "true"}
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        security = container["securityContext"]
        assert security.get("privileged") or security["allowPrivilegeEscalation"] is False
        assert security.get("privileged") or security["capabilities"]["drop"] == ["ALL"]
        assert container["resources"]["requests"]["ephemeral-storage"]
        assert container["resources"]["limits"]["memory"]
        assert ":" in container["image"]
        assert "latest" not in container["image"]
    for container in pod["containers"]:
        assert container["readinessProbe"]
        assert container["livenessProbe"]
    mounted = {
        m["name"] for c in (*pod.get("initContainers", ()), *pod["containers"]) for m in c.get("volumeMounts", ())
    }
    assert mounted == {volume["name"] for volume in pod.get("volumes", ())}


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.component)
def test_labels_and_selectors_meet(phase: Any) -> None:
    made = BUILT[operands.object_name(phase.component)]
    labels = made["spec"]["template"]["metadata"]["labels"]

    assert labels[names.LABEL_COMPONENT] == phase.component
    assert labels[names.LABEL_MODULE] == names.MODULE
    assert made["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_settings_choose_images_and_components() -> None:
    settings = parse_settings(
        {"bootstrap": {"gfd": {"image": "mirror.local/gfd@sha256:1"}, "dcgm": {"enabled": False}}}
    )
    made = operands.daemonsets(settings.bootstrap)

    assert "gpu-dcgm" not in made
    assert made["gpu-gfd"]["spec"]["template"]["spec"]["containers"][0]["image"] == "mirror.local/gfd@sha256:1"
    (exporter,) = made["gpu-dcgm-exporter"]["spec"]["template"]["spec"]["containers"]
    assert "DCGM_REMOTE_HOSTENGINE_INFO" not in [env["name"] for env in exporter["env"]]


def test_nothing_is_written_twice(cluster: Cluster) -> None:
    assert cluster.plan_components().actions == ()


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "template", "spec", "nodeSelector", names.deploy_label("dcgm-exporter")),
        ("spec", "template", "spec", "hostNetwork"),
        ("spec", "template", "spec", "tolerations"),
        ("spec", "template", "spec", "containers", 0, "image"),
        ("spec", "template", "spec", "containers", 0, "env", 1, "value"),
        ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"),
        ("metadata", "labels", names.LABEL_COMPONENT),
        ("metadata", "annotations", names.SPEC_HASH),
    ],
)
@pytest.mark.parametrize("how", ["changed", "removed"])
def test_what_somebody_edits_is_restored(cluster: Cluster, path: tuple[Any, ...], how: str) -> None:
    target: Any = daemonset(cluster, "dcgm-exporter")
    wanted = copy.deepcopy(target)
    for key in path[:-1]:
        target = target[key]
    if how == "changed":
        target[path[-1]] = "edited"
    else:
        del target[path[-1]]
    made = cluster.plan_components()
    assert [action.ref.name for action in made.actions if isinstance(action, Apply)] == ["gpu-dcgm-exporter"]
    cluster.execute(made.actions, names.MANAGER_BOOTSTRAP)

    assert daemonset(cluster, "dcgm-exporter")["spec"] == wanted["spec"]
    assert cluster.plan_components().actions == ()


def test_defaults_and_others_additions_are_left(cluster: Cluster) -> None:
    spec = daemonset(cluster, "gfd")["spec"]
    spec["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    spec["template"]["spec"]["containers"][0]["env"].insert(0, {"name": "THEIRS", "value": "1"})

    assert cluster.plan_components().actions == ()


def test_what_was_deleted_comes_back(cluster: Cluster) -> None:
    cluster.drop(resources.DAEMONSET, f"{names.NAMESPACE}/gpu-toolkit")
    cluster.drop(resources.RUNTIMECLASS, "nvidia")

    assert {action.ref.name for action in cluster.plan_components().actions if isinstance(action, Apply)} == {
        "gpu-toolkit", "nvidia",
    }  # fmt: skip


def test_the_administrators_runtime_class_is_not_touched() -> None:
    cluster = Cluster()
    cluster.put(resources.RUNTIMECLASS, {"metadata": {"name": "nvidia"}, "handler": "their-own"})

    assert "nvidia" not in [action.ref.name for action in cluster.plan_components().writes if isinstance(action, Apply)]


def test_a_component_that_is_switched_off_goes_and_nothing_else(cluster: Cluster) -> None:
    other = {"metadata": {"name": "gpu-nodeagent-discover", "namespace": names.NAMESPACE}, "spec": {}}
    cluster.put(resources.DAEMONSET, other)
    cluster.settings = parse_settings({"bootstrap": {"gfd": {"enabled": False}}})
    (delete,) = cluster.plan_components().actions

    assert isinstance(delete, Delete)
    assert delete.ref.name == "gpu-gfd"
    assert delete.ref.uid
    assert delete.resource_version


@pytest.mark.parametrize(
    ("found", "wanted", "answer"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([{"name": "x", "v": 1}, {"name": "y"}], [{"name": "y"}], True),
        ([{"name": "x"}], [{"name": "y"}], False),
        ([{"operator": "Exists"}, {"key": "k"}], [{"operator": "Exists"}], False),
        (["a", "b"], ["a"], False),
        (None, [], False),
        ("1", 1, False),
        ([{"name": "same", "mountPath": "/a"}], [{"name": "same", "mountPath": "/b"}], False),
    ],
)
def test_comparison_follows_the_api_servers_merge_keys(found: Any, wanted: Any, answer: bool) -> None:
    assert covers(found, wanted) is answer
