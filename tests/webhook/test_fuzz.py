"""Pods as the schema allows them, and bodies as nobody should send them: each is answered, and nothing is left held."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import fields, is_dataclass
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.settings import Settings
from tests.kit.waiting import PATIENCE
from tests.webhook import world
from tests.webhook.test_reserve import Written, reserver
from webhook.decision import affinity
from webhook.decision.review import BODY_MAX, NotAReview
from webhook.handlers.pod_creation import PodCreationHandler

UID = world.review_of(None)["request"]["uid"]
POOL_AFFINITY = {
    "nodeAffinity": {
        affinity.REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}
    },
    "podAffinity": {affinity.PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]},
}
SNAPSHOTS: list[Any] = []


def admission() -> PodCreationHandler:
    """A webhook that can write.

    Pool `a` is open, `b` has its own affinity, `c` only RBAC could open, and of `d` no pod waits for cards.
    """
    caches = world.stores()
    snapshot = world.snapshot(caches)
    SNAPSHOTS.append(snapshot)
    caches.pools.on_watch_event(world.pool())
    caches.pools.on_watch_event(world.pool("b", scheduling={"affinity": POOL_AFFINITY, "strategy": "BinPack"}))
    caches.pools.on_watch_event(world.pool("c", access={"namespaces": ["nobody"], "dexGroups": ["ml"]}))
    caches.pools.on_watch_event(world.refusing_pool("d"))
    for at, pool in enumerate(POOLS):
        node = f"n{at}"
        caches.nodes.on_watch_event(world.node(node, pool=pool, disk="x"))
        for number in range(4):
            caches.devices.on_watch_event(world.device(node, number, pool=pool))
    nobody: Any = None
    return PodCreationHandler(nobody, caches, snapshot, reserver(caches, Written()), Settings)


POOLS = "abcd"
ADMISSION = admission()


def answered(body: bytes) -> dict[str, Any] | None:
    """The response; None where the body is said to be no review. Nothing else may come of it."""
    try:
        answer = orjson.loads(asyncio.run(ADMISSION.handle(body, PATIENCE)))
    except NotAReview:
        return None
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    for pool in POOLS:
        for snapshot in SNAPSHOTS:
            assert all(shelf.in_flight == 0 for shelf in snapshot.view(pool, "team", world.NOW).capacities)
    return answer["response"]


words = st.text("abz/.~-_ é", max_size=8) | st.sampled_from(["gpu.deckhouse.io/pool.a", "zone", "metadata.name"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
quantities = st.sampled_from(["0", "1", "2", "4", "5", "1k", "1000m", "2e0", "1.5", "-1", "", "many", "9" * 40, 1, -1])
limits = st.dictionaries(
    st.sampled_from([names.resource_name(pool) for pool in ("a", "a", "b", "c", "d", "none", "")] + ["cpu"]),
    quantities,
    max_size=2,
)


def container(*, sidecar: bool) -> st.SearchStrategy[dict[str, Any]]:
    resources = st.fixed_dictionaries({}, optional={"limits": limits, "requests": limits})
    optional: dict[str, Any] = {"resources": resources}
    if sidecar:
        optional["restartPolicy"] = st.sampled_from(["Always", "OnFailure"])
    return st.fixed_dictionaries({"name": words}, optional=optional)


expressions = st.lists(
    st.sampled_from([{"key": "disk", "operator": "Exists"}, {"key": "disk", "operator": "In", "values": ["x"]}])
    | st.fixed_dictionaries(
        {"key": words, "operator": st.sampled_from(["In", "NotIn", "Near"])},
        optional={"values": st.lists(words, max_size=2)},
    ),
    max_size=2,
)
terms = st.fixed_dictionaries({}, optional=dict.fromkeys(affinity.ENTRIES, expressions))


def affinity_of(required: Any, preferred: Any) -> st.SearchStrategy[Any]:
    lists = {affinity.REQUIRED: st.none() | required, affinity.PREFERRED: st.none() | st.lists(preferred, max_size=2)}
    return st.none() | st.fixed_dictionaries({}, optional=lists)


wishes = st.fixed_dictionaries({"weight": st.integers(1, 100)}, optional={"preference": terms})
affinities = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": affinity_of(
            st.fixed_dictionaries({"nodeSelectorTerms": st.lists(terms, min_size=1, max_size=2)}), wishes
        ),
        **dict.fromkeys(affinity.PODS, affinity_of(st.lists(anything, max_size=2), anything)),
    },
)
spreads = st.fixed_dictionaries({"topologyKey": words | st.just(names.LABEL_HOSTNAME), "maxSkew": st.just(1)})
tolerations = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("key", "operator", "value", "effect"), words) | {"operator": st.just("Exists")}
)
asking = st.builds(
    lambda pool, units: [world.container({names.resource_name(pool): units})],
    st.sampled_from(POOLS),
    st.integers(1, 5),
)
"""Of pods that get as far as to the choice of cards."""
gates = st.lists(st.sampled_from([names.CARDS_GATE, "example.com/quota", "other"]), max_size=3, unique=True).map(
    lambda found: [{"name": name} for name in found]
)
specs = st.fixed_dictionaries(
    {"containers": asking | st.lists(container(sidecar=False), max_size=3)},
    optional={
        "initContainers": st.lists(container(sidecar=True), max_size=2),
        "affinity": affinities,
        "nodeSelector": st.dictionaries(words, words, max_size=1),
        "tolerations": st.lists(tolerations, max_size=2),
        "topologySpreadConstraints": st.lists(spreads, max_size=2),
        "nodeName": st.sampled_from(["n0", "n9"]),
        "schedulingGates": gates,
        "priority": st.integers(-10, 10),
        "runtimeClassName": words,
        "serviceAccountName": words,
    },
)
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
marks = st.dictionaries(
    st.sampled_from([names.LABEL_POOL, names.REQUEST_ID, names.DEVICES, QUEUE_LABEL, "own"]), words, max_size=3
)
metadata = st.fixed_dictionaries({}, optional={"name": words, "labels": marks, "annotations": marks})
reviews = st.builds(
    lambda meta, spec, **changes: world.review_of({"metadata": meta, "spec": spec}, **changes),
    metadata,
    specs,
    dryRun=st.booleans(),
    userInfo=st.sampled_from(
        [{"username": "jane", "groups": ["ml"]}, {"username": "system:serviceaccount:x:y"}, {}, {"username": "joe"}]
    ),
    namespace=st.sampled_from(["team", "", names.NAMESPACE]),
)


def test_the_strategy_knows_every_field_that_is_read() -> None:
    from webhook.decision.records import AdmissionPodSpec

    assert is_dataclass(AdmissionPodSpec)
    read = {field.name for field in fields(AdmissionPodSpec)}
    drawn = {"containers", "init_containers", "affinity", "node_selector", "tolerations", "node_name"}
    drawn |= {"runtime_class_name", "service_account_name"}
    assert read == drawn | {"scheduling_gates", "priority"}


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(reviews)
def test_pods_of_every_shape_are_answered(body: dict[str, Any]) -> None:
    response = answered(orjson.dumps(body))
    assert response is not None
    assert response["uid"] == UID
    audit = response["auditAnnotations"]
    assert len(audit["request-id"]) == 16
    if not response["allowed"]:
        word, _, sentence = response["status"]["message"].partition(": ")
        assert word == audit["reason"]
        assert word != "InternalError", response
        assert sentence
        assert 400 <= response["status"]["code"] < 500
        return
    sent = body["request"]["object"]
    patch = orjson.loads(base64.b64decode(response.get("patch", base64.b64encode(b"[]"))))
    made = world.apply_patch(sent, patch)
    labels, annotations = made["metadata"].get("labels", {}), made["metadata"].get("annotations", {})
    own_gates = [gate["name"] for gate in sent["spec"].get("schedulingGates", ())]
    held = bool(own_gates) or QUEUE_LABEL in (sent["metadata"].get("labels") or {})
    if audit["reason"] in ("Granted", "Queued"):
        pool = labels[names.LABEL_POOL]
        assert annotations[names.REQUEST_ID] == audit["request-id"]
        assert annotations.get(names.DEVICES) == audit.get("devices")
        made_gates = [gate["name"] for gate in made["spec"].get("schedulingGates", ())]
        if audit["reason"] == "Granted":
            assert audit["devices"]
            assert not held or "nodeName" in sent["spec"], "who waits for somebody else has no cards"
            assert made_gates == own_gates
        else:
            assert "nodeName" not in sent["spec"], "the API server takes no gate there"
            assert pool != "d" or held
            assert made_gates == own_gates + [names.CARDS_GATE] * (names.CARDS_GATE not in own_gates)
        terms = made["spec"]["affinity"]["nodeAffinity"][affinity.REQUIRED]["nodeSelectorTerms"]
        bound = {"key": names.pool_node_label(pool), "operator": "Exists"}
        full = [term for term in terms if any(term.get(field) for field in affinity.ENTRIES)]
        assert all(bound in term.get("matchExpressions", []) for term in full)
        kept = [{key: value for key, value in each.items() if key != "env"} for each in made["spec"]["containers"]]
        assert kept == [{k: v for k, v in each.items() if k != "env"} for each in sent["spec"]["containers"]]
    else:
        assert audit["reason"] == "NothingAsked"
        assert not {names.LABEL_POOL} & set(labels)
        assert not {names.REQUEST_ID, names.DEVICES} & set(annotations)
        assert made["spec"] == sent["spec"]


def deep(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def odd(**spec: Any) -> dict[str, Any]:
    return world.review_of(world.pod(**spec))


def preferring(preference: Any) -> dict[str, Any]:
    return {"nodeAffinity": {affinity.PREFERRED: [{"weight": 1, "preference": preference}]}}


def raw(text: str) -> bytes:
    """A review with a text in the place of the pod's name."""
    return orjson.dumps(world.review_of(world.pod(meta={"name": "HERE"}))).replace(b'"HERE"', text.encode())


BODIES: dict[str, bytes] = {
    "an annotation as large as may be": orjson.dumps(
        world.review_of(world.pod(meta={"annotations": {"big": "x" * (BODY_MAX - 2000)}}))
    ),
    "a quantity of a megabyte": orjson.dumps(odd(units="9" * (1 << 20))),
    "a pool's name of a megabyte": orjson.dumps(odd(pool="x" * (1 << 20))),
    "two hundred containers": orjson.dumps(
        odd(initContainers=[world.container({names.resource_name("a"): "1"}) for _ in range(200)])
    ),
    "ten thousand terms": orjson.dumps(
        odd(affinity={"nodeAffinity": {affinity.REQUIRED: {"nodeSelectorTerms": [{}] * 10_000}}}, pool="b")
    ),
    "a key twice": raw('"x", "name": "y"'),
    "a number beyond 64 bits": raw('"x", "generation": ' + "9" * 30),
    "no character": raw('"\\u0000\\ufffe"'),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_bodies_that_weigh_are_answered_under_their_uid(body: bytes) -> None:
    assert len(body) <= BODY_MAX
    response = answered(body)
    assert response is not None
    assert response["uid"] == UID
    if not response["allowed"]:
        assert "InternalError" not in response["status"]["message"]
        assert len(response["status"]["message"]) < 2100


@pytest.mark.parametrize("depth", [100, 300, 900])
def test_what_nests_without_end_is_answered_under_its_uid(depth: int) -> None:
    text = orjson.dumps(odd(affinity=preferring({"more": "HERE"})))
    body = text.replace(b'"HERE"', b"[" * depth + b"]" * depth)
    response = answered(body)
    assert response is not None
    assert response["uid"] == UID


NO_REVIEWS = {"half a character": b'{"request": {"uid": "\\ud800"}}', "not UTF-8": b'{"request": {"uid": "\xff"}}'}


@pytest.mark.parametrize("body", NO_REVIEWS.values(), ids=NO_REVIEWS.keys())
def test_a_uid_that_is_no_text_cannot_be_answered(body: bytes) -> None:
    assert answered(body) is None
