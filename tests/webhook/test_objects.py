"""Judges of cards, pools, settings and workloads: what needs no API server to be seen, and whatever may be sent."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.record import adapter, to_json
from controllers.api.settings import Settings
from controllers.domain import mig
from controllers.runtime.errors import NotFound, Unreachable
from tests.kit.objects import allocation, condition, reservation
from tests.webhook import world
from tests.webhook.test_review import NOT_REVIEWS, json_values
from webhook.caches.access_reviews import AccessReviewCache
from webhook.decision.access import AccessReview
from webhook.decision.review import NotAReview, OutOfScope, Unreadable
from webhook.handlers.objects import ObjectReviewHandler
from webhook.validating.review import KINDS, ObjectReview, parse

UID = world.review_of(None)["request"]["uid"]
PCI = {"vendor": "10de", "device": "20b0", "class": "0302", "address": "0000:01:00.0"}
RESOURCES = {
    "GPUDevice": ("gpu.deckhouse.io", "gpudevices"), "GPUPool": ("gpu.deckhouse.io", "gpupools"),
    "ModuleConfig": ("deckhouse.io", "moduleconfigs"), "Deployment": ("apps", "deployments"),
    "StatefulSet": ("apps", "statefulsets"), "DaemonSet": ("apps", "daemonsets"), "Job": ("batch", "jobs"),
    "CronJob": ("batch", "cronjobs"), "Pod": ("", "pods"), "Binding": ("", "bindings"),
}  # fmt: skip


class NoApi:
    """An API server that knows of nothing, or does not answer: all that is known is in the caches."""

    def __init__(self, error: type[Exception] = NotFound) -> None:
        self.error, self.asked = error, list[str]()

    async def request(self, _method: str, path: str, **_: Any) -> bytes:
        self.asked.append(path)
        if "gpunodeinventories" in path and self.error is NotFound:
            ready = {"type": "ReadyForPooling", "status": "True", "reason": "R", "message": ""}
            body = {"metadata": {"name": "n1"}, "spec": {"nodeName": "n1"}, "status": {"conditions": [ready]}}
            return orjson.dumps(body)
        raise self.error(404, "NotFound", path) if self.error is NotFound else self.error(path)


class NoRbac(AccessReviewCache):
    """RBAC grants nothing."""

    def __init__(self) -> None:
        pass

    async def review(self, _pool: str, subjects: Any) -> AccessReview:
        return AccessReview("", tuple(subject.user for subject in subjects))


def objects(client: Any = None, *, synced: bool = True) -> ObjectReviewHandler:
    """Pools `a` and `b`, a card in `a` that a pod has, a free one; what is asked beside them is not there."""
    caches = world.stores()
    for pool in (world.pool("a"), world.pool("b"), world.pool("closed", access={"namespaces": ["others"]})):
        caches.pools.on_watch_event(pool)
    caches.nodes.on_watch_event(world.node("n1"))
    world.snapshot(caches)
    serving = allocation("train")
    caches.devices.on_watch_event(world.device("n1", 1, hardware={"pci": PCI}, allocations=[serving]))
    caches.devices.on_watch_event(world.device("n1", 2, pool=None, hardware={"pci": PCI}))
    caches.devices.synced = synced
    return ObjectReviewHandler(client or NoApi(), caches, NoRbac(), Settings)


OBJECTS = objects()


def review(kind: str, new: Any, old: Any = None, **changes: Any) -> dict[str, Any]:
    group, resource = RESOURCES[kind]
    operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    about = {"group": group, "version": "v1", "resource": resource}
    return world.review_of(new, **({"resource": about, "oldObject": old, "operation": operation} | changes))


def send(body: dict[str, Any], to: ObjectReviewHandler = OBJECTS) -> dict[str, Any]:
    return orjson.loads(asyncio.run(to.handle(orjson.dumps(body), 1.0)))["response"]


def card(number: int = 2, *, pool: str | None = None, mark: str | None = None, **status: Any) -> dict[str, Any]:
    made = to_json(world.device("n1", number, pool=pool, hardware={"pci": PCI}, **status))
    made["metadata"]["annotations"] = {names.ASSIGNMENT: mark} if mark else {}
    return made


def word_of(response: dict[str, Any]) -> str:
    return response["status"]["message"].partition(": ")[0] if not response["allowed"] else ""


# --- one by one -----------------------------------------------------------------------------------

FAULT = {"type": "Faulted", "status": "True", "reason": "CriticalXid", "message": "XID 79."}
SERVING = allocation("train")
BUSY = {"allocations": [SERVING]}


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (card(), card(mark="a"), ""),
        (card(), card(mark="nowhere"), names.UNKNOWN_POOL),
        (card(conditions=[FAULT]), card(conditions=[FAULT], mark="a"), names.DEVICE_NOT_READY),
        (card(1, pool="a", mark="a", **BUSY), card(1, pool="a", mark="b", **BUSY), names.DEVICE_BUSY),
        (card(1, pool="a", **BUSY), card(1, pool="a", mark="a", **BUSY), ""),
        (card(1, pool="a", mark="a", **BUSY), card(1, pool="a", **BUSY), ""),
        (card(1, pool="a", mark="a"), card(1, pool="a", mark="b"), ""),
        (card(mark="gone"), card(mark="gone"), ""),
    ],
    ids=["fits", "unknown", "faulted", "busy", "put back", "taken out", "moved while free", "unchanged"],
)
def test_a_card(old: Any, new: Any, word: str) -> None:
    assert word_of(send(review("GPUDevice", new, old))) == word


def test_a_pool_that_is_being_deleted_takes_no_card() -> None:
    to = objects()
    going = {"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    to._stores.pools.on_watch_event(adapter(type(world.pool())).validate_python(going))
    response = send(review("GPUDevice", card(mark="a"), card()), to)
    assert word_of(response) == names.UNKNOWN_POOL
    assert "is being deleted" in response["status"]["message"]
    assert response["auditAnnotations"] == {"reason": names.UNKNOWN_POOL}


@pytest.mark.parametrize(
    ("closed", "told"),
    [
        (("Maintenance",), "GPUPool b is in Maintenance: the card is offered to pods when that is over"),
        (("Maintenance", "Misconfigured"), "GPUPool b is Misconfigured (Because): the card is offered to pods once"),
    ],
    ids=["maintenance", "halted"],
)
def test_a_card_that_a_closed_pool_takes_waits_and_who_assigns_it_reads_for_what(
    closed: tuple[str, ...], told: str
) -> None:
    to = objects()
    to._stores.pools.on_watch_event(world.pool("b", conditions=dict.fromkeys(closed, "so it is")))
    response = send(review("GPUDevice", card(mark="b"), card()), to)
    assert response["allowed"]
    assert any(warning.startswith(told) for warning in response["warnings"]), response["warnings"]


class OfLayout(NoApi):
    """An API server that has the MIG layout of the node, by which the module turned MIG mode on."""

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        if "configmaps" not in path:
            return await super().request(method, path, **more)
        self.asked.append(path)
        ours = mig.PlannedCard("0000:03:00.0", PCI["vendor"], PCI["device"], None, None, mig.DISABLED, ours=True)
        return orjson.dumps(mig.configmap(world.node("n1"), mig.NodeLayout((ours,))))


@pytest.mark.parametrize("mark", ["b", None], ids=["coming", "free"])
def test_a_card_that_is_about_to_come_in_takes_its_place_whoever_turned_its_mig_mode_on(mark: str | None) -> None:
    to = objects(OfLayout())
    to._stores.pools.on_watch_event(world.pool("b", allocation={"mode": "Exclusive", "maxDevicesPerNode": 1}))
    divided = {"pci": PCI, "mig": {"capable": True, "enabled": True}}
    meta = {"annotations": {names.ASSIGNMENT: mark} if mark else {}}
    sibling = to_json(world.device("n1", 3, pool=None, hardware=divided))
    sibling["metadata"] |= meta
    to._stores.devices.on_watch_event(adapter(GPUDevice).validate_python(sibling))

    whole = card(mark="b")
    whole["status"]["hardware"]["mig"] = {"capable": True, "enabled": False}
    response = send(review("GPUDevice", whole, card()), to)
    assert response["allowed"]
    warned = [warning for warning in response.get("warnings", ()) if "maxDevicesPerNode" in warning]
    assert bool(warned) is (mark is not None), response


def test_a_lost_card_keeps_no_other_from_its_place() -> None:
    to = objects()
    to._stores.pools.on_watch_event(world.pool("b", deviceSelector={"include": {"indexes": ["0"]}}))
    assert word_of(send(review("GPUDevice", card(mark="b"), card()), to)) == names.DEVICE_NOT_IN_SELECTOR
    lost = condition("InventoryIncomplete", reason=names.REASON_CARD_LOST)
    to._stores.devices.on_watch_event(world.device("n1", 1, hardware={"pci": PCI}, conditions=[lost]))
    assert word_of(send(review("GPUDevice", card(mark="b"), card()), to)) == ""


def test_a_free_card_that_a_bound_pod_was_given_waits_for_that_pod_whichever_pool_it_is_of() -> None:
    """The card's object was deleted by hand and has come back empty: only the pod tells whose card it is."""
    to = objects()
    free = world.device("n1", 2, pool=None, hardware={"pci": PCI})
    holder = world.stored_pod("train", "n1", request="r", devices=free.status.inventory_id or "", pool="b")
    to._stores.pods.on_watch_event(holder)
    response = send(review("GPUDevice", card(mark="a"), card()), to)
    assert response["allowed"]
    (told,) = response["warnings"]
    assert "still serves a pod" in told

    to._stores.pods.on_watch_event(holder, deleted=True)
    assert "warnings" not in send(review("GPUDevice", card(mark="a"), card()), to)


def test_a_node_whose_readiness_cannot_be_read_is_left_to_the_controller() -> None:
    assert send(review("GPUDevice", card(mark="a"), card()), objects(NoApi(Unreachable)))["allowed"]


def test_a_refusal_is_never_taken_from_a_cache_alone() -> None:
    api = NoApi()
    send(review("GPUDevice", card(mark="nowhere"), card()), objects(api))
    assert any(path.endswith("/gpupools/nowhere") for path in api.asked)


def test_before_the_caches_are_filled_only_what_may_be_refused_waits() -> None:
    early = objects(synced=False)
    response = send(review("GPUDevice", card(mark="a"), card()), early)
    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert send(review("GPUDevice", card(), card(mark="a")), early)["allowed"]
    assert send(review("GPUPool", {"metadata": {"name": "x"}, "spec": {}}), early)["allowed"]
    assert send(review("Deployment", {"spec": {"template": {"spec": world.pod()["spec"]}}}), early)["allowed"]


def test_a_profile_of_a_card_that_is_here_counts_beside_the_catalogues() -> None:
    to = objects()
    mig = {"capable": True, "profilesSupported": ["9g.999gb"]}
    to._stores.devices.on_watch_event(world.device("n1", 3, hardware={"pci": PCI, "mig": mig}))
    spec = {"allocation": {"mode": "MIG", "migProfile": "9g.999gb"}}
    assert send(review("GPUPool", {"metadata": {"name": "x"}, "spec": spec}), to)["allowed"]
    spec = {"allocation": {"mode": "MIG", "migProfile": "9g.998gb"}}
    assert word_of(send(review("GPUPool", {"metadata": {"name": "x"}, "spec": spec}), to)) == names.INVALID_MIG_PROFILE


def test_a_profile_that_no_card_of_the_pool_holds_is_refused_and_one_that_some_hold_is_told_of() -> None:
    to = objects()
    h100 = {"pci": PCI | {"device": "2330", "address": "0000:02:00.0"}}
    old = to_json(world.pool("a"))

    def asked(profile: str) -> dict[str, Any]:
        return send(review("GPUPool", to_json(world.pool("a", allocation=MIG | {"migProfile": profile})), old), to)

    assert asked("1g.5gb")["allowed"], "its one card is an A100 of 40 GB"
    refused = asked("1g.12gb")["status"]["message"]
    assert refused.startswith(
        "InvalidMIGProfile: spec.allocation.migProfile is '1g.12gb', and none of the cards in GPU"
    )
    assert "MIGProfileNotOffered" in refused
    assert "kubectl annotate gpudevice <card> gpu.deckhouse.io/assignment-" in refused

    gone = {"hardware": {"pci": PCI}, "node_gone_since": "2026-01-01T00:00:00Z"}
    to._stores.devices.on_watch_event(world.device("n1", 1, **gone))
    assert asked("1g.12gb")["allowed"], "a card that is only remembered is no member"
    to._stores.devices.on_watch_event(world.device("n1", 1, hardware={"pci": PCI}))

    to._stores.devices.on_watch_event(world.device("n1", 3, hardware=h100))
    assert asked("1g.10gb")["allowed"]
    again = to_json(world.pool("a", allocation=MIG | {"migProfile": "1g.12gb"}))
    assert send(review("GPUPool", again, again), to)["allowed"], "what is written already is not judged again"


def test_settings_of_an_earlier_version_are_taken_and_what_is_gone_is_told() -> None:
    def asked(**spec: Any) -> dict[str, Any]:
        return send(review("ModuleConfig", {"metadata": {"name": names.MODULE}, "spec": spec}))

    old = {"nodeAgent": {"discover": {"askRuntime": True, "driverRoot": "/driver"}}, "logLevel": "Debug"}

    answer = asked(version=1, settings=old)
    assert answer["allowed"]
    (warning,) = answer["warnings"]
    assert "nodeAgent.discover.askRuntime" in warning
    assert "spec.version to 2" in warning
    assert not asked(version=2, settings=old)["allowed"], "who says that it is of this version is held to it"
    assert "warnings" not in asked(version=1, settings={"logLevel": "Debug"})


DEDICATED = {"key": "dedicated", "value": "a", "effect": "NoSchedule"}


def test_a_taint_on_nodes_of_other_pools_names_them() -> None:
    made = objects()
    made._stores.devices.on_watch_event(world.device("n1", 3, pool="b", hardware={"pci": PCI}))
    old, new = (to_json(world.pool("a", scheduling={"taints": taints})) for taints in ([], [DEDICATED]))
    (warning,) = send(review("GPUPool", new, old), made)["warnings"]
    assert (
        "GPUPool a shares 1 node (n1) with GPUPool b: dedicated=a:NoSchedule keeps other pods off, and not" in warning
    )

    assert "warnings" not in send(review("GPUPool", new, new), made)  # it was told
    assert "warnings" not in send(review("GPUPool", old, new), made)
    assert "warnings" not in send(review("GPUPool", new, old))  # nobody else has cards there
    mild = to_json(world.pool("a", scheduling={"taints": [{**DEDICATED, "effect": "PreferNoSchedule"}]}))
    assert "warnings" not in send(review("GPUPool", mild, old), made)


@pytest.mark.parametrize(
    ("guaranteed", "order", "words"),
    [
        ({"one": 5, "two": 4}, "Fair", "guarantees 9 slots to namespaces and has 8: the guarantees cannot all be met"),
        ({"one": 1}, "FIFO", "guarantees of namespaces have no effect in order FIFO"),
        ({"one": 0}, "FIFO", ""),
        ({"one": 4, "two": 4}, "Fair", ""),
        ({"*": 9}, "Fair", ""),
    ],
)
def test_guarantees_that_cannot_be_met_are_told_of(guaranteed: dict[str, int], order: str, words: str) -> None:
    def pool(shares: dict[str, int], order: str, total: int = 8) -> dict[str, Any]:
        namespaces = [{"name": name, "guaranteed": slots} for name, slots in shares.items()]
        capacity = {"unit": "card", "total": total, "available": total}
        made = to_json(world.pool("a", queue={"order": order, "namespaces": namespaces}))
        return made | {"status": {"capacity": capacity}}

    new = pool(guaranteed, order)
    told = send(review("GPUPool", new, pool({}, order))).get("warnings", [])
    assert words in "".join(told)
    assert bool(told) == bool(words)
    assert "warnings" not in send(review("GPUPool", new, new)), "it was told"
    if order == "Fair":
        assert "warnings" not in send(review("GPUPool", pool(guaranteed, order, total=0), pool({}, order)))
    else:
        other = send(review("GPUPool", new, pool(guaranteed, "Fair"))).get("warnings", [])
        assert bool(other) == bool(words), "a change of the order counts, too"


def test_deleting_a_pool_says_who_keeps_it() -> None:
    response = send(review("GPUPool", None, to_json(world.pool("a"))))
    assert response["allowed"]
    assert "stays until the end of 1 pod (team/train)" in response["warnings"][0]
    assert "but for cards whose Node is away by then, which lose it" in response["warnings"][0]
    assert send(review("GPUPool", None, to_json(world.pool("b")))).get("warnings") is None


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k not in {"GPUDevice", "GPUPool", "ModuleConfig", "Pod", "Binding"}]
)
def test_a_workload(kind: str) -> None:
    def told(pool: str, **spec: Any) -> list[str]:
        template = {"spec": {"template": {"spec": world.pod(1, pool=pool, **spec)["spec"]}}}
        body = {"spec": {"jobTemplate": template}} if kind == "CronJob" else template
        return send(review(kind, body)).get("warnings", [])

    assert told("a") == []
    assert told("nowhere")[0].startswith(f"pods of this {kind} will be refused: PoolNotFound: ")
    assert "AccessDenied" in told("closed")[0]
    both = [world.container({names.resource_name(pool): "1"}) for pool in ("a", "b")]
    assert "MixedPoolRequest" in told("a", containers=both)[0]


# --- pods that were admitted ------------------------------------------------------------------------

GATED = {"schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}]}
ONE_GATE = {"schedulingGates": GATED["schedulingGates"][:1]}


@pytest.mark.parametrize(
    ("pool", "left", "word"),
    [
        ("a", {}, ""),
        ("closed", {}, names.ACCESS_DENIED),
        ("closed", ONE_GATE, ""),
        ("nowhere", {}, ""),
    ],
    ids=["allowed", "closed meanwhile", "not the last gate", "the pool is gone"],
)
def test_a_gate_that_goes(pool: str, left: dict[str, Any], word: str) -> None:
    assert word_of(send(review("Pod", world.pod(pool=pool, **left), world.pod(pool=pool, **GATED)))) == word


def test_what_a_person_brought_is_read_from_the_pod_and_nonsense_there_counts_for_nobody() -> None:
    to = objects()
    to._stores.pools.on_watch_event(world.pool("closed", access={"dexGroups": ["ml"]}))

    def goes(noted: str) -> str:
        meta = {"annotations": {names.REQUESTED_BY: noted}}
        return word_of(send(review("Pod", world.pod(pool="closed", meta=meta), world.pod(pool="closed", **GATED)), to))

    assert goes('{"username":"jane","groups":["ml"]}') == ""
    for nobody in ('{"username":"jane","groups":["web"]}', '{"username":"system:node:n1","groups":["ml"]}', "[", "{}"):
        assert goes(nobody) == names.ACCESS_DENIED, nobody


def bound(to: ObjectReviewHandler, node: str) -> dict[str, Any]:
    return send(review("Binding", {"metadata": {"name": "p"}, "target": {"name": node}}), to)


class OnePod(NoApi):
    """An API server that has one pod."""

    def __init__(self, pod: dict[str, Any]) -> None:
        super().__init__()
        self.pod = pod

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        return orjson.dumps(self.pod) if path.endswith("/pods/p") else await super().request(method, path, **rest)


def test_a_pod_is_bound_where_something_is_reserved_for_it_now() -> None:
    admitted = world.pod(meta={"annotations": {names.REQUEST_ID: "r1"}})
    to = objects(OnePod(admitted))
    promised = {"reservations": [reservation("r1", until=time.time() + 60)], "hardware": {"pci": PCI}}
    to._stores.devices.on_watch_event(world.device("n1", 3, **promised))
    assert word_of(bound(to, "n1")) == ""
    assert "its cards are reserved on node n1." in bound(to, "n2")["status"]["message"]
    promised["reservations"] = [reservation("r1", until=time.time() - 1)]
    to._stores.devices.on_watch_event(world.device("n1", 3, **promised))
    assert "no card is reserved for it now." in bound(to, "n1")["status"]["message"]
    assert word_of(bound(objects(OnePod(world.pod(0))), "n2")) == ""


def test_a_pod_that_cannot_be_read_is_not_bound_and_one_that_is_not_there_is_no_matter() -> None:
    response = bound(objects(NoApi(Unreachable)), "n1")
    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert bound(objects(), "n1")["allowed"]
    api = NoApi()
    for odd in ("../secrets/x", "p?watch=1", "p%2f", ""):
        assert send(review("Binding", {"metadata": {"name": odd}, "target": {"name": "n1"}}), objects(api))["allowed"]
    assert api.asked == []


def test_every_word_and_every_webhook_has_its_row() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "validation.md").read_text()
    template = (root / "templates" / "gpu-admission-webhook" / "validating.yaml").read_text()
    words = {
        names.UNKNOWN_POOL, names.DEVICE_NOT_IN_SELECTOR, names.DEVICE_BUSY, names.DEVICE_NOT_READY,
        names.IMMUTABLE_FIELD, names.NAME_TOO_LONG, names.INVALID_MIG_PROFILE, names.NOT_RESERVED,
    }  # fmt: skip
    webhooks = set(re.findall(r"^- name: (\S+\.gpu\.deckhouse\.io)$", template, re.MULTILINE))
    assert len(webhooks) == 7
    webhooks |= {"workloads.gpu.deckhouse.io", "cronjobs.gpu.deckhouse.io"}
    policies = {f"gpu-control-plane-{path.stem}" for path in (root / "templates" / "policies").glob("*.yaml")}
    for name in words | webhooks | policies:
        assert f"`{name}`" in page, name


# --- whatever is sent -----------------------------------------------------------------------------


@pytest.mark.parametrize("body", NOT_REVIEWS.values(), ids=NOT_REVIEWS.keys())
def test_what_cannot_be_answered_is_said_to_be_no_review(body: bytes) -> None:
    with pytest.raises(NotAReview):
        parse(body)


def test_kinds_that_nobody_judges_and_odd_operations_go_on() -> None:
    for body in (
        world.review_of(world.pod()),
        review("GPUDevice", card(), card(), subResource="status"),
        review("GPUDevice", card(), card(), operation="CONNECT"),
        review("Deployment", {"spec": 5}),
    ):
        assert isinstance(parse(orjson.dumps(body)), OutOfScope)
        assert send(body)["allowed"]


def test_an_object_that_makes_no_sense_is_refused_with_a_sentence() -> None:
    for body in (
        review("GPUPool", {"metadata": [], "spec": {"allocation": MIG}}),
        review("GPUDevice", card(), None, operation="UPDATE"),
        review("GPUDevice", card(mark="a") | {"status": []}, card()),
        review("ModuleConfig", {"metadata": {"name": names.MODULE}, "spec": []}),
    ):
        assert isinstance(parse(orjson.dumps(body)), Unreadable)
        assert word_of(send(body)) == "Invalid"


MIG = {"mode": "MIG", "migProfile": "1g.5gb"}
STRANGE = {"metadata": {"name": "a"}, "spec": {"allocation": {"mode": "Fractional"}}}
"""A pool that was stored while the CRD had a mode that this version does not know."""


@pytest.mark.parametrize(
    ("kind", "new", "old"),
    [
        ("GPUPool", None, STRANGE),
        ("GPUPool", STRANGE | {"spec": STRANGE["spec"] | {"nodeSelector": {}}}, STRANGE),
        ("GPUPool", STRANGE | {"spec": {}}, STRANGE),
        ("GPUPool", STRANGE | {"spec": {"allocation": MIG}}, STRANGE),
        ("GPUDevice", card() | {"status": []}, card(mark="a") | {"status": []}),
    ],
    ids=["deleted", "changed elsewhere", "mended", "mended to MIG", "card taken out"],
)
def test_an_object_that_cannot_be_read_can_be_mended_and_deleted(kind: str, new: Any, old: Any) -> None:
    assert send(review(kind, new, old))["allowed"]


def test_a_pool_that_is_mended_is_judged_all_the_same() -> None:
    unknown = STRANGE | {"spec": {"allocation": {"mode": "MIG", "migProfile": "9g.998gb"}}}
    assert word_of(send(review("GPUPool", unknown, STRANGE))) == names.INVALID_MIG_PROFILE


SAMPLES: dict[str, tuple[Any, Any]] = {
    "GPUDevice": (card(1, pool="a", mark="b", **BUSY), card(1, pool="a", mark="a", conditions=[FAULT], **BUSY)),
    "GPUPool": (
        {
            "metadata": {"name": "a"},
            "spec": {
                "allocation": {"mode": "MIG", "migProfile": "1g.5gb"},
                "nodeSelector": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
                "deviceSelector": {"include": {"indexes": ["0-1"], "minComputeCapability": "8.0"}},
            },
        },
        to_json(world.pool("a")),
    ),
    "ModuleConfig": (
        {
            "metadata": {"name": names.MODULE},
            "spec": {"settings": {"health": {"recoveryScrapes": 3}, "logLevel": "Info"}},
        },
        {"metadata": {"name": names.MODULE}, "spec": {"enabled": False}},
    ),
    "CronJob": ({"spec": {"jobTemplate": {"spec": {"template": {"spec": world.pod()["spec"]}}}}}, None),
}  # fmt: skip
for _kind in ("Deployment", "StatefulSet", "DaemonSet", "Job"):
    SAMPLES[_kind] = ({"spec": {"template": {"spec": world.pod()["spec"]}}}, None)


@st.composite
def odd_reviews(draw: st.DrawFn) -> dict[str, Any]:
    """A review that was sensible until up to three of its parts were replaced or removed."""
    kind = draw(st.sampled_from(sorted(SAMPLES)))
    new, old = draw(st.sampled_from([SAMPLES[kind], SAMPLES[kind][::-1], (SAMPLES[kind][0], None)]))
    made = orjson.loads(orjson.dumps(review(kind, new, old)))
    for _ in range(draw(st.integers(0, 3))):
        _damage(draw, made["request"])
    return made


def _damage(draw: st.DrawFn, target: Any) -> None:
    while True:
        keys = [key for key in (target if isinstance(target, dict) else range(len(target))) if key != "uid"]
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        if isinstance(target[key], (dict, list)) and target[key] and draw(st.integers(0, 4)):
            target = target[key]
            continue
        target[key] = draw(json_values)
        return


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(odd_reviews())
def test_odd_reviews_are_answered_and_never_end_in_an_error(body: dict[str, Any]) -> None:
    response = send(body)
    assert response["uid"] == UID
    if not response["allowed"]:
        assert word_of(response).isalpha()
        assert word_of(response) != "InternalError", response
        parsed = parse(orjson.dumps(body))
        if isinstance(parsed, ObjectReview):
            assert parsed.kind in {"GPUDevice", "GPUPool", "ModuleConfig"}, "workloads are never refused"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | json_values.map(orjson.dumps))
def test_raw_bytes_never_end_in_an_error(body: bytes) -> None:
    try:
        asyncio.run(OBJECTS.handle(body, 1.0))
    except NotAReview:
        return
