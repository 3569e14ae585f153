"""A tenant who may do everything in one namespace: what of the module that lets them reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import NODEFEATURE
from tests.kit.manifests import manifest
from tests.kit.reports import report
from tests.security.someone import Someone
from tests.templates.harness import FEATURES, GROUP, NAMESPACE, asking, pod

if TYPE_CHECKING:
    from tests.templates import harness

pytestmark = pytest.mark.cluster
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
OURS = f"/api/v1/namespaces/{NAMESPACE}"
TEAM = "/api/v1/namespaces/default"
ASSIGN = {"metadata": {"annotations": {names.ASSIGNMENT: "a"}}}
TAKEN = {"status": {"state": "Assigned", "reservations": []}}


@pytest.fixture(scope="module")
def tenant(guarded: harness.Kube) -> Someone:
    """A person with every right that a Role can give, in one namespace."""
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    assert guarded.create(
        f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "all"}, "rules": [everything]}
    ).code in {201, 409}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    binding = {"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]}
    assert guarded.create(f"{RBAC}/namespaces/default/rolebindings", binding).code in {201, 409}
    return Someone(guarded, "jane")


def made(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": kind, "metadata": {"name": name}, **rest}


REACHES_FOR: list[tuple[str, str, object]] = [
    ("PATCH", f"{GROUP}/gpudevices/card-a", ASSIGN),
    ("PATCH", f"{GROUP}/gpudevices/card-a/status", TAKEN),
    ("POST", f"{GROUP}/gpudevices", made("GPUDevice", "forged")),
    ("DELETE", f"{GROUP}/gpudevices/card-a", None),
    ("GET", f"{GROUP}/gpudevices", None),
    ("PATCH", f"{GROUP}/gpunodeinventories/node-a/status", {"status": {"driver": {"version": "1"}}}),
    ("POST", f"{GROUP}/gpupools", made("GPUPool", "mine", spec={})),
    ("PATCH", f"{GROUP}/gpupools/pool-a", {"spec": {"access": {"namespaces": ["default"]}}}),
    ("PATCH", f"{GROUP}/gpupools/pool-a/status", {"status": {"appliedAllocation": {"mode": "TimeSlice"}}}),
    ("DELETE", f"{GROUP}/gpupools/pool-a", None),
    ("POST", FEATURES, manifest(report("node-a", None), NODEFEATURE)),
    ("PATCH", "/apis/deckhouse.io/v1alpha1/moduleconfigs/gpu-control-plane", {"spec": {"enabled": False}}),
    ("PATCH", f"{HOOKS}/mutatingwebhookconfigurations/gpu-control-plane", {"webhooks": []}),
    ("DELETE", f"{HOOKS}/validatingadmissionpolicybindings/gpu-control-plane-pod-marks", None),
    ("PATCH", "/api/v1/nodes/node-a", {"metadata": {"labels": {names.pool_node_label("a"): ""}}}),
    ("PATCH", f"{OURS}/configmaps/gpu-device-plugin-a", {"data": {names.ALLOWED_DEVICES: ""}}),
    ("GET", f"{OURS}/secrets/{names.WEBHOOK_SECRET}", None),
    ("GET", f"{OURS}/secrets", None),
    ("POST", f"{OURS}/pods", pod("x", namespace=NAMESPACE, serviceAccountName=names.BOOTSTRAP)),
    ("POST", f"{OURS}/serviceaccounts/{names.POOL_CONTROLLER}/token", {"spec": {}}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), REACHES_FOR, ids=lambda v: v if isinstance(v, str) else "")
def test_nothing_of_the_module_is_within_reach(tenant: Someone, method: str, path: str, body: object) -> None:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = tenant.call(method, path, body, kind)
    assert answer.code == 403, answer.message
    assert 'User "jane" cannot' in answer.message


def test_in_their_own_namespace_they_do_what_they_like(tenant: Someone) -> None:
    """Otherwise the refusals above would say nothing."""
    assert tenant.create(f"{TEAM}/pods?dryRun=All", pod("x")).code == 201
    assert tenant.get(f"{TEAM}/secrets").code == 200


def test_a_resize_brings_no_card_whatever_rights_one_has(tenant: Someone) -> None:
    assert tenant.create(f"{TEAM}/pods", pod("sneak")).code == 201
    try:
        body = {"spec": {"containers": [{"name": "main", "resources": asking(pool="secret")}]}}
        kind = "application/strategic-merge-patch+json"
        answer = tenant.call("PATCH", f"{TEAM}/pods/sneak/resize", body, kind)
        assert answer.code == 403
        assert "was not requested when the pod was created" in answer.message
    finally:
        tenant.delete(f"{TEAM}/pods/sneak?gracePeriodSeconds=0")


def test_another_pods_marks_are_refused_whatever_rights_one_has(tenant: Someone) -> None:
    body = pod("thief")
    body["metadata"]["annotations"] = {names.REQUEST_ID: "of-another"}
    answer = tenant.create(f"{TEAM}/pods?dryRun=All", body)
    assert answer.code == 403
    assert "leave them out" in answer.message
    assert tenant.create(f"{TEAM}/pods", pod("later")).code == 201
    try:
        change = {"metadata": {"annotations": {names.REQUEST_ID: "of-another"}}}
        for where in ("", "/status"):
            answer = tenant.merge(f"{TEAM}/pods/later{where}?dryRun=All", change)
            assert answer.code == 403, where
            assert "do not change after its creation" in answer.message
        bind = {"metadata": {"name": "later", **change["metadata"]}, "target": {"kind": "Node", "name": "node-a"}}
        assert tenant.create(f"{TEAM}/pods/later/binding", bind).code == 403
    finally:
        tenant.delete(f"{TEAM}/pods/later?gracePeriodSeconds=0")
