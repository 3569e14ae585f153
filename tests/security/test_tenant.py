"""A tenant who may do everything in one namespace: what of the module that lets them reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import NODEFEATURE
from tests.kit.manifests import manifest
from tests.kit.reports import report
from tests.kit.versions import resizes
from tests.security.someone import Someone
from tests.templates.harness import FEATURES, GROUP, NAMESPACE, asking, eventually, pod

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


@resizes
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


def test_a_namespace_is_not_labelled_into_a_pool_whatever_rights_one_has(tenant: Someone) -> None:
    """A Role in a namespace can hold the right to write that Namespace."""
    admin, team = tenant.kube, TEAM
    selectors = {"matchLabels": {"team": "ml"}, "matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    for name, access in (("labelled", {"namespaceSelector": selectors}), ("open", {})):
        assert admin.create(f"{GROUP}/gpupools", made("GPUPool", name, spec={"access": access})).code == 201

    def labelled(who: Someone | harness.Kube, where: str = "", **labels: str | None) -> harness.Answer:
        return who.merge(f"{team}{where}?dryRun=All", {"metadata": {"labels": labels}})

    try:
        eventually(lambda: labelled(tenant, team="ml").code == 403, "the policy does not know the pool")
        for key in ("team", "zone"):
            answer = labelled(tenant, **{key: "ml"})
            assert f"label {key} decides who may use GPUPool labelled, and jane may not write every" in answer.message
        for where in ("/status", "/finalize"):
            body = {**admin.get(team).body, "apiVersion": "v1", "kind": "Namespace"}
            body["metadata"]["labels"] = {**body["metadata"]["labels"], "team": "ml"}
            assert tenant.call("PUT", f"{team}{where}?dryRun=All", body).code == 403, where
        assert labelled(tenant, other="x").code == 200
        assert labelled(admin, team="ml").code == 200
        assert admin.merge(f"{GROUP}/gpupools/labelled", {"spec": {"access": {"namespaceSelector": None}}}).code == 200
        eventually(lambda: labelled(tenant, team="ml").code == 200, "the policy still goes by the pool's old selector")
    finally:
        for name in ("labelled", "open"):
            admin.delete(f"{GROUP}/gpupools/{name}")


def test_namespaces_are_written_while_the_modules_crds_are_gone(tenant: Someone) -> None:
    """As at the end of an uninstallation; by a policy that fails closed nobody could write any namespace then."""
    admin, name = tenant.kube, "gpu-control-plane-namespace-labels"
    policies, bindings = (f"{HOOKS}/validatingadmission{kind}" for kind in ("policies", "policybindings"))
    policy, binding = (admin.get(f"{path}/{name}").body["spec"] for path in (policies, bindings))
    policy["paramKind"]["kind"] = "GPUPoolThatIsGone"
    assert policy.pop("failurePolicy") == "Ignore"

    def writes() -> set[int]:
        labels = {"metadata": {"labels": {"any": "thing"}}}
        return {who.merge(f"{TEAM}?dryRun=All", labels).code for who in (admin, tenant)}

    try:
        for path, spec in ((policies, policy), (bindings, {**binding, "policyName": "gone"})):
            assert admin.create(path, {"metadata": {"name": "gone"}, "spec": spec}).code == 201
        eventually(lambda: writes() == {422}, "a policy that fails closed refuses nobody without its CRD")
        assert admin.merge(f"{policies}/gone", {"spec": {"failurePolicy": "Ignore"}}).code == 200
        eventually(lambda: writes() == {200}, "a policy that fails open refuses without its CRD")
    finally:
        admin.delete(f"{bindings}/gone")
        admin.delete(f"{policies}/gone")
    eventually(lambda: writes() == {200}, "a policy that is gone refuses")


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


def test_no_pod_of_theirs_passes_for_a_nodes_driver(tenant: Someone, guarded: harness.Kube) -> None:
    """Else the node would get no driver of the module's; a privileged container, too, is asked for (api/foreign)."""
    labels = {names.DRIVER_ADOPTED: "true", "app.kubernetes.io/component": "nvidia-driver"}
    plain, meant = pod("plain-one"), pod("passes-for-a-driver")
    meant["metadata"]["labels"] = labels
    path = f"{TEAM}/pods"
    eventually(lambda: tenant.create(f"{path}?dryRun=All", meant).code == 403, "the policy is not in force")
    assert guarded.create(path, plain).code == 201

    binding = {"metadata": {"name": "plain-one", "labels": labels}, "target": {"kind": "Node", "name": "node-a"}}
    for answer in (
        tenant.create(f"{path}?dryRun=All", meant),
        tenant.merge(f"{path}/plain-one?dryRun=All", {"metadata": {"labels": labels}}),
        tenant.merge(f"{path}/plain-one/status?dryRun=All", {"metadata": {"labels": labels}}),
        tenant.create(f"{path}/plain-one/binding?dryRun=All", binding),
    ):
        assert answer.code == 403, answer.message
        assert "jane may not label every node" in answer.message
    assert guarded.merge(f"{path}/plain-one", {"metadata": {"labels": labels}}).code == 200
    other = {"metadata": {"labels": {"x": "y"}}}
    assert tenant.merge(f"{path}/plain-one?dryRun=All", other).code == 200, "what an administrator said hinders nobody"
    assert guarded.delete(f"{path}/plain-one").code == 200
