"""What pods meet: nothing, unless they ask for cards or carry our marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import gangs
from tests.templates.harness import asking, pod, without_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.templates import harness

pytestmark = pytest.mark.cluster
PODS = "/api/v1/namespaces/default/pods"
REQUEST = "gpu.deckhouse.io/request-id"
MARKS = {
    "labels": {"gpu.deckhouse.io/pool": "a"},
    "annotations": {
        "gpu.deckhouse.io/request-id": "r", "gpu.deckhouse.io/devices": "d", "gpu.deckhouse.io/requested-by": "{}",
    },
}  # fmt: skip


def container(**parts: Any) -> dict[str, Any]:
    return {"name": "main", "image": "none", **parts}


PLAIN = {
    "no resources": pod("p", containers=[container()]),
    "empty resources": pod("p", containers=[container(resources={})]),
    "empty limits": pod("p", containers=[container(resources={"limits": {}, "requests": {}})]),
    "null limits": pod("p", containers=[container(resources={"limits": None})]),
    "null resources": pod("p", containers=[container(resources=None)]),
    "other resources": pod("p", containers=[container(resources={"limits": {"cpu": "1", "nvidia.com/gpu": "1"}})]),
    "a name that only looks alike": pod(
        "p", containers=[container(resources={"limits": {"xgpu.deckhouse.io/a": "1", "gpu.deckhouse.io.x/a": "1"}})]
    ),
    "null init containers": pod("p", initContainers=None),
    "no init containers": pod("p", initContainers=[]),
    "plain init containers": pod("p", initContainers=[{"name": "i", "image": "none"}]),
    "other labels": {**pod("p"), "metadata": {"name": "p", "labels": {"gpu.deckhouse.io/other": "a"}}},
    "null labels": {**pod("p"), "metadata": {"name": "p", "labels": None, "annotations": None}},
    "generated name": {**pod("p"), "metadata": {"generateName": "p-"}},
    "overhead and volumes": pod("p", volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"operator": "Exists"}]),
}  # fmt: skip


@pytest.mark.parametrize("body", PLAIN.values(), ids=PLAIN.keys())
def test_other_pods_are_left_alone_with_the_webhook_dead(kube: harness.Kube, body: dict[str, Any]) -> None:
    answer = kube.create(PODS, body)
    assert answer.code == 201, answer.message
    assert answer.warnings == []
    name = answer.body["metadata"]["name"]
    assert kube.merge(f"{PODS}/{name}", {"metadata": {"labels": {"some": "label"}}}).code == 200
    assert kube.merge(f"{PODS}/{name}/status", {"status": {"message": "some"}}).code == 200
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "none"}]}}
    answer = kube.call("PATCH", f"{PODS}/{name}/ephemeralcontainers", debug, "application/strategic-merge-patch+json")
    assert answer.code == 200, answer.message
    assert kube.delete(f"{PODS}/{name}?gracePeriodSeconds=0").code == 200


def test_a_pod_without_containers_is_refused_for_that_only(kube: harness.Kube) -> None:
    for spec in ({}, {"containers": None}, {"containers": []}):
        answer = kube.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
        assert answer.code == 422, answer.message
        assert "spec.containers" in answer.message


REQUESTS = {"requests": {"gpu.deckhouse.io/a": "1"}}
INIT = {"name": "i", "image": "none", "resources": asking()}
ASKING = {
    "limits": pod("g", containers=[container(resources=asking())]),
    "quantity 0": pod("g", containers=[container(resources=asking("0"))]),
    "requests and limits": pod("g", containers=[container(resources={**asking(), **REQUESTS})]),
    "requests only": pod("g", containers=[container(resources=REQUESTS)]),
    "the second container": pod("g", containers=[container(), {"name": "b", "image": "none", "resources": asking()}]),
    "an init container": pod("g", initContainers=[INIT]),
    "a sidecar": pod("g", initContainers=[{**INIT, "restartPolicy": "Always"}]),
}


@pytest.mark.parametrize("body", ASKING.values(), ids=ASKING.keys())
@pytest.mark.parametrize("query", ["", "?dryRun=All"])
def test_gpu_pods_wait_for_the_webhook(kube: harness.Kube, body: dict[str, Any], query: str) -> None:
    answer = kube.create(PODS + query, body)
    assert answer.code == 500
    assert 'failed calling webhook "pods.gpu.deckhouse.io"' in answer.message


MARKED = {
    "label": {"labels": MARKS["labels"]},
    "empty label": {"labels": {"gpu.deckhouse.io/pool": ""}},
    "request-id": {"annotations": {"gpu.deckhouse.io/request-id": "r"}},
    "devices": {"annotations": {"gpu.deckhouse.io/devices": "d"}},
    "requested-by": {"annotations": {"gpu.deckhouse.io/requested-by": "{}"}},
}


@pytest.mark.parametrize("marks", MARKED.values(), ids=MARKED.keys())
def test_marks_need_a_request(kube: harness.Kube, marks: dict[str, Any]) -> None:
    body = pod("p")
    body["metadata"] |= marks
    answer = kube.create(PODS, body)
    assert answer.code == 403
    assert "leave them out" in answer.message


@pytest.mark.parametrize("marks", MARKED.values(), ids=MARKED.keys())
@pytest.mark.parametrize("subresource", ["", "/status"])
def test_marks_do_not_come_later(kube: harness.Kube, marks: dict[str, Any], subresource: str) -> None:
    assert kube.create(PODS, pod("later")).code == 201
    try:
        answer = kube.merge(f"{PODS}/later{subresource}", {"metadata": marks})
        assert answer.code == 403
        assert "do not change after its creation" in answer.message
    finally:
        kube.delete(f"{PODS}/later?gracePeriodSeconds=0")


def test_operands_of_a_pool_carry_its_label(kube: harness.Kube) -> None:
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    kube.create("/api/v1/namespaces/d8-gpu-operator/serviceaccounts", account)
    body = pod("operand", namespace="d8-gpu-operator")
    body["metadata"]["labels"] = MARKS["labels"]
    answer = kube.create("/api/v1/namespaces/d8-gpu-operator/pods?dryRun=All", body)
    assert answer.code == 201, answer.message


@pytest.fixture
def marked(kube: harness.Kube) -> Iterator[harness.Kube]:
    """A pod `g` as the webhook leaves it; made while no webhook is configured."""
    with without_webhook(kube):
        body = pod("g", marks=True, containers=[container(resources=asking())])
        body["metadata"] |= MARKS
        assert kube.create(PODS, body).code == 201
        yield kube
        kube.delete(f"{PODS}/g?gracePeriodSeconds=0")


@pytest.mark.parametrize("key", sorted(gangs.KEYS))
@pytest.mark.parametrize("kind", ["labels", "annotations"])
@pytest.mark.parametrize("subresource", ["", "/status"])
def test_no_pod_comes_into_a_gang_later(marked: harness.Kube, key: str, kind: str, subresource: str) -> None:
    """A running one would take those of the gang past the queue."""
    answer = marked.merge(f"{PODS}/g{subresource}", {"metadata": {kind: {key: "2"}}})
    assert answer.code == 403
    assert "name the gang of a pod do not change" in answer.message


def test_marks_stay_as_they_are(marked: harness.Kube) -> None:
    for kind, entries in MARKS.items():
        for key in entries:
            for value in ("other", None):
                for subresource in ("", "/status"):
                    answer = marked.merge(f"{PODS}/g{subresource}", {"metadata": {kind: {key: value}}})
                    assert answer.code == 403, (kind, key, value, subresource)
                    assert "do not change" in answer.message
    # All else about the pod goes on.
    for patch in (
        {"metadata": {"labels": {"some": "label"}, "annotations": {"some": "annotation"}}},
        {"metadata": {"finalizers": ["example.com/one"]}},
        {"metadata": {"finalizers": None}},
    ):
        assert marked.merge(f"{PODS}/g", patch).code == 200
    assert marked.merge(f"{PODS}/g/status", {"status": {"phase": "Running"}}).code == 200
    # These subresources keep the pod's metadata; only what they are for is written.
    for subresource, spec in (
        ("ephemeralcontainers", {"ephemeralContainers": [{"name": "debug", "image": "none"}]}),
        ("resize", {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}),
    ):
        patch = {"metadata": {"labels": {"gpu.deckhouse.io/pool": "b"}, "annotations": {REQUEST: "x"}}, "spec": spec}
        kind = "application/strategic-merge-patch+json"
        marked.call("PATCH", f"{PODS}/g/{subresource}", patch, kind)
        meta = marked.get(f"{PODS}/g").body["metadata"]
        assert (meta["labels"]["gpu.deckhouse.io/pool"], meta["annotations"][REQUEST]) == ("a", "r"), subresource
    # A Binding's metadata is laid over the pod's.
    bind = {"metadata": {"name": "g"}, "target": {"kind": "Node", "name": "node-a"}}
    for path in (f"{PODS}/g/binding", "/api/v1/namespaces/default/bindings"):
        for marks in MARKED.values():
            answer = marked.create(path, {**bind, "metadata": {"name": "g", **marks}})
            assert answer.code == 403, (path, marks)
            assert "nor by a Binding" in answer.message
    plain = {**bind, "metadata": {"name": "g", "annotations": {"some": "annotation"}}}
    assert marked.create(f"{PODS}/g/binding", plain).code == 201
    meta = marked.get(f"{PODS}/g").body["metadata"]
    assert (meta["annotations"]["some"], meta["annotations"][REQUEST]) == ("annotation", "r")


def test_what_is_asked_for_behind_the_webhooks_back_is_refused(marked: harness.Kube) -> None:
    """As if another mutating webhook had added it: none of ours is called here."""
    for word, body in ASKING.items():
        answer = marked.create(f"{PODS}?dryRun=All", {**body, "metadata": {"name": "late"}})
        if word == "quantity 0":
            assert answer.code == 201, answer.message
        elif word == "requests only":
            assert answer.code == 422, "Kubernetes itself wants a limit"
        else:
            assert answer.code == 403, word
            assert "asks for gpu.deckhouse.io/a, which gpu-admission-webhook did not see" in answer.message
    other = pod("late", marks=True, containers=[container(resources={"limits": {"gpu.deckhouse.io/b": "1"}})])
    assert marked.create(f"{PODS}?dryRun=All", other).code == 403
    two = {"limits": {"gpu.deckhouse.io/a": "1", "gpu.deckhouse.io/b": "1"}}
    for parts in ({"containers": [container(resources=two)]}, {"initContainers": [{**INIT, "resources": two}]}):
        for _ in range(10):  # the keys come in any order
            answer = marked.create(f"{PODS}?dryRun=All", pod("late", marks=True, **parts))
            assert answer.code == 403, parts
            assert "asks for gpu.deckhouse.io/b, which gpu-admission-webhook did not see" in answer.message
    # A pool of a mixed layout has a resource for each profile; a pod asks for one of them.
    for profiles, code in ((["a.1g.10gb"], 201), (["ab.1g.10gb"], 403), (["a.1g.10gb", "a.3g.40gb"], 403)):
        mixed = [{**container(resources=asking(pool=suffix)), "name": f"c{at}"} for at, suffix in enumerate(profiles)]
        answer = marked.create(f"{PODS}?dryRun=All", pod("late", marks=True, containers=mixed))
        assert answer.code == code, (profiles, answer.message)
    last = pod("late", marks=True, containers=[container(resources=asking("3"))], initContainers=[INIT])
    assert marked.create(f"{PODS}?dryRun=All", last).code == 201
