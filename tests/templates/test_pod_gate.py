"""Our scheduling gate: who takes it off a pod, and which pods may have it (policy gpu-control-plane-pod-gate)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from tests.security.someone import Someone
from tests.templates.harness import NAMESPACE, asking, eventually, pod, without_any_webhook
from tests.templates.queued import GATE, OTHER, PODS, patched, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.templates import harness

pytestmark = pytest.mark.cluster
RBAC = "/apis/rbac.authorization.k8s.io/v1"
UNGATED = {"spec": {"schedulingGates": None}}
REFUSED = "scheduling gate gpu.deckhouse.io/cards goes when gpu-control-plane has cards for the pod"


@pytest.fixture(scope="module")
def alone(kube: harness.Kube) -> Iterator[harness.Kube]:
    """Policies, and no webhook."""
    with without_any_webhook(kube):
        yield kube


@pytest.fixture(scope="module")
def tenant(alone: harness.Kube) -> Someone:
    """A person who may do everything with pods of one namespace."""
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["*"]}]
    _grant(alone, "namespaces/default/", "Role", "pods", rules, "joe")
    joe = Someone(alone, "joe")
    eventually(lambda: joe.get(PODS).code == 200, "the role is not in force")
    return joe


def _grant(kube: harness.Kube, where: str, kind: str, name: str, rules: list[Any], user: str) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    plural = "roles" if kind == "Role" else "clusterroles"
    meta = {"metadata": {"name": name}}
    assert kube.create(f"{RBAC}/{where}{plural}", {**meta, "rules": rules}).code == 201
    binding = {**meta, "roleRef": role, "subjects": [subject]}
    assert kube.create(f"{RBAC}/{where}{plural.removesuffix('s')}bindings", binding).code == 201


@pytest.fixture
def pods(alone: harness.Kube) -> Iterator[harness.Kube]:
    """Pod `waits`, which has our gate alone, and `waits-for-two`, which has another's, too."""
    made = {"waits": (GATE,), "waits-for-two": (GATE, OTHER)}
    for name, gates in made.items():
        answer = alone.create(PODS, waiting(name, *gates))
        assert answer.code == 201, answer.message
    yield alone
    for name in made:
        alone.delete(f"{PODS}/{name}?gracePeriodSeconds=0")


def gates(kube: harness.Kube, name: str) -> list[str]:
    return [gate["name"] for gate in kube.get(f"{PODS}/{name}").body["spec"].get("schedulingGates", ())]


def test_who_may_patch_pods_does_not_take_our_gate_off(pods: harness.Kube, tenant: Someone) -> None:
    for name, body in (("waits", UNGATED), ("waits-for-two", {"spec": {"schedulingGates": [OTHER]}})):
        answer = tenant.merge(f"{PODS}/{name}", body)
        assert answer.code == 403
        assert f"{REFUSED}, and joe may not let it past the queue of GPUPool a (verb release" in answer.message
        whole = {**pods.get(f"{PODS}/{name}").body, "apiVersion": "v1", "kind": "Pod"}
        whole["spec"]["schedulingGates"] = body["spec"]["schedulingGates"]
        assert tenant.call("PUT", f"{PODS}/{name}", whole).code == 403
    assert gates(pods, "waits") == [names.CARDS_GATE]


def test_nor_does_a_program_of_ours_that_has_no_business_there(pods: harness.Kube) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]
    user = f"system:serviceaccount:{NAMESPACE}:{names.WEBHOOK}"
    _grant(pods, "", "ClusterRole", "too-much", rules, user)
    webhook = Someone(pods, user)
    try:
        eventually(lambda: REFUSED in webhook.merge(f"{PODS}/waits", UNGATED).message, "the role is not in force")
        answer = webhook.merge(f"{PODS}/waits", {"metadata": {"labels": {"more": "x"}}})
        assert f"{names.WEBHOOK} may not change a label of Pod waits" in answer.message
    finally:
        pods.delete(f"{RBAC}/clusterrolebindings/too-much")
        pods.delete(f"{RBAC}/clusterroles/too-much")


def test_gates_of_others_are_theirs(pods: harness.Kube, tenant: Someone) -> None:
    answer = tenant.merge(f"{PODS}/waits-for-two", {"spec": {"schedulingGates": [GATE]}})
    assert answer.code == 200, answer.message
    assert gates(pods, "waits-for-two") == [names.CARDS_GATE]


def test_all_else_about_the_pod_goes_on(pods: harness.Kube, tenant: Someone) -> None:
    for body in (
        {"metadata": {"labels": {"some": "label"}, "finalizers": ["example.com/one"]}},
        {"metadata": {"finalizers": None}},
        {"spec": {"nodeSelector": {"zone": "a"}}},
    ):
        answer = tenant.merge(f"{PODS}/waits", body)
        assert answer.code == 200, answer.message
    assert tenant.merge(f"{PODS}/waits/status", {"status": {"message": "some"}}).code == 200
    assert tenant.delete(f"{PODS}/waits").code == 200


def test_with_the_verb_release_a_person_lets_a_pod_past_the_queue_of_that_pool(
    pods: harness.Kube, tenant: Someone
) -> None:
    def granted(pool: str) -> None:
        named = {"resourceNames": [pool], "resources": ["gpupools"], "verbs": [names.VERB_RELEASE]}
        _grant(pods, "", "ClusterRole", f"release-{pool}", [{"apiGroups": [names.GROUP], **named}], tenant.user)

    try:
        granted("other")
        assert tenant.merge(f"{PODS}/waits", UNGATED).code == 403
        granted("a")
        eventually(lambda: tenant.merge(f"{PODS}/waits", UNGATED).code == 200, "the verb is not in force")
        assert gates(pods, "waits") == []
        assert tenant.merge(f"{PODS}/waits-for-two", {"spec": {"schedulingGates": [OTHER]}}).code == 200
    finally:
        for pool in ("other", "a"):
            pods.delete(f"{RBAC}/clusterrolebindings/release-{pool}")
            pods.delete(f"{RBAC}/clusterroles/release-{pool}")


PLAIN = pod("gated", schedulingGates=[GATE])
NOTHING = waiting("gated")
NOTHING["spec"]["containers"][0]["resources"] = asking("0")
for key in ("labels", "annotations"):  # of a pod that asks for no card the webhook takes all marks
    del NOTHING["metadata"][key]
PROMISED = waiting("gated")
PROMISED["metadata"]["annotations"][names.DEVICES] = "card-a"


@pytest.mark.parametrize("body", [PLAIN, NOTHING, PROMISED], ids=["no cards", "quantity 0", "has cards already"])
def test_a_pod_that_nobody_would_release_is_not_created_with_our_gate(
    alone: harness.Kube, body: dict[str, Any]
) -> None:
    answer = alone.create(f"{PODS}?dryRun=All", body)
    assert answer.code == 403
    assert "this pod would wait for ever" in answer.message
    free = {**body, "spec": {**body["spec"], "schedulingGates": [OTHER]}}
    assert alone.create(f"{PODS}?dryRun=All", free).code == 201


def test_the_modules_own_pods_are_left_alone(alone: harness.Kube) -> None:
    alone.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    body = pod("gated", namespace=NAMESPACE, schedulingGates=[GATE])
    answer = alone.create(f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", body)
    assert answer.code == 201, answer.message


def test_a_pod_that_waits_for_cards_is_created_with_it(pods: harness.Kube) -> None:
    assert gates(pods, "waits") == [names.CARDS_GATE]
    assert patched(pods, "waits", [{"op": "test", "path": "/spec/schedulingGates", "value": [GATE]}]).code == 200
