"""NFD as a deputy: whoever may tell it of nodes, and what it may then write on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from tests.security.someone import Someone
from tests.templates.harness import FEATURES, NAMESPACE, eventually

if TYPE_CHECKING:
    from tests.templates import harness

pytestmark = pytest.mark.cluster
RBAC = "/apis/rbac.authorization.k8s.io/v1"
THERE = FEATURES.replace(NAMESPACE, "default")
NODE = "/api/v1/nodes/node-a"
DRY = "?dryRun=All"
TENANT, WORKER, MASTER = "june", "system:serviceaccount:default:nfd-worker", "system:serviceaccount:default:nfd-master"
OURS = (names.LABEL_ENABLED, names.LABEL_IGNORE, names.pool_node_label("secret"), names.deploy_label("dcgm"))
TAINTED = {"metadata": {"annotations": {names.DRIVER_TAINTED: "main"}}}
TAINTS = {"metadata": {"annotations": {names.POOL_TAINTS: '[{"key":"example.com/quarantine"}]'}}}


def told() -> dict[str, Any]:
    """What somebody says of node-a to NFD's master."""
    features = {"instances": {}, "attributes": {"cpu.cpuid": {"elements": {"AVX": "true"}}}, "flags": {}}
    return {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": {"name": "of-node-a", "labels": {names.NFD_NODE_NAME: "node-a"}},
        "spec": {"features": features},
    }


def labelled(*keys: str) -> dict[str, Any]:
    return told() | {"spec": {"labels": dict.fromkeys(keys, "true")}}


def granted(admin: harness.Kube, kind: str, user: str, *rules: dict[str, Any]) -> None:
    """A right in `default`, or in all namespaces."""
    path = f"{RBAC}/clusterrole" if kind == "ClusterRole" else f"{RBAC}/namespaces/default/role"
    name = user.rpartition(":")[2]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    assert admin.create(f"{path}s", {"metadata": {"name": name}, "rules": [*rules]}).code == 201
    binding = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
    assert admin.create(f"{path}bindings", binding).code == 201


@pytest.fixture(scope="module")
def served(guarded: harness.Kube) -> harness.Kube:
    """With a tenant, and NFD's accounts as its chart makes them."""
    reports = {"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeatures"], "verbs": ["*"]}
    nodes = {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "patch", "update"]}
    granted(guarded, "Role", TENANT, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    granted(guarded, "Role", WORKER, reports)
    granted(guarded, "ClusterRole", MASTER, nodes)
    worker, master = Someone(guarded, WORKER), Someone(guarded, MASTER)
    pool = {"metadata": {"labels": {names.pool_node_label("probe"): ""}}}
    for probe in (
        lambda: worker.create(f"{THERE}{DRY}", labelled(names.LABEL_ENABLED)),
        lambda: master.merge(f"{NODE}{DRY}", pool),
    ):
        eventually(lambda probe=probe: "gpu-control-plane" in probe().message, "a policy is not in force")
    return guarded


@pytest.mark.parametrize("who", [TENANT, WORKER])
@pytest.mark.parametrize("label", OURS)
def test_who_may_not_label_every_node_does_not_do_so_by_a_report(served: harness.Kube, who: str, label: str) -> None:
    answer = Someone(served, who).create(f"{THERE}{DRY}", labelled("feature.node.kubernetes.io/x", label))
    assert answer.code == 403, answer.message
    assert f"gives its node the label {label}, and {who} may not label every node" in answer.message


def test_reports_without_labels_of_ours_are_written_as_before(served: harness.Kube) -> None:
    worker = Someone(served, WORKER)
    assert worker.create(f"{THERE}{DRY}", labelled("feature.node.kubernetes.io/x", "nvidia.com/gpu.count")).code == 201
    assert worker.create(f"{THERE}{DRY}", told()).code == 201
    bare = told()
    del bare["spec"]
    assert worker.create(f"{THERE}{DRY}", bare).code != 403


def test_a_label_that_an_administrator_gave_a_report_keeps_nobody_from_writing_it(served: harness.Kube) -> None:
    worker, path = Someone(served, WORKER), f"{THERE}/of-node-a"
    assert served.create(THERE, labelled(names.LABEL_ENABLED)).code == 201, "who may label every node may"
    try:
        assert worker.merge(path, {"spec": {"features": told()["spec"]["features"]}}).code == 200
        for change in ({names.LABEL_ENABLED: "false"}, {names.LABEL_IGNORE: "true"}):
            assert worker.merge(f"{path}{DRY}", {"spec": {"labels": change}}).code == 403, change
        assert worker.merge(f"{path}{DRY}", {"spec": {"labels": {names.LABEL_ENABLED: None}}}).code == 200
    finally:
        served.delete(path)


def test_nfds_master_writes_no_marks_of_ours_whoever_told_it_to(served: harness.Kube) -> None:
    """Not only what stands in spec.labels: a rule may make labels of what a node's own worker told it."""
    master = Someone(served, MASTER)
    for label in OURS[2:]:
        for where in ("", "/status"):
            answer = master.merge(f"{NODE}{where}{DRY}", {"metadata": {"labels": {label: "true"}}})
            assert answer.code == 403, (label, where)
            assert f"may not change label {label} of Node node-a" in answer.message
    for noted in (TAINTS, TAINTED):
        assert master.merge(f"{NODE}{DRY}", noted).code == 403, noted


def test_another_program_may_ask_for_a_node(served: harness.Kube) -> None:
    """As an automation does that updates drivers of hosts."""
    wants = {"metadata": {"annotations": {names.HAND_OVER: "ansible"}}}
    assert Someone(served, MASTER).merge(f"{NODE}{DRY}", wants).code == 200


def test_nfds_master_goes_on_with_its_work(served: harness.Kube) -> None:
    """The rule of ours too, and what Deckhouse gives the nodes of a group."""
    labels = dict.fromkeys((names.LABEL_PRESENT, names.LABEL_ENABLED, "feature.node.kubernetes.io/x"), "true")
    answer = Someone(served, MASTER).merge(f"{NODE}{DRY}", {"metadata": {"labels": labels}})
    assert answer.code == 200, answer.message
