"""A node in foreign hands: its kubelet's credential, and the tokens of the agents that run on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import NODEFEATURE
from tests.kit.manifests import manifest
from tests.kit.reports import feature, features, report
from tests.security.someone import Someone
from tests.templates.harness import FEATURES, GROUP, NAMESPACE, eventually, pod

if TYPE_CHECKING:
    from tests.templates import harness

pytestmark = pytest.mark.cluster
NODE, OTHER = "node-a", "node-b"
PATH = f"/api/v1/nodes/{NODE}"
DRY = "?dryRun=All"
OURS = f"/api/v1/namespaces/{NAMESPACE}"
POOL_LABEL, GATE = names.pool_node_label("a"), names.deploy_label("dcgm")


@pytest.fixture(scope="module")
def kubelet(guarded: harness.Kube) -> Someone:
    """Whoever stole the certificate of node-a."""
    return Someone.kubelet(guarded, NODE)


def marked(**metadata: dict[str, str | None]) -> dict[str, Any]:
    return {"metadata": metadata}


MARKS = {
    POOL_LABEL: marked(labels={POOL_LABEL: ""}),
    GATE: marked(labels={GATE: "true"}),
    names.POOL_TAINTS: marked(annotations={names.POOL_TAINTS: '[{"key":"example.com/quarantine"}]'}),
    names.DRIVER_TAINTED: marked(annotations={names.DRIVER_TAINTED: "main"}),
    names.HAND_OVER: marked(annotations={names.HAND_OVER: "thief"}),
}


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("mark", MARKS)
def test_a_kubelet_does_not_call_a_pools_pods_to_its_node(kubelet: Someone, mark: str, subresource: str) -> None:
    """Nor start our components there, have foreign taints taken off as ours, or keep a place in a roll-out's budget."""
    answer = kubelet.merge(f"{PATH}{subresource}{DRY}", MARKS[mark])
    assert answer.code == 403, answer.message
    kind = "label" if "labels" in MARKS[mark]["metadata"] else "annotation"
    assert f"may not change {kind} {mark}" in answer.message


def test_a_kubelet_does_not_drop_them_either(guarded: harness.Kube, kubelet: Someone) -> None:
    assert guarded.merge(PATH, marked(labels={POOL_LABEL: "true"})).code == 200, "people may"
    try:
        for value in (None, "other"):
            answer = kubelet.merge(f"{PATH}{DRY}", marked(labels={POOL_LABEL: value}))
            assert answer.code == 403, value
        assert kubelet.merge(f"{PATH}{DRY}", marked(labels={"example.com/rack": "7"})).code == 200
    finally:
        guarded.merge(PATH, marked(labels={POOL_LABEL: None}))


def test_a_node_does_not_join_with_them(kubelet: Someone) -> None:
    new = Someone.kubelet(kubelet.kube, "node-new")
    for metadata in MARKS.values():
        answer = new.create(f"/api/v1/nodes{DRY}", {"metadata": {"name": "node-new", **metadata["metadata"]}})
        assert answer.code == 403, answer.message
        assert "gpu-control-plane keeps it" in answer.message


def test_a_kubelet_goes_on_with_its_work(kubelet: Someone) -> None:
    """Heartbeats, what the node has, and labels that a kubelet is started with."""
    beat = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8"}}}
    assert kubelet.merge(f"{PATH}/status{DRY}", beat).code == 200
    for label in (names.LABEL_ENABLED, names.LABEL_IGNORE, "example.com/rack"):
        assert kubelet.merge(f"{PATH}{DRY}", marked(labels={label: "true"})).code == 200, label
    new = Someone.kubelet(kubelet.kube, "node-new")
    body = {"metadata": {"name": "node-new", "labels": {names.LABEL_ENABLED: "true"}}}
    assert new.create(f"/api/v1/nodes{DRY}", body).code == 201
    assert new.create(f"/api/v1/nodes{DRY}", {"metadata": {"name": "node-new"}}).code == 201


OUT_OF_REACH = [
    ("PATCH", f"{GROUP}/gpudevices/card-a/status", {"status": {"published": None}}),
    ("PATCH", f"{GROUP}/gpudevices/card-a", marked(annotations={names.ASSIGNMENT: "a"})),
    ("PATCH", f"{GROUP}/gpunodeinventories/{NODE}/status", {"status": {"driver": {"version": "1"}}}),
    ("POST", FEATURES, manifest(report(NODE, None), NODEFEATURE)),
    ("GET", f"{OURS}/secrets/{names.WEBHOOK_SECRET}", None),
    ("PATCH", f"{OURS}/configmaps/gpu-device-plugin-a", {"data": {names.ALLOWED_DEVICES: ""}}),
    ("POST", f"{OURS}/serviceaccounts/{names.POOL_CONTROLLER}/token", {"spec": {}}),
    ("POST", f"{OURS}/serviceaccounts/{names.BOOTSTRAP}/token", {"spec": {}}),
    ("POST", f"{OURS}/serviceaccounts/{names.MANAGER_DISCOVER}/token", {"spec": {}}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), OUT_OF_REACH, ids=lambda v: v if isinstance(v, str) else "")
def test_a_kubelet_has_no_right_of_the_modules(kubelet: Someone, method: str, path: str, body: object) -> None:
    """No token either of an account none of whose pods runs on its node: the Node authorizer looks."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = kubelet.call(method, path, body, kind)
    assert answer.code == 403, answer.message


def test_a_mirror_pod_carries_no_marks_of_ours(kubelet: Someone) -> None:
    """A kubelet may make pods of its own node's static ones, in any namespace."""
    body = pod("static", nodeName=NODE, marks=True)
    body["metadata"]["annotations"] |= {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
    answer = kubelet.create(f"/api/v1/namespaces/default/pods{DRY}", body)
    assert answer.code == 403
    assert "are set by gpu-control-plane" in answer.message


def test_the_token_of_an_agent_ends_with_its_node(guarded: harness.Kube) -> None:
    """The API server remembers a token that it has found good for ten seconds."""
    assert guarded.create("/api/v1/nodes", {"metadata": {"name": "node-gone"}}).code == 201
    agent = guarded.account(names.MANAGER_PLUGIN, "node-gone")
    assert agent.get(f"{GROUP}/gpudevices").code == 200
    assert guarded.delete("/api/v1/nodes/node-gone").code == 200
    eventually(lambda: agent.get(f"{GROUP}/gpudevices").code == 401, "the token of a node that is gone still works")


@pytest.mark.parametrize("account", [names.MANAGER_DISCOVER, names.MANAGER_VALIDATE])
def test_an_agent_reports_in_the_modules_namespace_alone(guarded: harness.Kube, account: str) -> None:
    elsewhere = FEATURES.replace(NAMESPACE, "default")
    told = feature(names.agent_feature(NODE), NODE, features({}), namespace="default")
    body = manifest(told, NODEFEATURE)
    answer = guarded.account(account, NODE).create(f"{elsewhere}{DRY}", body)
    assert answer.code == 403
    assert "cannot create resource" in answer.message
