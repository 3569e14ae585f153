"""Objects in the number and size that somebody might make them: what they cost, and where they end."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node, Pod
from controllers.api.record import adapter
from controllers.api.tenant import Expression, NodeTerm, TenantPod, UnadmittedPod
from controllers.bootstrap.records import Card
from controllers.domain import waiting
from controllers.domain.node_fit import PodConstraints, node_fits
from controllers.domain.request import PoolRequest, units_of
from controllers.domain.waiting import NodeCapacities, NodeCapacity, PendingPod
from controllers.gpupool.__main__ import UNADMITTED
from controllers.gpupool.node.plan import plan_node
from controllers.inventory.reports.discovered_cards import read
from tests.gpupool import world as pools
from tests.inventory import world as inventory
from tests.kit import conditions
from tests.kit.reports import read_report, report, reported
from tests.webhook import world
from tests.webhook.test_decide import view
from webhook.decision import pod_request, review
from webhook.decision.pending import PENDING_WORK_MAX
from webhook.decision.verdict import Denied

QUARTER_MIB = 256 * 1024
"""What the API server lets the annotations of one object be together."""
SENTENCE = 2000


def addressed(first: int, count: int) -> list[dict[str, str]]:
    """So many cards at places of their own."""
    at = range(first, first + count)
    return [
        reported(0, address=f"{n >> 8:04x}:{n & 0xFF:02x}:00.0", uuid=f"GPU-00000000-0000-0000-0000-{n:012d}")
        for n in at
    ]


def test_a_node_has_sixty_four_cards_however_many_its_agent_tells_of() -> None:
    """In one report, and in one after the other, each of which says that it does not tell of all."""
    made = inventory.Cluster()
    made.node(**{names.LABEL_PRESENT: "true"})
    made.report(addressed(0, 10_000))
    made.settle()
    assert len(made.devices()) == names.CARDS_MAX
    for first in range(100, 1000, 100):
        nameless = reported(0, address="")
        made.report([*addressed(first, 64), nameless])
        made.settle()
        assert len(made.devices()) == names.CARDS_MAX
    assert conditions.state_of(made.inventory(), "InventoryIncomplete")[0] == "True"


def test_who_is_left_out_is_said() -> None:
    made = inventory.Cluster()
    made.node(**{names.LABEL_PRESENT: "true"})
    made.report(addressed(0, 62))
    made.settle()
    made.report([*addressed(0, 62), *addressed(100, 2), reported(0, address="")])
    made.settle()
    for number in range(2):
        device = made.device(f"{inventory.NODE}-0000-{number:02x}-00-0")
        device["status"]["poolRef"] = {"name": "a", "resource": names.resource_name("a")}
        made.touch(("GPUDevice", device["metadata"]["name"]))
    made.report([*addressed(2, 60), *addressed(100, 2), *addressed(200, 1)])
    made.settle()
    assert len(made.devices()) == names.CARDS_MAX
    problem = conditions.message(made.inventory(), "InventoryIncomplete")
    assert "1 more reported than a node may have on record (64)" in problem


def test_room_comes_back_when_a_whole_report_says_who_is_gone() -> None:
    made = inventory.Cluster()
    made.node(**{names.LABEL_PRESENT: "true"})
    made.report(addressed(0, 64))
    made.settle()
    made.report(addressed(100, 64))
    made.settle()
    assert {name.rpartition("-0000-")[2] for name in made.devices()} == {f"{n:02x}-00-0" for n in range(100, 164)}


def test_a_report_of_thirty_thousand_elements_is_read_in_no_time() -> None:
    """As many as an object of 1.5 MiB, etcd's limit, can hold."""
    body = report("n", [{"address": f"{n:08x}:00:00.0"} for n in range(30_000)])
    assert len(json.dumps(body)) > 1_000_000
    feature = read_report(body)
    began = time.process_time()
    reading = read(feature)
    assert time.process_time() - began < 2
    assert reading is not None
    assert len(reading.cards) == names.CARDS_MAX
    assert not reading.is_complete


FLOOD = {f"example.com/{n}": "x" * 1000 for n in range(QUARTER_MIB // 1010)}
WANTED = {names.ASSIGNMENT: "a", names.RETURN: "true", names.LABEL_IGNORE: "true"}
OF_PODS = {names.REQUEST_ID: "r", names.DEVICES: "d"}


@pytest.mark.parametrize(
    ("record", "kept"), [(GPUDevice, WANTED), (Card, WANTED), (TenantPod, OF_PODS), (UnadmittedPod, OF_PODS)]
)
def test_caches_hold_of_annotations_what_is_read(record: Any, kept: dict[str, str]) -> None:
    """Thousands of cards, or of pods that have ended and are not deleted, with a quarter of a megabyte each."""
    meta = {"name": "x", "annotations": {**FLOOD, **kept}, "labels": {names.LABEL_POOL: "a"}}
    body = json.dumps({"metadata": meta}).encode()
    assert len(body) > QUARTER_MIB
    decode = adapter(record).validate_json
    found = decode(body)
    assert found.metadata.annotations == kept
    tracemalloc.start()
    cached = [decode(body) for _ in range(100)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(cached) == 100
    assert size < 100 * 10_000


def test_of_a_pods_labels_only_ours_is_held() -> None:
    labels = {**{f"example.com/{n}": "x" for n in range(1000)}, names.LABEL_POOL: "a"}
    found = adapter(TenantPod).validate_python({"metadata": {"name": "p", "labels": labels}})
    assert found.metadata.labels == {names.LABEL_POOL: "a"}


def test_ten_thousand_pools_that_all_mean_a_card_are_listed_in_part() -> None:
    made = pools.Cluster()
    made.node("n1", 8)
    for number in range(10_000):
        made.pool(f"p{number}")
    view = made.view()
    began = time.process_time()
    made.execute(plan_node(view.node("n1"), made.now).actions, names.MANAGER_POOL)
    took = time.process_time() - began
    (found,) = made.all(resources.GPUNODEINVENTORY, GPUNodeInventory)
    assert found.status.pools is not None
    assert len(found.status.pools.pending) == names.LIST_MAX
    assert len(json.dumps(made.objects["GPUNodeInventory", "n1"])) < 200_000
    assert took < 2


def test_a_wrong_name_among_ten_thousand_pools_is_one_sentence() -> None:
    refusal = pod_request.check_pool_is_open(PoolRequest("typo", 1), None, (f"pool-{n:05d}" for n in range(10_000)))
    assert refusal is not None
    assert refusal.error_code == names.POOL_NOT_FOUND
    assert len(refusal.message) < SENTENCE


def test_a_pod_of_five_thousand_pools_is_refused_in_one_sentence() -> None:
    limits = {names.resource_name(f"p{n}"): "1" for n in range(5000)}
    pod = world.pod()
    pod["spec"]["containers"] = [world.container(limits)]
    refusal = judged(pod)
    assert isinstance(refusal, Denied)
    assert refusal.error_code == names.MIXED_POOL_REQUEST
    assert "5000 pools" in refusal.message
    assert len(refusal.message) < SENTENCE


def test_a_pod_of_five_thousand_containers_is_counted() -> None:
    pod = world.pod()
    pod["spec"]["containers"] = [
        {**world.container({names.resource_name(world.POOL): "1"}), "name": f"c{n}"} for n in range(5000)
    ]
    found = judged(pod)
    assert isinstance(found, PoolRequest)
    assert found.units == 5000


def judged(pod: dict[str, Any]) -> object:
    """What the webhook makes of the request itself, and that it takes no time."""
    began = time.process_time()
    found = pod_request.parse_pool_request(world.request_of(pod).pod.spec)
    assert time.process_time() - began < 2
    return found


def test_pools_and_pods_are_what_they_were() -> None:
    """The trimmed records are for what strangers write; the others keep every key."""
    meta = {"name": "x", "annotations": {"example.com/a": "x"}, "labels": {"example.com/l": "x"}}
    for record in (GPUPool, Pod):
        found = adapter(record).validate_python({"metadata": meta})
        assert found.metadata.annotations == meta["annotations"]
        assert found.metadata.labels == meta["labels"]


def stranger(values: int = 0, **resources: Any) -> dict[str, Any]:
    """A pod whose affinity names so many values."""
    expression = {"key": "k", "operator": "NotIn", "values": [f"v{n}" for n in range(values)]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    node = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    containers = [{"name": "main", "resources": resources}]
    meta = {"name": "p", "namespace": "team", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"affinity": node, "containers": containers}}


def test_nothing_is_held_of_pods_that_ask_for_no_card() -> None:
    """The pool controller is told of every pod of the cluster."""
    assert UNADMITTED.only is not None
    asks = {names.resource_name("a"): "1"}
    for limits, kept in (({}, False), ({"cpu": "1", "nvidia.com/gpu": "1"}, False), (asks, True)):
        found = adapter(UnadmittedPod).validate_python(stranger(1, limits=limits))
        assert bool(UNADMITTED.only(found)) is kept


def test_pods_that_were_not_admitted_are_read_cheaply_whatever_they_hold() -> None:
    """Somebody without any right on cards cannot keep the pool controller busy with the affinity of pods."""
    body = json.dumps(stranger(100_000)).encode()
    took = {record: min(_reads(record, body) for _ in range(5)) for record in (UnadmittedPod, TenantPod)}
    assert took[UnadmittedPod] < took[TenantPod] / 4


def _reads(record: Any, body: bytes) -> float:
    decode = adapter(record).validate_json
    began = time.thread_time()  # of the processor: what others take of the machine does not count
    decode(body)
    return time.thread_time() - began


# --- what a pod says about its nodes ----------------------------------------------------------------

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def expressions(count: int, values: int = 1) -> list[dict[str, Any]]:
    return [{"key": f"k{at}", "operator": "NotIn", "values": [f"v{n}" for n in range(values)]} for at in range(count)]


def choosy(*terms: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """What a pod says about its nodes; a term is its expressions."""
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"affinity": {"nodeAffinity": {REQUIRED: required}}, **spec} if terms else spec


TOO_MUCH: dict[str, tuple[dict[str, Any], str]] = {
    "terms": (choosy(*[expressions(1)] * 65), "65 terms of required node affinity (at most 64)"),
    "expressions": (choosy(expressions(257)), "257 expressions of required node affinity (at most 256)"),
    "values": (choosy(expressions(2, 501)), "1002 values of required node affinity (at most 1000)"),
    "tolerations": (choosy(tolerations=[{"operator": "Exists"}] * 257), "257 tolerations (at most 256)"),
    "labels": (choosy(nodeSelector={f"k{n}": "v" for n in range(65)}), "65 labels of nodeSelector (at most 64)"),
    "text": (choosy([{"key": "k", "operator": "NotIn", "values": ["v" * 70_000]}]), "bytes of JSON"),
    "50,000 terms": (choosy(*[expressions(1)] * 50_000), "bytes of JSON"),
}


@pytest.mark.parametrize(("spec", "expected"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_a_pod_that_asks_says_so_much_about_its_nodes_and_no_more(spec: dict[str, Any], expected: str) -> None:
    """Each node of a pool is held against all of it, while others wait: 50,000 terms took 2 s on 60 nodes."""
    refused = answered(world.pod(**spec))
    assert refused["status"]["message"].startswith("Invalid: ")
    assert expected in refused["status"]["message"]


def test_as_much_as_that_is_allowed() -> None:
    most = choosy(
        *[expressions(4, 3)] * 64,
        tolerations=[{"operator": "Exists"}] * 256,
        nodeSelector={f"k{n}": "v" for n in range(64)},
    )
    assert "status" in (found := answered(world.pod(**most)))
    assert found["status"]["message"].startswith("InsufficientCapacity: ")


def answered(pod: dict[str, Any]) -> dict[str, Any]:
    """The webhook's answer where the pool has no card."""
    parsed = review.parse(json.dumps(world.review_of(pod)).encode())
    if isinstance(parsed, review.Request):
        found = world.decided_for(parsed, PoolRequest("a", 1), view(world.refusing_pool("a")))
        assert isinstance(found, Denied)
        parsed = review.Unreadable(parsed.uid, found)
    assert isinstance(parsed, review.Unreadable)
    answer: dict[str, Any] = json.loads(review.deny(parsed.uid, parsed.why))["response"]
    return answer


def held_in_little(body: bytes) -> list[TenantPod]:
    """Stored pods as a cache holds them, each in less than 10 kB."""
    decode = adapter(TenantPod).validate_json
    decode(body)
    tracemalloc.start()
    cached = [decode(body) for _ in range(3)]  # the reader of JSON keeps some strings for a while, as many as ever
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    cached += [decode(body) for _ in range(10)]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size - before < 10 * 10_000
    return cached


def test_caches_hold_little_of_what_a_node_says_of_itself() -> None:
    words = ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
    body = json.dumps({"metadata": {"name": "n"}, "status": {"nodeInfo": {w: w * 20_000 for w in words}}}).encode()
    assert len(body) > 4 * QUARTER_MIB
    told = adapter(Node).validate_json(body).status.node_info
    assert (told.kernel_version, len(told.os_image)) == (("kernelVersion" * 20_000)[:512], 512)
    assert max(map(len, (told.container_runtime_version, told.kubelet_version))) == 512


@pytest.mark.parametrize(
    "spec",
    [choosy(expressions(1, 30_000)), choosy(tolerations=[{"operator": "Exists"}] * 20_000)],
    ids=["values", "tolerations"],
)
@pytest.mark.parametrize("node", [None, "n1"], ids=["waits", "is bound"])
def test_caches_hold_little_of_what_a_stored_pod_says_about_its_nodes(spec: dict[str, Any], node: str | None) -> None:
    """Of one that was there before the webhook refused it: 1.4 MiB of values took 14 MiB in each process."""
    body = json.dumps(world.pod(**spec, nodeName=node)).encode()
    cached = held_in_little(body)
    if node is None:
        assert not any(node_fits(PodConstraints.of(pod.spec), world.node("n1")) for pod in cached)


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingGates": [{"name": f"example.com/g{n}"} for n in range(20_000)]},
        {
            "containers": [
                world.container({f"example.com/k{n}": "1" for n in range(20_000)} | {names.resource_name("a"): 1})
            ]
        },
        {"containers": [{"name": f"c{n}"} for n in range(20_000)] + [world.container({names.resource_name("a"): 1})]},
    ],
    ids=["gates", "resources", "containers"],
)
def test_caches_hold_of_a_stored_pod_what_it_asks_of_us(spec: dict[str, Any]) -> None:
    body = json.dumps(world.pod(**spec)).encode()
    cached = held_in_little(body)
    assert {units_of(pod, "a") for pod in cached} == {1}


def test_of_a_bound_pod_its_tolerations_are_kept_and_of_one_that_waits_everything() -> None:
    said = choosy(expressions(1), tolerations=[{"operator": "Exists"}], nodeSelector={"a": "b"})
    waits, bound = (adapter(TenantPod).validate_python(world.pod(**said, nodeName=node)) for node in (None, "n1"))
    assert (len(waits.spec.required_terms or ()), waits.spec.node_selector) == (1, {"a": "b"})
    assert (bound.spec.affinity, bound.spec.node_selector) == (None, {})
    assert bound.spec.tolerations == waits.spec.tolerations != ()


def test_a_review_looks_at_pods_that_wait_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred that all want something else, on a thousand nodes; each alone is within what is allowed."""
    compared = 0

    def counted(wants: PodConstraints, node: Node) -> bool:
        nonlocal compared
        compared += sum(len(e.values) for term in wants.terms or () for e in term.match_expressions)
        return node_fits(wants, node)

    monkeypatch.setattr(waiting, "node_fits", counted)
    values = tuple(f"v{n}" for n in range(1000))
    terms = (NodeTerm(match_expressions=(Expression(key="k", operator="In", values=values),)),)
    rooms = NodeCapacities((NodeCapacity(world.node(f"n{at}"), 1, 1) for at in range(1000)), PENDING_WORK_MAX)
    pods = [
        PendingPod(f"r{at}", "team", f"p{at}", "", 1, frozenset(), PodConstraints(None, (("n", str(at)),), terms, ()))
        for at in range(100)
    ]
    looked = 0
    while rooms and looked < len(pods):
        assert rooms.take(pods[looked]) is None
        looked += 1
    assert compared <= PENDING_WORK_MAX
    # Each has a tenth at most, so that those behind a few that fit nowhere are looked at, too.
    assert 10 <= looked < len(pods)


def test_pods_that_want_the_same_are_looked_at_once() -> None:
    rooms = NodeCapacities([NodeCapacity(world.node(f"n{at}"), 1, 1) for at in range(100)], work := 1000)
    same = [
        PendingPod(f"r{at}", "team", f"p{at}", "", 1, frozenset(), PodConstraints(None, (("n", "x"),), None, ()))
        for at in range(work)
    ]
    assert all(rooms.take(pod) is None for pod in same)
    assert rooms, "the second one cost as much as the first"
