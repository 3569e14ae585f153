"""Who may take a driver from under pods: nobody by accident, and who says first that it is meant."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from tests.templates import harness

pytestmark = pytest.mark.cluster
PODS = f"/api/v1/namespaces/{harness.NAMESPACE}/pods"
DAEMONSETS = f"/apis/apps/v1/namespaces/{harness.NAMESPACE}/daemonsets"
VARIANT = "3f2a91c07b-ubuntu24.04-any"
LABELS = {names.LABEL_DRIVER: "main", names.DRIVER_VARIANT: VARIANT}
CONTAINERS = [{"name": "main", "image": "none"}]
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gpu-driver", "uid": "x"}


def driver_pod(name: str, *, forced: bool = False, **meta: Any) -> dict[str, Any]:
    marks = {"annotations": {names.FORCE: "true"}} if forced else {}
    metadata = {"name": name, "labels": LABELS, "ownerReferences": [OWNER], **marks, **meta}
    return {"metadata": metadata, "spec": {"containers": CONTAINERS, "serviceAccountName": names.BOOTSTRAP}}


def daemonset(name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
    spec = {"selector": {"matchLabels": LABELS}, "template": template}
    return {"metadata": {"name": name, "labels": LABELS}, "spec": spec}


@pytest.fixture(scope="module")
def drivers(kube: harness.Kube) -> harness.Kube:
    for path, body in (
        (PODS, driver_pod("driver-kept")),
        (PODS, driver_pod("driver-forced", forced=True)),
        (PODS, driver_pod("driver-check", ownerReferences=[])),
        (DAEMONSETS, daemonset("gpu-driver-kept")),
    ):
        answer = kube.create(path, body)
        assert answer.code == 201, answer.message
    for name, marks in (("driver-node", {}), ("driver-node-forced", {names.FORCE: "true"})):
        meta = {"name": name, "labels": {names.DRIVER_VARIANT: VARIANT}, "annotations": marks}
        assert kube.create("/api/v1/nodes", {"metadata": meta}).code == 201
    return kube


@pytest.mark.parametrize("path", [f"{PODS}/driver-kept", f"{DAEMONSETS}/gpu-driver-kept"])
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
