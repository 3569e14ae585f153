"""What a pod asks for after its creation: as then, whichever way it is changed, and with the webhook dead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.versions import resizes
from tests.templates.harness import asking, eventually, pod, stand_in, without_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.templates import harness

pytestmark = [pytest.mark.cluster, resizes]
PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"
CPU = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
MORE = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
EMPTY = {"name": "empty", "image": "none"}
ZEROS = {f"gpu.deckhouse.io/p{n}": "0" for n in range(20)}
SIDECAR = {"name": "sidecar", "image": "none", "restartPolicy": "Always"}


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "main", "image": "none", "resources": resources}


def both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Resources of both."""
    kinds = ("limits", "requests")
    return {kind: {**one.get(kind, {}), **other.get(kind, {})} for kind in kinds if kind in one or kind in other}


def wide(resources: dict[str, Any]) -> list[dict[str, Any]]:
    """A thousand containers."""
    return [{**container(**resources), "name": f"c{n}"} for n in range(1000)]


def resize(kube: harness.Kube, name: str, *containers: dict[str, Any], inits: Any = None) -> harness.Answer:
    """As `kubectl patch --subresource resize` does."""
    spec = {"containers": containers} if inits is None else {"initContainers": inits}
    return kube.call("PATCH", f"{PODS}/{name}/resize", {"spec": spec}, STRATEGIC)


@pytest.fixture(scope="module")
def pods(kube: harness.Kube) -> Iterator[harness.Kube]:
    """Pods that ask for nothing, and pods as the webhook admitted them to pool `a`."""
    gpu = both(asking(), CPU)
    made = (
        pod("plain"),
        pod("plain-sidecar", initContainers=[SIDECAR]),
        pod("busy", containers=[container(**CPU)]),
        pod("gpu", marks=True, containers=[container(**gpu), EMPTY], initContainers=[SIDECAR]),
        pod("bare", marks=True, containers=[container(**asking())]),
        pod("many", marks=True, containers=[container(**both(gpu, {"limits": ZEROS}))]),
        pod("wide", marks=True, containers=[*wide(gpu), EMPTY]),
        pod("zeros", marks=True, containers=[*wide({"limits": dict(list(ZEROS.items())[:2])}), EMPTY]),
    )
    with without_webhook(kube):
        try:
            for body in made:
                answer = kube.create(PODS, body)
                assert answer.code == 201, answer.message
            yield kube
        finally:
            for body in made:
                kube.delete(f"{PODS}/{body['metadata']['name']}?gracePeriodSeconds=0")


def test_a_pod_that_asked_for_nothing_gets_no_card_by_a_resize(pods: harness.Kube) -> None:
    answer = resize(pods, "plain", container(**asking(pool="secret")))
    assert answer.code == 403
    assert (
        "container main limits gpu.deckhouse.io/secret=1 was not requested when the pod was created" in answer.message
    )
    assert "create another pod that asks for what is needed" in answer.message
    answer = resize(pods, "plain-sidecar", inits=[{**SIDECAR, "resources": asking(pool="secret")}])
    assert answer.code == 403, answer.message
    assert "container sidecar limits gpu.deckhouse.io/secret=1" in answer.message
    assert pods.get(f"{PODS}/plain").body["spec"]["containers"][0]["resources"] == {}


@pytest.mark.parametrize("added", [asking(), asking(pool="secret"), asking("0", pool="secret"), asking("0")])
def test_a_pod_of_a_pool_gets_no_further_card_of_any(pods: harness.Kube, added: dict[str, Any]) -> None:
    for how in ("containers", "initContainers"):
        each = {**(EMPTY if how == "containers" else SIDECAR), "resources": added}
        body = {"spec": {how: [each]}}
        answer = pods.call("PATCH", f"{PODS}/gpu/resize", body, STRATEGIC)
        assert answer.code == 403, answer.message
        assert f"container {each['name']} limits" in answer.message


def test_a_dry_run_and_a_whole_pod_are_judged_alike(pods: harness.Kube) -> None:
    body = {"spec": {"containers": [container(**asking())]}}
    assert pods.call("PATCH", f"{PODS}/plain/resize?dryRun=All", body, STRATEGIC).code == 403
    whole = pods.get(f"{PODS}/plain").body
    whole["spec"]["containers"][0]["resources"] = asking()
    assert pods.call("PUT", f"{PODS}/plain/resize", whole).code == 403
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, **body}
    assert pods.apply(f"{PODS}/plain/resize", applied, "test").code == 403


@pytest.mark.parametrize("name", ["busy", "gpu"])
def test_cpu_is_resized_as_ever(pods: harness.Kube, name: str) -> None:
    for resources in (MORE, CPU):
        answer = resize(pods, name, container(**resources))
        assert answer.code == 200, answer.message
        found = pods.get(f"{PODS}/{name}").body["spec"]["containers"][0]["resources"]
        assert found["requests"]["cpu"] == resources["requests"]["cpu"]


def test_keys_in_another_order_are_no_change(pods: harness.Kube) -> None:
    for number in range(10):  # they come in any order
        answer = resize(pods, "many", container(**(MORE, CPU)[number % 2]))
        assert answer.code == 200, answer.message


@pytest.mark.parametrize("name", ["wide", "zeros"])
def test_a_thousand_containers_with_cards_are_within_what_expressions_may_cost(pods: harness.Kube, name: str) -> None:
    """Or nobody could take a finalizer off: what asks for a pool in many places is compared only where it changes."""
    for change in ({"labels": {"some": "label"}}, {"finalizers": ["example.com/one"]}, {"finalizers": None}):
        answer = pods.merge(f"{PODS}/{name}", {"metadata": change})
        assert answer.code == 200, answer.message
    answer = resize(pods, name, {**EMPTY, "resources": asking(pool="secret")})
    assert answer.code == 403
    assert "it asks in more than 64 places" in answer.message


def test_cpu_of_a_thousand_containers_with_cards_is_resized(pods: harness.Kube) -> None:
    answer = resize(pods, "wide", {**container(**MORE), "name": "c0"})
    assert answer.code == 200, answer.message


def test_what_else_changes_in_a_pod_with_cards_goes_on(pods: harness.Kube) -> None:
    assert pods.merge(f"{PODS}/gpu", {"metadata": {"labels": {"some": "label"}}}).code == 200
    image = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    assert pods.call("PATCH", f"{PODS}/gpu", image, STRATEGIC).code == 200
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "none"}]}}
    answer = pods.call("PATCH", f"{PODS}/gpu/ephemeralcontainers", debug, STRATEGIC)
    assert answer.code == 200, answer.message


# --- what Kubernetes refuses before the policy is asked --------------------------------------------

GROUP = "/apis/example.com/v1/namespaces/default/shapes"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
POLICY = "gpu-control-plane-pod-resize"


@pytest.fixture(scope="module")
def shapes(pods: harness.Kube) -> Iterator[harness.Kube]:
    """Objects of the form of pods that may change in every way, and the policy laid over them."""
    crd = stand_in("example.com", "shapes", "Shape", "v1")
    assert pods.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).code == 201
    for plural in (POLICIES, f"{POLICIES.removesuffix('ies')}ybindings"):
        body = pods.get(f"{plural}/{POLICY}").body
        body["metadata"] = {"name": "shapes"}
        body["spec"] |= {"policyName": "shapes"} if "policyName" in body["spec"] else {}
        if "matchConstraints" in body["spec"]:
            rule = {
                "apiGroups": ["example.com"],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": ["shapes"],
            }
            body["spec"]["matchConstraints"] = {"resourceRules": [rule]}
        assert pods.create(plural, body).code == 201
    before, after = shape(), shape(containers=[container(**asking())])
    eventually(lambda: pods.create(GROUP, before).code == 201, "shapes are not served")
    eventually(lambda: pods.merge(f"{GROUP}/x?dryRun=All", after).code == 403, "the copy is not in force")
    assert pods.delete(f"{GROUP}/x").code == 200
    yield pods
    for path in (f"{POLICIES}/shapes", f"{POLICIES.removesuffix('ies')}ybindings/shapes"):
        pods.delete(path)
    pods.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shapes.example.com")


def shape(**spec: Any) -> dict[str, Any]:
    made = {"containers": [container()], **spec}
    return {"apiVersion": "example.com/v1", "kind": "Shape", "metadata": {"name": "x"}, "spec": made}


ONE = shape(containers=[container(**asking())])
INIT = {"name": "init", "image": "none"}
SEVENTY = {"limits": {f"example.com/k{n}": "1" for n in range(70)}}
KEPT = "a container that names more than 64 resources keeps all of them as they are"
CHANGES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("a card more", ONE, shape(containers=[container(**asking("2"))]), "container main limits gpu.deckhouse.io/a=2"),
    ("none any more", ONE, shape(containers=[container(**asking("0"))]), "container main limits gpu.deckhouse.io/a=0"),
    ("another pool", ONE, shape(containers=[container(**asking(pool="b"))]), "gpu.deckhouse.io/b=1 was not requested"),
    ("gone", ONE, shape(), "gpu.deckhouse.io/a=1 was requested when the pod was created, and is missing now"),
    ("gone with its list", shape(initContainers=[{**INIT, "resources": asking()}]), shape(), "and is missing now"),
    ("a request", shape(), shape(containers=[container(requests=asking()["limits"])]), "container main requests gpu"),
    ("a container", ONE, shape(containers=[container(**asking()), {**EMPTY, "resources": asking()}]), "container em"),
    ("moved", shape(containers=[container(**asking()), EMPTY]),
     shape(containers=[container(), {**EMPTY, "resources": asking()}]), "container empty limits"),
    ("an init container", shape(), shape(initContainers=[{**INIT, "resources": asking()}]), "container init limits"),
    ("a card among many", shape(containers=[container(**SEVENTY)]),
     shape(containers=[container(**both(SEVENTY, asking()))]), KEPT),
    ("many with a card", shape(), shape(containers=[container(**both(SEVENTY, asking()))]), "64 resources was not"),
    ("another pool among many", shape(containers=[container(**both(SEVENTY, asking()))]),
     shape(containers=[container(**both(SEVENTY, asking(pool="b")))]), KEPT),
    ("few of many", shape(containers=[container(**both(SEVENTY, asking()))]), shape(), "of more than 64 resources"),
    ("many for debugging", shape(), shape(ephemeralContainers=[{**INIT, "resources": SEVENTY}]), "64 resources was"),
    ("for debugging", shape(), shape(ephemeralContainers=[{**INIT, "resources": asking()}]), "container init limits"),
]  # fmt: skip


@pytest.mark.parametrize(("was", "now", "told"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_whatever_a_container_asks_for_stays(
    shapes: harness.Kube, was: dict[str, Any], now: dict[str, Any], told: str
) -> None:
    """Each container, kind and quantity, also where no version of Kubernetes lets it change today."""
    assert shapes.create(GROUP, was).code == 201
    try:
        version = shapes.get(f"{GROUP}/x").body["metadata"]["resourceVersion"]
        body = {**now, "metadata": {"name": "x", "resourceVersion": version}}
        answer = shapes.call("PUT", f"{GROUP}/x", body)
        assert answer.code == 403, answer.message
        assert told in answer.message
    finally:
        shapes.delete(f"{GROUP}/x")


def test_a_pod_that_names_many_resources_changes_in_all_else(shapes: harness.Kube) -> None:
    assert shapes.create(GROUP, shape(containers=[container(**SEVENTY), EMPTY])).code == 201
    version = shapes.get(f"{GROUP}/x").body["metadata"]["resourceVersion"]
    now = shape(containers=[{**container(**SEVENTY), "image": "other"}, {**EMPTY, "resources": CPU}])
    answer = shapes.call("PUT", f"{GROUP}/x", {**now, "metadata": {"name": "x", "resourceVersion": version}})
    assert answer.code == 200, answer.message
    shapes.delete(f"{GROUP}/x")


def test_what_is_no_card_may_change(shapes: harness.Kube) -> None:
    was = shape(containers=[container(**both(asking(), CPU)), EMPTY], initContainers=[INIT])
    now = shape(
        containers=[container(**both(asking(), MORE)), {**EMPTY, "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        ephemeralContainers=[{"name": "debug", "image": "none"}],
    )
    assert shapes.create(GROUP, was).code == 201
    version = shapes.get(f"{GROUP}/x").body["metadata"]["resourceVersion"]
    answer = shapes.call("PUT", f"{GROUP}/x", {**now, "metadata": {"name": "x", "resourceVersion": version}})
    assert answer.code == 200, answer.message
    shapes.delete(f"{GROUP}/x")
