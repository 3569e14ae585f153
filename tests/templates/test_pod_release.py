"""What gpupool-controller and the clean-up may change of a pod that waits for cards, and that nobody else marks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.domain.clock import seconds
from controllers.gpupool.nearness import Nearness, plan_near
from controllers.gpupool.queue.wait import SETTLE, Wait, plan_condition
from controllers.runtime.plan import Apply
from tests.security.someone import Someone
from tests.templates.harness import NAMESPACE, eventually, without_any_webhook
from tests.templates.queued import GATE, HERE, OTHER, PODS, operations, patched, stored, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.templates import harness

pytestmark = pytest.mark.cluster
NOW = "2026-01-01T00:00:00Z"
ANNOTATION = "/metadata/annotations/gpu.deckhouse.io~1devices"
PREFERRED = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution"
UNGATE = {"op": "remove", "path": "/spec/schedulingGates"}
MARK = {"op": "add", "path": ANNOTATION, "value": "card-a"}


@pytest.fixture(scope="module")
def alone(kube: harness.Kube) -> Iterator[harness.Kube]:
    """Policies, and no webhook."""
    with without_any_webhook(kube):
        yield kube


@pytest.fixture(scope="module")
def controller(alone: harness.Kube) -> harness.Kube:
    """gpupool-controller, with the rights that the chart gives it."""
    return alone.account(names.POOL_CONTROLLER)


@pytest.fixture
def pods(alone: harness.Kube) -> Iterator[harness.Kube]:
    """Pod `waits` with our gate, `waits-for-two` with another's beside it, `goes-on` with none."""
    made = {"waits": (GATE,), "waits-for-two": (GATE, OTHER), "goes-on": ()}
    for name, gates in made.items():
        body = waiting(name, *gates)
        body["spec"]["schedulingGates"] = list(gates)
        answer = alone.create(PODS, body)
        assert answer.code == 201, answer.message
    yield alone
    for name in made:
        alone.delete(f"{PODS}/{name}?gracePeriodSeconds=0")


def test_it_lets_a_pod_go_on_with_its_cards(pods: harness.Kube, controller: harness.Kube) -> None:
    answer = patched(controller, "waits", operations(pods, "waits"))
    assert answer.code == 200, answer.message
    found = pods.get(f"{PODS}/waits").body
    assert "schedulingGates" not in found["spec"]
    assert found["metadata"]["annotations"][names.DEVICES] == "card-a"
    preferred = found["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert (preferred[0], len(preferred)) == (HERE, 2)
    assert "example.com/gpu" in [one["key"] for one in found["spec"]["tolerations"]]


def test_it_lets_a_pod_go_on_without_cards_for_an_autoscaler(pods: harness.Kube, controller: harness.Kube) -> None:
    answer = patched(controller, "waits", operations(pods, "waits", devices=""))
    assert answer.code == 200, answer.message
    found = pods.get(f"{PODS}/waits").body
    assert "schedulingGates" not in found["spec"]
    assert names.DEVICES not in found["metadata"]["annotations"]
    # Which cards it has is said in that write or never.
    assert patched(controller, "waits", [MARK]).code == 403


def test_one_without_preferences_and_one_of_a_thousand_containers_as_well(
    pods: harness.Kube, controller: harness.Kube
) -> None:
    limits = {f"example.com/{number}": "1" for number in range(20)}
    wide = waiting("wide")
    more = [{"name": f"c{n}", "image": "x", "resources": {"limits": limits}} for n in range(1000)]
    wide["spec"]["containers"] += more
    bare = waiting("bare")
    del bare["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    liked = waiting("liked")
    terms = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}]}} for n in range(300)
    ]
    liked["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = terms
    try:
        for body in (wide, bare, liked):
            name = body["metadata"]["name"]
            assert pods.create(PODS, body).code == 201
            answer = patched(controller, name, operations(pods, name))
            assert answer.code == 200, answer.message[:500]
    finally:
        for name in ("wide", "bare", "liked"):
            pods.delete(f"{PODS}/{name}?gracePeriodSeconds=0")


IMAGE = {"op": "replace", "path": "/spec/containers/0/image", "value": "theirs"}
FORGED: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("spec.containers", "waits", [IMAGE]),
    ("spec.containers", "waits", [UNGATE, MARK, IMAGE]),
    ("spec.activeDeadlineSeconds", "waits", [UNGATE,
        {"op": "replace", "path": "/spec/activeDeadlineSeconds", "value": 1}]),
    ("spec.nodeSelector", "waits", [UNGATE, {"op": "add", "path": "/spec/nodeSelector", "value": {"x": "y"}}]),
    ("spec.tolerations", "waits", [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]),
    ("a label", "waits", [UNGATE, {"op": "add", "path": "/metadata/labels/app", "value": "z"}]),
    ("annotation theirs", "waits", [UNGATE, {"op": "remove", "path": "/metadata/annotations/theirs"}]),
    ("annotation more", "waits", [UNGATE, {"op": "add", "path": "/metadata/annotations/more", "value": "x"}]),
    ("the finalizers", "waits", [UNGATE, {"op": "add", "path": "/metadata/finalizers", "value": ["a.example.com/b"]}]),
    ("the owners", "waits", [UNGATE, {"op": "add", "path": "/metadata/ownerReferences", "value": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]}]),
    ("preferred node affinity", "waits", [UNGATE, {"op": "replace", "path": f"{PREFERRED}/0/weight", "value": 9}]),
    ("required node affinity", "waits", [UNGATE, {"op": "add", "value": {"key": "x", "operator": "Exists"},
        "path": PREFERRED.replace("preferred", "required") + "/nodeSelectorTerms/0/matchExpressions/-"}]),
    ("scheduling gates of others", "waits-for-two", [UNGATE, MARK]),
    ("the gate while others are left", "waits-for-two", [{"op": "remove", "path": "/spec/schedulingGates/0"}]),
    ("spec.schedulingGates", "waits-for-two", [{"op": "remove", "path": "/spec/schedulingGates/1"}]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "name", "forged"), FORGED, ids=[f"{n} {one[0]}" for n, one in enumerate(FORGED)])
def test_it_changes_nothing_else_of_a_pod(
    pods: harness.Kube, controller: harness.Kube, what: str, name: str, forged: list[dict[str, Any]]
) -> None:
    answer = patched(controller, name, forged)
    assert answer.code == 403, answer.message
    assert f"gpupool-controller may not change {what}" in answer.message
    # Whoever may write the pod, and take the gate off, may do so: Kubernetes itself has nothing against it.
    answer = patched(pods, name, [one for one in forged if one is not MARK], query="?dryRun=All")
    assert answer.code == 200, answer.message


def applied(pods: harness.Kube, name: str, wait: Wait | None) -> dict[str, Any]:
    """What gpupool-controller applies to a pod's status."""
    pod = stored(pods, name)
    later = seconds(pod.metadata.creation_timestamp) + SETTLE
    found = [each for each in plan_condition(pod, "a", wait, later).actions if isinstance(each, Apply)]
    meta = {"name": name, "namespace": "default", "uid": pod.metadata.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **found[0].body}


def conditions(kube: harness.Kube, name: str) -> dict[str, str]:
    return {one["type"]: one["status"] for one in kube.get(f"{PODS}/{name}").body["status"].get("conditions", ())}


def test_it_says_why_a_pod_waits_and_that_it_waits_no_more(pods: harness.Kube, controller: harness.Kube) -> None:
    for name, wait, status in (("waits", Wait("Waiting", 1), "True"), ("waits-for-two", Wait("OtherGates", 1), "True")):
        answer = controller.apply(f"{PODS}/{name}/status", applied(pods, name, wait), names.MANAGER_POOL)
        assert answer.code == 200, answer.message
        assert conditions(pods, name)[names.QUEUED] == status
        assert conditions(pods, name)["PodScheduled"] == "False", "the API server's own condition stays"
    assert patched(controller, "waits", operations(pods, "waits")).code == 200
    answer = controller.apply(f"{PODS}/waits/status", applied(pods, "waits", None), names.MANAGER_POOL)
    assert answer.code == 200, answer.message
    assert conditions(pods, "waits")[names.QUEUED] == "False"


def test_it_says_that_cards_could_have_been_nearer_beside_why_the_pod_waited(
    pods: harness.Kube, controller: harness.Kube
) -> None:
    answer = controller.apply(f"{PODS}/waits/status", applied(pods, "waits", Wait("Waiting", 1)), names.MANAGER_POOL)
    assert answer.code == 200, answer.message
    pod = stored(pods, "waits")
    split = Nearness(("n-a", "n-b"), (True,) * 5, (False,) * 5, "OtherCards")
    (write,) = [each for each in plan_near(pod, split, seconds(NOW)).actions if isinstance(each, Apply)]
    meta = {"name": "waits", "namespace": "default", "uid": pod.metadata.uid}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **write.body}
    answer = controller.apply(f"{PODS}/waits/status", body, names.MANAGER_POOL)
    assert answer.code == 200, answer.message
    found = conditions(pods, "waits")
    assert (found[names.QUEUED], found[names.NEAR], found["PodScheduled"]) == ("True", "False", "False")


def condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": NOW}


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("a condition of others", {"status": {"conditions": [condition("Ready", "True")]}}),
        ("a condition of others", {"status": {"conditions": [condition("PodScheduled", "True")]}}),
        ("status.phase", {"status": {"phase": "Succeeded"}}),
        ("status.message", {"status": {"message": "x"}}),
        ("annotation more", {"metadata": {"annotations": {"more": "x"}}}),
        ("a label", {"metadata": {"labels": {"more": "x"}}}),
    ],
)
def test_it_changes_nothing_else_of_a_pods_status(
    pods: harness.Kube, controller: harness.Kube, what: str, body: dict[str, Any]
) -> None:
    path, kind = f"{PODS}/waits/status", "application/strategic-merge-patch+json"
    answer = controller.call("PATCH", path, body, kind)
    assert answer.code == 403, answer.message
    assert f"gpupool-controller may not change {what}" in answer.message
    assert pods.call("PATCH", f"{path}?dryRun=All", body, kind).code == 200


def test_which_cards_a_pod_has_is_said_once_by_the_write_that_lets_it_go_on(
    pods: harness.Kube, controller: harness.Kube
) -> None:
    told = "do not change after its creation"
    ours = "gpupool-controller may not change "
    # A gate stays, there was none, or somebody else writes. Of two policies that refuse, the API server quotes one.
    for who, name, forged in (
        (controller, "waits", [MARK]),
        (controller, "waits-for-two", [{"op": "remove", "path": "/spec/schedulingGates/0"}, MARK]),
        (controller, "goes-on", [MARK]),
        (pods, "waits", [UNGATE, MARK]),
    ):
        answer = patched(who, name, forged)
        assert answer.code == 403, (name, forged)
        assert told in answer.message or (who is controller and ours in answer.message), answer.message
    for name in ("request-id", "requested-by"):
        mark = {"op": "add", "path": f"/metadata/annotations/gpu.deckhouse.io~1{name}", "value": "x"}
        answer = patched(controller, "waits", [UNGATE, MARK, mark])
        assert (answer.code, told in answer.message or ours in answer.message) == (403, True), answer.message
    assert patched(controller, "waits", [UNGATE, MARK]).code == 200
    for forged in ([{**MARK, "value": "card-b"}], [{"op": "remove", "path": ANNOTATION}]):
        assert patched(controller, "waits", forged).code == 403


def test_the_clean_up_takes_our_gate_off_and_leaves_the_others(pods: harness.Kube) -> None:
    user = f"system:serviceaccount:{NAMESPACE}:{names.MANAGER_CLEANUP}"
    rbac, meta = "/apis/rbac.authorization.k8s.io/v1", {"metadata": {"name": "as-the-hook"}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as-the-hook"}
    subject = {"kind": "ServiceAccount", "name": names.MANAGER_CLEANUP, "namespace": NAMESPACE}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]
    assert pods.create(f"{rbac}/clusterroles", {**meta, "rules": rules}).code == 201
    assert pods.create(f"{rbac}/clusterrolebindings", {**meta, "roleRef": role, "subjects": [subject]}).code == 201
    hook = Someone(pods, user)
    try:
        left = {"spec": {"schedulingGates": [OTHER]}}
        eventually(lambda: hook.merge(f"{PODS}/waits-for-two", left).code == 200, "the role is not in force")
        for body in (
            {"spec": {"schedulingGates": None}},
            {"spec": {"activeDeadlineSeconds": 1}},
            {"metadata": {"annotations": {"theirs": None}}},
        ):
            answer = hook.merge(f"{PODS}/waits-for-two", body)
            assert (answer.code, "gpu-cleanup may not change " in answer.message) == (403, True), answer.message
        with_cards = {"metadata": {"annotations": {names.DEVICES: "card-a"}}, "spec": {"schedulingGates": None}}
        assert hook.merge(f"{PODS}/waits", with_cards).code == 403
        assert hook.merge(f"{PODS}/waits", {"spec": {"schedulingGates": None}}).code == 200
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            pods.delete(f"{rbac}/{kind}/as-the-hook")
