"""Spot checks of what each identity may do, both ways, by the API server's own judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names

if TYPE_CHECKING:
    from tests.templates import harness

pytestmark = pytest.mark.cluster
OURS, ANYWHERE = "d8-gpu-operator", ""
GPU, NFD = "gpu.deckhouse.io", "nfd.k8s-sigs.io"
# identity: (verb, group, resource, subresource, namespace, name)
MAY = {
    "gpu-inventory-controller": [
        ("watch", "", "nodes", "", ANYWHERE, ""),
        ("list", NFD, "nodefeatures", "", ANYWHERE, ""),
        ("delete", GPU, "gpudevices", "", ANYWHERE, "x"),
        ("create", GPU, "gpunodeinventories", "", ANYWHERE, ""),
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
        ("create", NFD, "nodefeaturerules", "", ANYWHERE, "deckhouse-gpu-kernel-os"),
        ("create", "events.k8s.io", "events", "", "default", ""),
        ("get", "events.k8s.io", "events", "", "default", "x"),  # a repeated Event is counted, not made anew
        ("watch", "deckhouse.io", "moduleconfigs", "", ANYWHERE, "gpu-control-plane"),
        ("create", "coordination.k8s.io", "leases", "", OURS, ""),
        ("update", "coordination.k8s.io", "leases", "", OURS, "gpu-inventory-controller"),
    ],
    "gpu-bootstrap-controller": [
        ("patch", "", "nodes", "", ANYWHERE, "x"),
        ("patch", "", "nodes", "status", ANYWHERE, "x"),  # one condition; a policy allows no more
        ("create", "apps", "daemonsets", "", OURS, ""),
        ("patch", GPU, "gpunodeinventories", "status", ANYWHERE, "x"),
        ("patch", GPU, "gpudevices", "", ANYWHERE, "x"),  # an annotation; a policy allows no more
        ("patch", "", "configmaps", "", OURS, "x"),
        ("create", "node.k8s.io", "runtimeclasses", "", ANYWHERE, "nvidia"),
        ("list", "", "pods", "", ANYWHERE, ""),
        ("list", NFD, "nodefeatures", "", OURS, ""),
    ],
    "gpupool-controller": [
        ("patch", "", "nodes", "", ANYWHERE, "x"),
        ("patch", GPU, "gpudevices", "", ANYWHERE, "x"),
        ("patch", GPU, "gpupools", "", ANYWHERE, "x"),
        ("patch", GPU, "gpupools", "status", ANYWHERE, "x"),
        ("update", GPU, "gpupools", "finalizers", ANYWHERE, "x"),
        ("delete", "", "configmaps", "", OURS, "x"),
        ("delete", "apps", "daemonsets", "", OURS, "x"),
        ("watch", "", "pods", "", ANYWHERE, ""),
        # A scheduling gate and what goes with it, and one condition; a policy allows no more.
        ("patch", "", "pods", "", "default", "x"),
        ("patch", "", "pods", "status", "default", "x"),
    ],
    "gpu-driver-controller": [
        ("patch", "", "nodes", "", ANYWHERE, "x"),
        ("patch", GPU, "gpudrivers", "", ANYWHERE, "x"),  # a finalizer and an annotation; a policy allows no more
        ("patch", GPU, "gpudrivers", "status", ANYWHERE, "x"),
        ("patch", GPU, "gpunodeinventories", "status", ANYWHERE, "x"),
        ("watch", GPU, "gpudevices", "", ANYWHERE, ""),
        ("list", NFD, "nodefeatures", "", OURS, ""),
        ("list", "", "pods", "", ANYWHERE, ""),  # who uses a node's cards
        ("create", "", "pods", "eviction", ANYWHERE, "x"),
        ("list", "resource.k8s.io", "resourceclaims", "", ANYWHERE, ""),
        ("list", GPU, "gpupools", "", ANYWHERE, ""),  # how far a pool may be disrupted
        ("create", "", "pods", "", OURS, ""),  # which look at a node before anything starts there
        ("delete", "", "pods", "", OURS, "x"),
        ("create", "apps", "daemonsets", "", OURS, ""),
        ("delete", "apps", "daemonsets", "", OURS, "x"),
        ("patch", "", "configmaps", "", OURS, "x"),
        ("update", "coordination.k8s.io", "leases", "", OURS, "gpu-driver-controller"),
    ],
    "gpu-console": [
        ("list", "", "pods", "", ANYWHERE, ""),
        ("watch", "", "nodes", "", ANYWHERE, ""),
        ("list", GPU, "gpudevices", "", ANYWHERE, ""),
        ("watch", GPU, "gpudrivers", "", ANYWHERE, ""),
        ("create", "authentication.k8s.io", "tokenreviews", "", ANYWHERE, ""),
        ("create", "authorization.k8s.io", "subjectaccessreviews", "", ANYWHERE, ""),
    ],
    "gpu-admission-webhook": [
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
        ("get", GPU, "gpunodeinventories", "", ANYWHERE, "x"),
        ("create", "authorization.k8s.io", "subjectaccessreviews", "", ANYWHERE, ""),
        ("create", "", "secrets", "", OURS, ""),
        ("patch", "", "secrets", "", OURS, "gpu-admission-webhook-tls"),
        ("watch", "", "secrets", "", OURS, "gpu-admission-webhook-tls"),
        ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ANYWHERE, "gpu-control-plane"),
        ("list", "", "namespaces", "", ANYWHERE, ""),
        ("get", "coordination.k8s.io", "leases", "", OURS, "gpu-admission-webhook"),
    ],
    "gpu-nodeagent-discover": [
        ("create", NFD, "nodefeatures", "", OURS, ""),
    ],
    "gpu-nodeagent-validate": [
        ("patch", NFD, "nodefeatures", "", OURS, "x"),
        ("watch", NFD, "nodefeatures", "", OURS, ""),
    ],
    "gpu-nodeagent-toolkit": [
        ("get", "", "nodes", "", ANYWHERE, "x"),
        ("get", GPU, "gpunodeinventories", "", ANYWHERE, "x"),
        ("get", "apps", "daemonsets", "", OURS, "gpu-toolkit"),
    ],
    "gpu-nodeagent-device-plugin": [
        ("watch", "", "configmaps", "", OURS, ""),
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
        ("list", "", "pods", "", ANYWHERE, ""),
        ("watch", GPU, "gpudevices", "", ANYWHERE, ""),
        ("get", "", "nodes", "", ANYWHERE, "x"),
    ],
    "gpu-nodeagent-mig": [
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
        ("list", "", "configmaps", "", OURS, ""),
        ("watch", "", "pods", "", OURS, ""),
        ("get", "", "nodes", "", ANYWHERE, "x"),
    ],
    "gpu-nfd-coverage": [
        ("list", "", "nodes", "", ANYWHERE, ""),
        ("list", NFD, "nodefeatures", "", ANYWHERE, ""),
        ("get", NFD, "nodefeaturerules", "", ANYWHERE, "deckhouse-gpu-kernel-os"),
        ("list", GPU, "gpudevices", "", ANYWHERE, ""),
        ("list", GPU, "gpunodeinventories", "", ANYWHERE, ""),
    ],
}  # fmt: skip
EVERYONE_MAY_NOT = [
    ("get", "", "secrets", "", "kube-system", "x"),
    ("list", "", "secrets", "", OURS, ""),
    ("get", "", "secrets", "", OURS, "another"),
    ("create", "", "pods", "", OURS, ""),
    ("delete", "", "pods", "", "default", "x"),
    ("patch", "", "pods", "", "default", "x"),
    ("patch", "", "pods", "status", "default", "x"),
    ("update", "", "pods", "", "default", "x"),
    ("create", "", "pods", "exec", "default", "x"),
    ("release", GPU, "gpupools", "", ANYWHERE, "x"),
    ("delete", "", "nodes", "", ANYWHERE, "x"),
    ("create", "apps", "daemonsets", "", "default", ""),
    ("create", "", "configmaps", "", "default", ""),
    ("delete", GPU, "gpupools", "", ANYWHERE, "x"),
    ("create", GPU, "gpupools", "", ANYWHERE, ""),
    ("update", GPU, "gpupools", "", ANYWHERE, "x"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", ANYWHERE, "x"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", "", ANYWHERE, "x"),
    ("impersonate", "", "users", "", ANYWHERE, "x"),
    ("update", "coordination.k8s.io", "leases", "", OURS, "another"),
    ("create", "coordination.k8s.io", "leases", "", "kube-system", ""),
    ("create", NFD, "nodefeatures", "", "default", ""),
    ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ANYWHERE, ""),
    ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ANYWHERE, "another"),
    ("delete", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ANYWHERE, "gpu-control-plane"),
    ("patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", ANYWHERE, "x"),
]
MAY_NOT = {
    "gpu-inventory-controller": [
        ("patch", "", "nodes", "", ANYWHERE, "x"),
        ("list", "", "pods", "", ANYWHERE, ""),
        ("patch", GPU, "gpupools", "status", ANYWHERE, "x"),
        ("create", "apps", "daemonsets", "", OURS, ""),
        ("update", "coordination.k8s.io", "leases", "", OURS, "gpupool-controller"),
    ],
    "gpu-bootstrap-controller": [
        ("update", "", "nodes", "", ANYWHERE, "x"),
        ("create", GPU, "gpudevices", "", ANYWHERE, ""),
        ("delete", GPU, "gpudevices", "", ANYWHERE, "x"),
        ("patch", "", "configmaps", "", ANYWHERE, "x"),
        ("create", "apps", "daemonsets", "", ANYWHERE, ""),
        ("delete", "", "pods", "", ANYWHERE, "x"),
        ("patch", GPU, "gpupools", "status", ANYWHERE, "x"),
    ],
    "gpupool-controller": [
        ("create", GPU, "gpudevices", "", ANYWHERE, ""),
        ("delete", GPU, "gpudevices", "", ANYWHERE, "x"),
        ("list", NFD, "nodefeatures", "", ANYWHERE, ""),
    ],
    "gpu-driver-controller": [
        ("update", "", "nodes", "", ANYWHERE, "x"),
        ("delete", "", "pods", "", ANYWHERE, "x"),  # who has cards of a node is asked by evictions alone
        ("patch", "", "pods", "", ANYWHERE, "x"),
        ("delete", GPU, "gpudrivers", "", ANYWHERE, "x"),
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
        ("patch", GPU, "gpupools", "status", ANYWHERE, "x"),
        ("create", GPU, "gpunodeinventories", "", ANYWHERE, ""),
        ("get", "", "secrets", "", OURS, "x"),
    ],
    "gpu-console": [
        ("patch", GPU, "gpudevices", "", ANYWHERE, "x"),  # cards are assigned with the viewer's own token
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
        ("get", "", "secrets", "", OURS, "x"),
        ("impersonate", "", "users", "", ANYWHERE, "x"),
        ("create", "events.k8s.io", "events", "", "default", ""),
        ("get", "", "pods", "log", ANYWHERE, "x"),
    ],
    "gpu-admission-webhook": [
        ("patch", GPU, "gpudevices", "", ANYWHERE, "x"),
        ("patch", GPU, "gpupools", "status", ANYWHERE, "x"),
        ("patch", "", "nodes", "", ANYWHERE, "x"),
        ("list", NFD, "nodefeatures", "", ANYWHERE, ""),
        ("delete", "", "secrets", "", OURS, "gpu-admission-webhook-tls"),
    ],
    "gpu-nodeagent-discover": [
        ("delete", NFD, "nodefeatures", "", OURS, "x"),
        ("get", "", "nodes", "", ANYWHERE, "x"),
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
        ("get", "", "configmaps", "", OURS, "x"),
    ],
    "gpu-nodeagent-validate": [
        ("create", NFD, "nodefeatures", "", OURS, ""),
        ("get", "", "nodes", "", ANYWHERE, "x"),
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
    ],
    "gpu-nodeagent-toolkit": [
        ("list", "", "nodes", "", ANYWHERE, ""),
        ("patch", "", "nodes", "", ANYWHERE, "x"),
        ("list", GPU, "gpunodeinventories", "", ANYWHERE, ""),
        ("patch", GPU, "gpunodeinventories", "status", ANYWHERE, "x"),
        ("get", "apps", "daemonsets", "", OURS, "gpu-dcgm"),
        ("patch", "apps", "daemonsets", "", OURS, "gpu-toolkit"),
        ("patch", NFD, "nodefeatures", "", OURS, "x"),
    ],
    "gpu-nodeagent-device-plugin": [
        ("patch", GPU, "gpudevices", "", ANYWHERE, "x"),
        ("patch", "", "configmaps", "", OURS, "x"),
        ("get", "", "configmaps", "", OURS, "x"),
        ("list", "", "nodes", "", ANYWHERE, ""),
        ("patch", "", "pods", "", ANYWHERE, "x"),
        ("patch", NFD, "nodefeatures", "", OURS, "x"),
    ],
    "gpu-nodeagent-mig": [
        ("list", "", "pods", "", ANYWHERE, ""),
        ("list", "", "nodes", "", ANYWHERE, ""),
        ("get", "", "configmaps", "", OURS, "x"),
        ("patch", "", "configmaps", "", OURS, "x"),
    ],
    "gpu-nfd-coverage": [
        ("patch", "", "nodes", "", ANYWHERE, "x"),
        ("list", "", "pods", "", ANYWHERE, ""),
        ("patch", NFD, "nodefeatures", "", OURS, "x"),
        ("patch", NFD, "nodefeaturerules", "", ANYWHERE, "x"),
        ("create", GPU, "gpudevices", "", ANYWHERE, ""),
        ("patch", GPU, "gpudevices", "status", ANYWHERE, "x"),
        ("delete", GPU, "gpunodeinventories", "", ANYWHERE, "x"),
        ("list", GPU, "gpupools", "", ANYWHERE, ""),
        ("create", "events.k8s.io", "events", "", "default", ""),
        ("create", "coordination.k8s.io", "leases", "", OURS, ""),
    ],
}


def allowed(kube: harness.Kube, who: str, question: tuple[str, str, str, str, str, str]) -> bool:
    """Ask as `kubectl auth can-i` does."""
    keys = ("verb", "group", "resource", "subresource", "namespace", "name")
    user = f"system:serviceaccount:{OURS}:{who}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{OURS}", "system:authenticated"]
    spec = {"user": user, "groups": groups, "resourceAttributes": dict(zip(keys, question, strict=True))}
    answer = kube.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert answer.code == 201, answer.message
    return bool(answer.body["status"]["allowed"])


@pytest.mark.parametrize("who", MAY)
def test_may(kube: harness.Kube, who: str) -> None:
    assert [q for q in MAY[who] if not allowed(kube, who, q)] == []


@pytest.mark.parametrize("who", MAY)
def test_may_not(kube: harness.Kube, who: str) -> None:
    questions = [q for q in EVERYONE_MAY_NOT if q not in MAY[who]] + MAY_NOT[who]
    assert [q for q in questions if allowed(kube, who, q)] == []


@pytest.mark.parametrize(
    ("level", "may"), [("user", False), ("cluster-editor", False), ("cluster-admin", True), ("edit", True)]
)
def test_an_administrator_lets_a_pod_past_a_queue_and_a_tenant_does_not(
    kube: harness.Kube, level: str, may: bool
) -> None:
    prefix = "d8:manage:permission:module" if level == "edit" else "d8:user-authz"
    role = kube.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{prefix}:gpu-control-plane:{level}").body
    given = {(verb, kind) for rule in role["rules"] for verb in rule["verbs"] for kind in rule["resources"]}
    assert given
    assert ((names.VERB_RELEASE, "gpupools") in given) == may


def test_kubectl_gives_the_same_answer(kube: harness.Kube) -> None:
    who = f"--as=system:serviceaccount:{OURS}:gpu-inventory-controller"
    assert kube.kubectl("auth", "can-i", "list", "nodes", who).stdout.strip() == "yes"
    assert kube.kubectl("auth", "can-i", "patch", "nodes", who).stdout.strip() == "no"
