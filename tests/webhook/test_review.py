"""Whatever is sent gets a proper answer, under the uid where one could be read."""

from __future__ import annotations

import asyncio
import base64
import copy
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.settings import Settings
from tests.webhook import world
from webhook.decision import review
from webhook.decision.review import NotAReview, OutOfScope, Request, Unreadable, parse
from webhook.handlers.pod_creation import PodCreationHandler

UID = world.review_of(None)["request"]["uid"]


def send(admission: PodCreationHandler, body: bytes) -> dict[str, Any]:
    return orjson.loads(asyncio.run(admission.handle(body, 1.0)))


def admission() -> PodCreationHandler:
    """A webhook with one free card, which cannot write."""
    caches = world.stores()
    caches.pools.on_watch_event(world.pool())
    caches.nodes.on_watch_event(world.node("n1"))
    caches.devices.on_watch_event(world.device("n1", 1))
    unused: Any = None
    return PodCreationHandler(unused, caches, world.snapshot(caches), unused, Settings)


ADMISSION = admission()

NOT_REVIEWS = {
    "nothing": b"",
    "text": b"hello",
    "binary": bytes(range(256)),
    "cut off": orjson.dumps(world.review_of(world.pod()))[:-7],
    "null": b"null",
    "a list": b"[]",
    "no request": b"{}",
    "request is a list": b'{"request": []}',
    "no uid": b'{"request": {"operation": "CREATE"}}',
    "empty uid": b'{"request": {"uid": ""}}',
    "uid is a number": b'{"request": {"uid": 5}}',
    "uid without end": orjson.dumps({"request": {"uid": "x" * 5000}}),
    "depth": b"[" * 100_000,
}


@pytest.mark.parametrize("body", NOT_REVIEWS.values(), ids=NOT_REVIEWS.keys())
def test_what_cannot_be_answered_is_said_to_be_no_review(body: bytes) -> None:
    with pytest.raises(NotAReview, match="AdmissionReview"):
        parse(body)


def changed(path: str, value: Any) -> dict[str, Any]:
    """A good review with one thing different."""
    made = world.review_of(world.pod())
    *parents, last = path.split(".")
    target: Any = made["request"]
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    target[last] = value
    return made


UNREADABLE = {
    "no object": changed("object", None),
    "object is text": changed("object", "pod"),
    "containers are text": changed("object.spec.containers", "none"),
    "labels are a list": changed("object.metadata.labels", []),
    "a label is a number": changed("object.metadata.labels", {"a": 1}),
    "limits are a list": changed("object.spec.containers.0.resources", {"limits": []}),
    "a quantity is an object": changed("object.spec.containers.0.resources.limits.gpu~a", {}),
    "affinity is text": changed("object.spec.affinity", "near"),
    "preferred terms are numbers": changed(
        "object.spec.affinity", {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [1]}}
    ),
    "tolerations are text": changed("object.spec.tolerations", "all"),
    "user is text": changed("userInfo", "jane"),
    "resource is text": changed("resource", "pods"),
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_makes_no_sense_is_refused_under_its_uid(body: dict[str, Any]) -> None:
    parsed = parse(orjson.dumps(body))
    assert isinstance(parsed, Unreadable)
    assert parsed.uid == UID
    assert parsed.why.message.startswith("Invalid: ")
    response = send(ADMISSION, orjson.dumps(body))["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == (UID, False, 422)


FOREIGN = {
    "update": {"operation": "UPDATE"},
    "delete": {"operation": "DELETE", "object": None},
    "deployment": {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}, "object": {"spec": 5}},
    "binding": {"subResource": "binding"},
    "nothing at all": {"operation": "", "resource": {}},
}


@pytest.mark.parametrize("changes", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_not_ours_goes_on_untouched(changes: dict[str, Any]) -> None:
    body = orjson.dumps(world.review_of(world.pod(), **changes))
    assert isinstance(parse(body), OutOfScope)
    response = send(ADMISSION, body)["response"]
    assert response["allowed"]
    assert "patch" not in response
    assert response["warnings"]


def test_a_request_is_read() -> None:
    request = world.request_of(world.pod(meta={"name": "", "generateName": "x-"}), dryRun=True)
    assert (request.uid, request.namespace, request.dry_run) == (UID, "team", True)
    assert request.pod_name == "x-*"
    assert request.user.username == "jane"


def test_a_pod_without_a_list_of_containers_is_read() -> None:
    made = world.pod(initContainers=[world.container({names.resource_name("a"): "1"})])
    made["spec"]["containers"] = None
    assert isinstance(parse(orjson.dumps(world.review_of(made))), Request)


def test_answers_have_the_form_that_the_api_server_expects() -> None:
    assert orjson.loads(review.allow("u")) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True},
    }
    patched = orjson.loads(review.allow("u", ({"op": "remove", "path": "/a"},)))["response"]
    assert patched["patchType"] == "JSONPatch"
    assert orjson.loads(base64.b64decode(patched["patch"])) == [{"op": "remove", "path": "/a"}]


def test_before_the_caches_are_filled_a_pod_is_asked_to_come_again() -> None:
    caches = world.stores()
    caches.devices.synced = False
    unused: Any = None
    early = PodCreationHandler(unused, caches, world.snapshot(caches), unused, Settings)
    response = send(early, orjson.dumps(world.review_of(world.pod())))["response"]
    assert response["status"]["code"] == 503
    assert response["status"]["message"].startswith("NotReady: ")
    assert response["status"]["details"] == {"retryAfterSeconds": 1}
    untouched = send(early, orjson.dumps(world.review_of(world.pod(0))))["response"]
    assert untouched["allowed"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
quantities = st.one_of(
    st.integers(-3, 70), st.text(max_size=6), st.sampled_from(["1", "0", "1k", "500m", "1e3", "1e300000", "NaN", "-1"])
)


@st.composite
def odd_reviews(draw: st.DrawFn) -> dict[str, Any]:
    """A dry run that was sensible until up to three of its parts were replaced or removed."""
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchFields": []}}],
        }
    }
    made = world.review_of(
        world.pod(
            draw(quantities),
            meta={"labels": {"a": "b"}, "annotations": {names.REQUEST_ID: "x"}},
            initContainers=[world.container({names.resource_name("a"): draw(quantities)}, restartPolicy="Always")],
            affinity=affinity if draw(st.booleans()) else {},
            tolerations=[{"operator": "Exists"}],
            nodeSelector={"kubernetes.io/os": "linux"},
        ),
        dryRun=True,
    )
    for _ in range(draw(st.integers(0, 3))):
        _damage(draw, made["request"])
    return made


def _damage(draw: st.DrawFn, target: Any) -> None:
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        keys = [key for key in keys if key != "uid"]
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        inner = target[key]
        if isinstance(inner, (dict, list)) and inner and draw(st.integers(0, 3)):
            target = inner
            continue
        if isinstance(target, dict) and draw(st.booleans()):
            del target[key]
        else:
            target[key] = draw(json_values)
        return


def answered(body: bytes) -> dict[str, Any] | None:
    """The response; None where the body is said to be no review."""
    try:
        return send(ADMISSION, body)["response"]
    except NotAReview:
        return None


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(odd_reviews())
def test_odd_reviews_are_answered_under_their_uid(body: dict[str, Any]) -> None:
    sent = copy.deepcopy(body["request"].get("object"))
    response = answered(orjson.dumps(body))
    assert response is not None
    assert response["uid"] == UID
    if response["allowed"]:
        patch = orjson.loads(base64.b64decode(response.get("patch", base64.b64encode(b"[]"))))
        world.apply_patch(sent, patch)
    else:
        status = response["status"]
        word, _, sentence = status["message"].partition(": ")
        assert word != "InternalError", status
        assert word.isalpha()
        assert sentence
        assert 400 <= status["code"] < 600


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300) | json_values.map(orjson.dumps))
def test_raw_bytes_never_end_in_an_error(body: bytes) -> None:
    answered(body)


@settings(max_examples=200, deadline=None)
@given(json_values)
def test_a_readable_uid_is_always_answered(content: Any) -> None:
    body = {"request": {**(content if isinstance(content, dict) else {"x": content}), "uid": "u"}}
    response = answered(orjson.dumps(body))
    assert response is not None
    assert response["uid"] == "u"


def test_two_hundred_containers_are_summed() -> None:
    many = world.pod()
    many["spec"]["containers"] = [world.container({names.resource_name("a"): "1"}) for _ in range(200)]
    response = answered(orjson.dumps(world.review_of(many, dryRun=True)))
    assert response is not None
    assert response["allowed"]
    assert response["warnings"][0].startswith("the pod waits for 200 of GPUPool a: ")


def test_a_pod_as_api_servers_before_1_34_send_it() -> None:
    """They spell a time that is not set as null."""
    pod = world.pod()
    pod["metadata"]["creationTimestamp"] = None
    pod["status"] = {}

    assert isinstance(parse(orjson.dumps(world.review_of(pod))), Request)
