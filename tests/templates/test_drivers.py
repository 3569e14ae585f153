"""Who may take a driver from under pods: nobody by accident, and who says first that it is meant."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.driver.pods import build, checks
from tests.security.someone import Someone
from tests.templates import harness

pytestmark = pytest.mark.cluster
PODS = f"/api/v1/namespaces/{harness.NAMESPACE}/pods"
DAEMONSETS = f"/apis/apps/v1/namespaces/{harness.NAMESPACE}/daemonsets"
VARIANT = "3f2a91c07b-ubuntu24.04-any"
LABELS = {names.LABEL_COMPONENT: build.COMPONENT, names.LABEL_DRIVER: "main", names.DRIVER_VARIANT: VARIANT}
CHECK = {**LABELS, names.LABEL_COMPONENT: checks.COMPONENT}
CONTAINERS = [{"name": "main", "image": "none"}]
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gpu-driver", "uid": "x"}
OF_THE_CLUSTER = [
    "system:serviceaccount:kube-system:daemon-set-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:node-controller",
    "system:serviceaccount:kube-system:pod-garbage-collector",
    "system:kube-controller-manager",
]
EVICTED = f"gpu-driver-{VARIANT}-x1y2z"


def driver_pod(name: str, *, forced: bool = False, **meta: Any) -> dict[str, Any]:
    marks = {"annotations": {names.FORCE: "true"}} if forced else {}
    metadata = {"name": name, "labels": LABELS, "ownerReferences": [OWNER], **marks, **meta}
    return {"metadata": metadata, "spec": {"containers": CONTAINERS, "serviceAccountName": names.BOOTSTRAP}}


def daemonset(name: str, **marks: str) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
    spec = {"selector": {"matchLabels": LABELS}, "template": template, "updateStrategy": {"type": "OnDelete"}}
    return {"metadata": {"name": name, "labels": LABELS, "annotations": marks}, "spec": spec}


@pytest.fixture(scope="module")
def drivers(kube: harness.Kube) -> harness.Kube:
    for path, body in (
        (PODS, driver_pod("driver-kept")),
        (PODS, driver_pod("driver-forced", forced=True)),
        (PODS, driver_pod("driver-orphan", ownerReferences=[])),
        (PODS, driver_pod("driver-check", ownerReferences=[], labels=CHECK)),
        (PODS, driver_pod(EVICTED)),
        (DAEMONSETS, daemonset("gpu-driver-kept")),
        (DAEMONSETS, daemonset("gpu-driver-forced", **{names.FORCE: "true"})),
    ):
        answer = kube.create(path, body)
        assert answer.code == 201, answer.message
    for name, marks in (("driver-node", {}), ("driver-node-forced", {names.FORCE: "true"})):
        meta = {"name": name, "labels": {names.DRIVER_VARIANT: VARIANT}, "annotations": marks}
        assert kube.create("/api/v1/nodes", {"metadata": meta}).code == 201
    return kube


@pytest.mark.parametrize("path", [f"{PODS}/driver-kept", f"{PODS}/driver-orphan", f"{DAEMONSETS}/gpu-driver-kept"])
def test_what_has_a_driver_is_not_deleted_by_accident(drivers: harness.Kube, path: str) -> None:
    answer = drivers.delete(f"{path}?dryRun=All")

    assert answer.code == 403
    assert "would be unloaded under pods" in answer.message
    assert f"annotate it {names.FORCE}=true first" in answer.message


@pytest.mark.parametrize("pod", ["driver-forced", "driver-check"])
def test_what_is_meant_goes_and_so_does_what_has_no_driver(drivers: harness.Kube, pod: str) -> None:
    answer = drivers.delete(f"{PODS}/{pod}?dryRun=All")

    assert answer.code == 200, answer.message


@pytest.mark.parametrize("path", [f"{PODS}/driver-kept", f"{DAEMONSETS}/gpu-driver-kept"])
def test_the_process_itself_may(drivers: harness.Kube, path: str) -> None:
    answer = drivers.account(names.DRIVER_CONTROLLER).delete(f"{path}?dryRun=All")

    assert answer.code == 200, answer.message


CHANGES: list[tuple[str, dict[str, Any]]] = [
    (f"{PODS}/driver-{{}}", {"metadata": {"labels": {names.DRIVER_VARIANT: None}}}),
    (f"{PODS}/driver-{{}}", {"metadata": {"labels": {names.LABEL_COMPONENT: "another"}}}),
    (f"{PODS}/driver-{{}}/status", {"metadata": {"labels": {names.DRIVER_VARIANT: "another"}}}),
    (f"{PODS}/driver-{{}}", {"spec": {"activeDeadlineSeconds": 1}}),
    (f"{DAEMONSETS}/gpu-driver-{{}}", {"spec": {"template": {"spec": {"nodeSelector": {"x": "y"}}}}}),
    (f"{DAEMONSETS}/gpu-driver-{{}}", {"spec": {"updateStrategy": {"type": "RollingUpdate"}}}),
    (f"{DAEMONSETS}/gpu-driver-{{}}", {"metadata": {"labels": {names.LABEL_COMPONENT: None}}}),
]


@pytest.mark.parametrize(("path", "change"), CHANGES)
def test_nothing_is_changed_that_would_end_a_driver(drivers: harness.Kube, path: str, change: dict[str, Any]) -> None:
    kept, forced = (f"{path.format(name)}?dryRun=All" for name in ("kept", "forced"))
    answer = drivers.merge(kept, change)

    assert answer.code == 403
    assert "would be unloaded under pods" in answer.message
    assert f"to change it all the same, annotate it {names.FORCE}=true first" in answer.message
    assert drivers.merge(forced, change).code == 200


@pytest.mark.parametrize("path", [f"{PODS}/driver-kept", f"{DAEMONSETS}/gpu-driver-kept"])
def test_other_labels_and_annotations_are_peoples_own(drivers: harness.Kube, path: str) -> None:
    change = {"metadata": {"labels": {"x": "y"}, "annotations": {names.FORCE: "true"}}}
    answer = drivers.merge(f"{path}?dryRun=All", change)

    assert answer.code == 200, answer.message


def test_the_process_itself_changes_its_daemonsets(drivers: harness.Kube) -> None:
    change = {"spec": {"template": {"spec": {"nodeSelector": {"x": "y"}}}}}
    account = drivers.account(names.DRIVER_CONTROLLER)
    answer = account.merge(f"{DAEMONSETS}/gpu-driver-kept?dryRun=All", change)

    assert answer.code == 200, answer.message


def evict(user: harness.Kube | Someone, pod: str) -> harness.Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    return user.create(f"{PODS}/{pod}/eviction?dryRun=All", body)


def test_a_driver_is_not_evicted(drivers: harness.Kube) -> None:
    answer = evict(drivers, EVICTED)

    assert answer.code == 403
    assert "would be unloaded under pods" in answer.message
    assert f"annotate it {names.FORCE}=true, and delete it" in answer.message
    assert evict(drivers, "driver-check").code == 201


def trusted(kube: harness.Kube, user: str) -> Someone:
    """That user with every right of RBAC, which is not what is tested here."""
    groups = ("system:masters", *(("system:nodes",) if user.startswith("system:node:") else ()))
    return Someone(kube, user, groups)


@pytest.mark.parametrize("user", [*OF_THE_CLUSTER, "system:node:node-a"])
def test_the_pods_of_nodes_that_are_gone_go_as_all_others(drivers: harness.Kube, user: str) -> None:
    someone = trusted(drivers, user)

    assert evict(someone, EVICTED).code == 201
    for path in (f"{PODS}/driver-kept", f"{PODS}/driver-orphan", f"{DAEMONSETS}/gpu-driver-kept"):
        answer = someone.delete(f"{path}?dryRun=All")
        assert answer.code == 200, answer.message
    assert trusted(drivers, "joe").delete(f"{PODS}/driver-kept?dryRun=All").code == 403


@pytest.mark.parametrize("change", [None, "another"])
def test_the_label_of_a_node_is_not_changed_by_accident(drivers: harness.Kube, change: str | None) -> None:
    patch = {"metadata": {"labels": {names.DRIVER_VARIANT: change}}}
    answer = drivers.merge("/api/v1/nodes/driver-node?dryRun=All", patch)

    assert answer.code == 403
    assert f"{names.DRIVER_OPT_OUT}=true" in answer.message
    assert drivers.merge("/api/v1/nodes/driver-node-forced?dryRun=All", patch).code == 200
    assert drivers.account(names.DRIVER_CONTROLLER).merge("/api/v1/nodes/driver-node?dryRun=All", patch).code == 200


def test_other_changes_of_such_a_node_are_nobodys_business(drivers: harness.Kube) -> None:
    answer = drivers.merge("/api/v1/nodes/driver-node?dryRun=All", {"metadata": {"labels": {"x": "y"}}})

    assert answer.code == 200, answer.message
