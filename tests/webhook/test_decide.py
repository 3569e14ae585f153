"""Who gets cards, who does not, and what the refused read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.record import adapter
from controllers.api.settings import Settings, parse_settings
from controllers.api.tenant import TenantPod
from controllers.domain import node_fit
from controllers.domain.request import PoolRequest
from controllers.domain.taints import tolerations
from tests.kit.objects import allocation, namespace, reservation
from tests.webhook import world
from tests.webhook.world import Known
from webhook.decision import access, pod_request
from webhook.decision.context import View
from webhook.decision.records import AdmissionPodSpec
from webhook.decision.shortage import UnseenHistory
from webhook.decision.verdict import Denied, Placed, Queued

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool
    from controllers.domain.placement.capacity import NodeCapacity
    from webhook.decision.verdict import Verdict


def view(
    pool: GPUPool | None,
    *capacities: NodeCapacity,
    unseen: int = 0,
    settings: Settings | None = None,
    unseen_history: UnseenHistory | None = None,
    **labels: str,
) -> Known:
    found = namespace("team", **labels)
    tolerated = tolerations(pool) if pool is not None else ()
    seen = View(unseen, capacities, settings or Settings(), tolerated, unseen_history)
    return Known(pool, seen, found, ("a", "b"))


def free_node(name: str = "n1", cards: int = 2, **labels: str) -> NodeCapacity:
    return world.capacity_of(world.node(name, **labels), [world.device(name, number) for number in range(cards)])


def judged(raw: dict[str, Any], seen: Known) -> Verdict:
    return world.decided(raw, seen)


def refused(raw: dict[str, Any], seen: Known) -> str:
    verdict = judged(raw, seen)
    assert isinstance(verdict, Denied), verdict
    return verdict.message


def why_it_waits(raw: dict[str, Any], seen: Known) -> str:
    """Why the pool has no cards for the pod now."""
    verdict = judged(raw, seen)
    assert isinstance(verdict, Queued), verdict
    return verdict.shortage


def spec(**parts: Any) -> AdmissionPodSpec:
    return adapter(AdmissionPodSpec).validate_python(parts)


ASKS: dict[str, tuple[Any, Any]] = {
    "one card": (spec(containers=[world.container({"gpu.deckhouse.io/a": "1"})]), PoolRequest("a", 1)),
    "a number": (spec(containers=[world.container({"gpu.deckhouse.io/a": 2})]), PoolRequest("a", 2)),
    "requests equal to limits": (
        spec(
            containers=[
                {
                    "name": "m",
                    "resources": {
                        "requests": {"gpu.deckhouse.io/a": "1000m"},
                        "limits": {"gpu.deckhouse.io/a": "1"},
                    },
                }
            ]
        ),
        PoolRequest("a", 1),
    ),
    "two containers": (spec(containers=[world.container({"gpu.deckhouse.io/a": "1"})] * 2), PoolRequest("a", 2)),
    "init container": (
        spec(containers=[world.container()], initContainers=[world.container({"gpu.deckhouse.io/a": "3"})]),
        PoolRequest("a", 3),
    ),
    "sidecar": (
        spec(
            containers=[world.container({"gpu.deckhouse.io/a": "1"})],
            initContainers=[world.container({"gpu.deckhouse.io/a": "1"}, restartPolicy="Always")],
        ),
        PoolRequest("a", 2),
    ),
    "nothing": (spec(containers=[world.container({"cpu": "1"})]), None),
    "zero": (spec(containers=[world.container({"gpu.deckhouse.io/a": "0"})]), None),
    "zero of another pool": (
        spec(containers=[world.container({"gpu.deckhouse.io/a": "1", "gpu.deckhouse.io/b": "0"})]),
        PoolRequest("a", 1),
    ),
}


@pytest.mark.parametrize(("asking", "expected"), ASKS.values(), ids=ASKS.keys())
def test_what_a_pod_asks_for(asking: AdmissionPodSpec, expected: PoolRequest | None) -> None:
    assert pod_request.parse_pool_request(asking) == expected


def test_two_pools_are_refused() -> None:
    verdict = pod_request.parse_pool_request(
        spec(containers=[world.container({f"gpu.deckhouse.io/p{n}": "1" for n in range(9)})])
    )
    assert isinstance(verdict, Denied)
    assert verdict.message.startswith("MixedPoolRequest: the pod asks for cards of 9 pools (p0: 1, ")
    assert "and 4 more" in verdict.message


@pytest.mark.parametrize("quantity", ["500m", "many", "1e300000", "NaN", ""])
def test_what_is_no_whole_number_is_refused(quantity: str) -> None:
    verdict = pod_request.parse_pool_request(spec(containers=[world.container({"gpu.deckhouse.io/a": quantity})]))
    assert isinstance(verdict, Denied)
    assert verdict.message.startswith(f"Invalid: {quantity!r} is not a whole number of cards; ask for")


def test_a_request_beside_its_limit_is_read_too() -> None:
    resources = {"requests": {"gpu.deckhouse.io/a": "1.5"}, "limits": {"gpu.deckhouse.io/a": "1"}}
    verdict = pod_request.parse_pool_request(spec(containers=[{"name": "m", "resources": resources}]))
    assert isinstance(verdict, Denied)
    assert verdict.message.startswith("Invalid: '1.5' is not a whole number of cards; ask for")


@pytest.mark.parametrize(
    ("limits", "found"), [({}, "not set"), ({"gpu.deckhouse.io/a": "2"}, "2")], ids=["no limit", "another limit"]
)
def test_nothing_is_reserved_for_a_pod_that_kubernetes_will_refuse(limits: dict[str, str], found: str) -> None:
    resources = {"requests": {"gpu.deckhouse.io/a": "1"}, "limits": limits}
    verdict = pod_request.parse_pool_request(spec(containers=[{"name": "m", "resources": resources}]))
    assert isinstance(verdict, Denied)
    assert verdict.message == (
        f"Invalid: container 'm' requests gpu.deckhouse.io/a: 1, and its limit is {found}; Kubernetes wants them to be"
        " equal. Set the limit, and leave the request out."
    )


def test_a_pod_gets_a_free_card() -> None:
    verdict = judged(world.pod(), view(world.pool(), free_node()))
    assert isinstance(verdict, Placed)
    assert verdict.placement.node == "n1"
    assert len(verdict.placement.shares) == 1


def test_messages_are_bounded() -> None:
    message = refused(world.pod(pool="x" * 5000), view(None))
    assert message.startswith("PoolNotFound: there is no GPUPool 'xxx")
    assert len(message) < 500


REFUSALS: dict[str, tuple[Any, str, str]] = {
    "no pool": (None, "PoolNotFound", "Pools here: a, b."),
    "maintenance": (
        world.pool(conditions={"Maintenance": "mode changes from Exclusive to MIG."}),
        "PoolInMaintenance",
        "gives no cards now: its cards are being divided anew (Because). Try again when",
    ),
    "misconfigured": (
        world.pool(conditions={"Misconfigured": "no node has profile 9g.1gb"}),
        "PoolMisconfigured",
        "no node has profile 9g.1gb. Its administrator",
    ),
    "another namespace": (
        world.pool(access={"namespaces": ["ml"]}),
        "AccessDenied",
        "namespace team (ServiceAccount default) may not use GPUPool a; its spec.access allows namespaces ml",
    ),
    "groups only": (
        world.pool(access={"dexGroups": ["ml"]}),
        "AccessDenied",
        "groups ml (jane is in none of them)",
    ),
    "no cards": (world.refusing_pool(), "InsufficientCapacity", "no card has been assigned to it yet"),
}


@pytest.mark.parametrize(("pool", "word", "part"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals_say_what_and_what_to_do(pool: GPUPool | None, word: str, part: str) -> None:
    message = refused(world.pod(), view(pool))
    assert message.startswith(f"{word}: ")
    assert part in message
    assert message.endswith(".")


def test_nobody_reads_which_pods_of_others_a_pool_in_maintenance_waits_for() -> None:
    waits = world.pool(conditions={"Maintenance": "Waiting for pods that hold cards: other/secret-project-0."})
    assert "secret-project" not in refused(world.pod(), view(waits, free_node()))


def halted(why: str = "gpu-7: it cannot be reset, pid 7 of other/secret-project-0 has it.") -> GPUPool:
    """A pool whose layout failed: both conditions say so, in the same words."""
    pool = world.pool(conditions={"Maintenance": why, "Misconfigured": why})
    told = tuple(replace(condition, reason=names.REASON_LAYOUT_FAILED) for condition in pool.status.conditions)
    return replace(pool, status=replace(pool.status, conditions=told))


def test_a_layout_that_failed_is_nothing_to_wait_for() -> None:
    message = refused(world.pod(), view(halted(), free_node()))
    assert message == (
        "PoolMisconfigured: GPUPool a gives no cards now: its cards could not be divided as its spec asks"
        " (LayoutFailed). Its administrator has to mend it: kubectl describe gpupool a."
    )


def test_a_module_that_is_disabled_is_what_a_refusal_says() -> None:
    off = world.pool(conditions={"Maintenance": "The module is disabled."})
    condition = replace(off.status.conditions[0], reason=names.REASON_MODULE_DISABLED)
    message = refused(world.pod(), view(replace(off, status=replace(off.status, conditions=(condition,)))))

    assert message.startswith("PoolInMaintenance: ")
    assert "the module is disabled by ModuleConfig gpu-control-plane, and pods that run keep their cards" in message


ACCESS: dict[str, tuple[dict[str, Any], bool]] = {
    "none": ({}, True),
    "namespace": ({"namespaces": ["x", "team"]}, True),
    "other namespace": ({"namespaces": ["x"]}, False),
    "label": ({"namespaceSelector": {"matchLabels": {"gpu": "yes"}}}, True),
    "other label": ({"namespaceSelector": {"matchLabels": {"gpu": "no"}}}, False),
    "selector of everything": ({"namespaceSelector": {}}, True),
    "account": ({"serviceAccounts": ["team/runner"]}, True),
    "account of another namespace": ({"serviceAccounts": ["x/runner"]}, False),
    "other account": ({"serviceAccounts": ["team/default"]}, False),
    "union": ({"namespaces": ["x"], "serviceAccounts": ["team/runner"]}, True),
    "groups": ({"dexGroups": ["system:authenticated"]}, True),
    "other groups": ({"dexGroups": ["ml"]}, False),
    "groups or namespace": ({"dexGroups": ["g"], "namespaces": ["team"]}, True),
}


@pytest.mark.parametrize(("access", "allowed"), ACCESS.values(), ids=ACCESS.keys())
def test_access_is_the_union_of_the_lists(access: dict[str, Any], allowed: bool) -> None:
    verdict = judged(world.pod(serviceAccountName="runner"), view(world.pool(access=access), free_node(), gpu="yes"))
    assert isinstance(verdict, Placed) == allowed


def test_labels_of_an_unknown_namespace_allow_nothing() -> None:
    seen = view(world.pool(access={"namespaceSelector": {}}), free_node())
    unknown = Known(seen.pool, seen.view)
    assert refused(world.pod(), unknown).startswith("AccessDenied: ")


def test_a_pool_that_is_going_gives_nothing() -> None:
    from controllers.api.gpupool import GPUPool

    pool = adapter(GPUPool).validate_python({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert "is being deleted" in refused(world.pod(), view(pool, free_node()))


def test_capacity_is_told_in_numbers() -> None:
    used = world.device("n1", 0, allocations=[allocation()])
    reserved = world.device("n1", 1, reservations=[reservation("r")])
    broken = world.device("n1", 2, conditions=[{"type": "Faulted", "status": "True", "reason": "Xid"}])
    node_capacity = world.capacity_of(world.node("n1"), [used, reserved, broken, world.device("n1", 3)])
    message = refused(world.pod(2), view(world.refusing_pool(), node_capacity))
    assert "cannot give 2 now: there are not enough free ones" in message
    assert "(total 4, used 1, reserved 1, unavailable 1, free 1)" in message
    assert "ReplicaSet" in message


def test_a_shortage_names_its_cause() -> None:
    capacities = (free_node("n1", 1), free_node("n2", 1))
    for raw, cause in (
        (world.pod(2), "a pod's cards are on one node, and no node has more than 1 free"),
        (world.pod(3), "there are not enough free ones"),
        (
            world.pod(nodeSelector={"disk": "ssd"}),
            "the nodes with enough free ones do not match the pod's node selector, affinity or tolerations",
        ),
    ):
        assert why_it_waits(raw, view(world.pool(), *capacities)) == cause
        assert f"now: {cause} (total 2, " in refused(raw, view(world.refusing_pool(), *capacities))


def test_a_pod_that_names_its_node_gets_cards_there_or_none() -> None:
    capacities = (free_node("n1", 1), free_node("n2", 2))
    verdict = judged(world.pod(2, nodeName="n2"), view(world.pool(), *capacities))
    assert isinstance(verdict, Placed)
    assert verdict.placement.node == "n2"
    for name, free in (("n1", 1), ("elsewhere", 0)):
        message = refused(world.pod(2, nodeName=name), view(world.pool(), *capacities))
        assert f"cannot give 2 now: the pod names node {name} (spec.nodeName), which has {free} free (" in message


def pool_with(affinity: dict[str, Any]) -> GPUPool:
    return world.pool(scheduling={"affinity": affinity})


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_the_pools_affinity_decides_which_nodes_are_possible() -> None:
    capacities = (free_node("n1", disk="hdd"), free_node("n2", disk="ssd"))
    pool = pool_with(required(term("disk", "In", "ssd")))
    verdict = judged(world.pod(), view(pool, *capacities))
    assert isinstance(verdict, Placed)
    assert verdict.placement.node == "n2"
    own = required(term("disk", "In", "hdd"))
    why = why_it_waits(world.pod(affinity=own), view(pool, *capacities))
    assert "do not match the pod's node selector, affinity or tolerations or the pool's affinity" in why


UNREADABLE_AFFINITY: dict[str, dict[str, Any]] = {
    "text": {"nodeAffinity": "near"},
    "no terms": required(),
    "pods are text": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": "x"}},
}


@pytest.mark.parametrize("affinity", UNREADABLE_AFFINITY.values(), ids=UNREADABLE_AFFINITY.keys())
def test_a_pools_affinity_that_makes_no_sense_is_its_administrators(affinity: dict[str, Any]) -> None:
    message = refused(world.pod(), view(pool_with(affinity), free_node()))
    assert message.startswith("PoolMisconfigured: GPUPool a gives no cards now: spec.scheduling.affinity ")
    assert message.endswith("Its administrator has to mend it there: kubectl edit gpupool a.")


def one(values: int) -> dict[str, Any]:
    """A term of one expression."""
    return {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": [str(n) for n in range(values)]}]}


@pytest.mark.parametrize(
    ("own", "pools", "told"),
    [
        ([one(1)] * 51, [one(1)] * 10, ""),
        ([one(1)] * 52, [one(1)] * 10, "would have 520 terms (at most 512)"),
        ([one(1000)], [one(1)] * 8, ""),
        ([one(1000)], [one(1)] * 9, "would have 9009 values (at most 8192)"),
        ([{"matchExpressions": one(1)["matchExpressions"] * 256}], [one(1)] * 16, "4128 expressions (at most 4096)"),
        ([], [one(1)] * 513, "would have 513 terms (at most 512)"),
    ],
)
def test_what_would_grow_without_end_is_refused(own: list[Any], pools: list[Any], told: str) -> None:
    """More than is kept of a stored pod: it would never be reserved for anew."""
    pod = world.pod(affinity=required(*own)) if own else world.pod()
    verdict = judged(pod, view(pool_with(required(*pools)), free_node()))
    if told:
        assert isinstance(verdict, Denied)
        assert verdict.message.startswith("Invalid: the pod's node affinity, joined with that of GPUPool a, would have")
        assert told in verdict.message
    else:
        assert isinstance(verdict, Placed)
        stored = adapter(TenantPod).validate_python(world.apply_patch(pod, verdict.patch))
        assert stored.spec.required_terms, "nothing is kept of what it says"


@pytest.mark.parametrize(
    ("unseen_history", "units", "allowed"),
    [
        (None, 8, True),
        (UnseenHistory(0, 1.0), 2, True),
        (UnseenHistory(0, 1.0), 3, True),
        (UnseenHistory(0, 1.0, 2), 8, True),
        (UnseenHistory(0, 1.0, 3), 3, False),
        (UnseenHistory(0, 1.0, 8), 2, True),
        (UnseenHistory(1, 1.0), 1, True),
        (UnseenHistory(1, 1.0), 2, False),
        (UnseenHistory(2, 500.0), 1, False),
        (UnseenHistory(1, 500.0), 8, False),
    ],
)
def test_of_a_namespace_with_a_record_a_share_of_the_pool_is_reserved(
    unseen_history: UnseenHistory | None, units: int, allowed: bool
) -> None:
    """A quarter of eight; what is larger by itself comes through alone where nothing so large was lost."""
    verdict = judged(world.pod(units), view(world.refusing_pool(), free_node(cards=8), unseen_history=unseen_history))
    assert isinstance(verdict, Placed) == allowed
    if isinstance(verdict, Denied):
        assert "now has" in verdict.message
        assert "2 may be so at once" in verdict.message


def test_a_pool_of_one_card_is_shared_by_turns() -> None:
    for unseen_history, allowed in ((UnseenHistory(0, 1.0), True), (UnseenHistory(1, 1.0), False)):
        verdict = judged(world.pod(), view(world.refusing_pool(), free_node(cards=1), unseen_history=unseen_history))
        assert isinstance(verdict, Placed) == allowed


def test_every_refusal_for_shortage_says_to_pipelines_that_it_passes() -> None:
    """Argo and Tekton try again where a refusal with 403 has these words, and fail their step elsewhere."""
    pool = world.refusing_pool()
    full, seen = view(pool), view(pool, free_node())
    lost = view(pool, free_node(), unseen_history=UnseenHistory(2, 1.0))
    refusals = [
        judged(world.pod(), full),
        judged(world.pod(9), seen),
        judged(world.pod(), view(pool, free_node(), unseen=99)),
        judged(world.pod(2), lost),
    ]
    for verdict in refusals:
        assert isinstance(verdict, Denied)
        assert (verdict.error_code, verdict.http_status) == (names.INSUFFICIENT_CAPACITY, 403)
        assert "exceeded quota" in verdict.message


def test_the_cap_on_unseen_reservations() -> None:
    settings = parse_settings({"admission": {"maxUnseen": 3}})
    assert isinstance(judged(world.pod(), view(world.pool(), free_node(), unseen=2, settings=settings)), Placed)
    message = refused(world.pod(), view(world.refusing_pool(), free_node(), unseen=3, settings=settings))
    assert message.startswith("InsufficientCapacity: namespace team has 3 reservations whose pods never appeared")
    assert "admission.maxUnseen allows 3" in message


def test_taints_of_the_pool_are_tolerated_and_others_respected() -> None:
    taint = {"key": "gpu", "value": "a", "effect": "NoSchedule"}
    pool = world.pool(scheduling={"taints": [taint]})
    tainted = world.capacity_of(world.node("n1", taints=[taint]), [world.device("n1", 0)])
    verdict = judged(world.pod(), view(pool, tainted))
    assert isinstance(verdict, Placed)
    assert {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"} in next(
        op["value"] for op in verdict.patch if op["path"] == "/spec/tolerations"
    )
    foreign = [taint, {"key": "special", "effect": "NoSchedule"}]
    guarded = world.capacity_of(world.node("n1", taints=foreign), [world.device("n1", 0)])
    assert "tolerations" in why_it_waits(world.pod(), view(pool, guarded))
    tolerant = world.pod(tolerations=[{"key": "special", "operator": "Exists"}])
    assert isinstance(judged(tolerant, view(pool, guarded)), Placed)


def test_the_runtime_class_of_the_settings_is_given() -> None:
    settings = parse_settings({"admission": {"runtimeClassName": "nvidia"}})
    verdict = judged(world.pod(), view(world.pool(), free_node(), settings=settings))
    assert isinstance(verdict, Placed)
    assert {"op": "add", "path": "/spec/runtimeClassName", "value": "nvidia"} in verdict.patch


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


FITS: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, True),
    "selector": ({"nodeSelector": {"zone": "z1"}}, True),
    "other selector": ({"nodeSelector": {"zone": "z2"}}, False),
    "node name": ({"nodeName": "n1"}, True),
    "other node name": ({"nodeName": "n2"}, False),
    "in": ({"terms": [term("zone", "In", "z0", "z1")]}, True),
    "not in": ({"terms": [term("zone", "NotIn", "z1")]}, False),
    "not in, absent": ({"terms": [term("none", "NotIn", "z1")]}, True),
    "exists": ({"terms": [term("zone", "Exists")]}, True),
    "does not exist": ({"terms": [term("zone", "DoesNotExist")]}, False),
    "greater": ({"terms": [term("gen", "Gt", "4")]}, True),
    "less": ({"terms": [term("gen", "Lt", "4")]}, False),
    "greater than words": ({"terms": [term("zone", "Gt", "4")]}, False),
    "unknown operator": ({"terms": [term("zone", "Near", "z1")]}, False),
    "one of two": ({"terms": [term("zone", "In", "z9"), term("zone", "In", "z1")]}, True),
    "empty term": ({"terms": [{}]}, False),
    "no terms": ({"terms": []}, False),
    "field": ({"terms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}, True),
    "other field": ({"terms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}]}, False),
}


@pytest.mark.parametrize(("parts", "expected"), FITS.values(), ids=FITS.keys())
def test_which_nodes_are_possible(parts: dict[str, Any], expected: bool) -> None:
    if "terms" in parts:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": parts["terms"]}}
        parts = {"affinity": {"nodeAffinity": required}}
    node = world.node("n1", zone="z1", gen="5")
    assert node_fit.node_fits(node_fit.PodConstraints.of(spec(**parts), ()), node) == expected


TOLERATES: dict[str, tuple[dict[str, str], bool]] = {
    "everything": ({"operator": "Exists"}, True),
    "key": ({"key": "k", "operator": "Exists"}, True),
    "other key": ({"key": "x", "operator": "Exists"}, False),
    "value": ({"key": "k", "operator": "Equal", "value": "v"}, True),
    "value by default": ({"key": "k", "value": "v"}, True),
    "other value": ({"key": "k", "value": "x"}, False),
    "effect": ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
    "other effect": ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
    "unknown operator": ({"key": "k", "operator": "Like", "value": "v"}, False),
}


@pytest.mark.parametrize(("toleration", "expected"), TOLERATES.values(), ids=TOLERATES.keys())
def test_what_a_toleration_covers(toleration: dict[str, str], expected: bool) -> None:
    node = world.node("n1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    assert node_fit.node_fits(node_fit.PodConstraints.of(spec(tolerations=[toleration]), ()), node) == expected


def test_a_taint_that_only_prefers_keeps_nobody_away() -> None:
    node = world.node("n1", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    assert node_fit.node_fits(node_fit.PodConstraints.of(spec(), ()), node)


def test_a_node_without_the_pools_label_is_not_chosen() -> None:
    bare = world.node("n1", pool="b")
    node_capacity = world.capacity_of(bare, [world.device("n1", 0)])
    assert names.pool_node_label("a") not in bare.metadata.labels
    assert "do not match" in why_it_waits(world.pod(), view(world.pool(), node_capacity))


def test_the_modules_own_namespace_uses_no_cards() -> None:
    """Its pods carry the pool's label as operands: whoever counts a pool's pods leaves them out."""
    refusal = access.resolve(world.pool(), access.Requester(names.NAMESPACE, None, "default")).denied

    assert refusal is not None
    assert refusal.error_code == names.ACCESS_DENIED


SHARED_BY_MPS = {"mode": "MPS", "mps": {"clients": 4}}


def test_a_container_is_one_client_of_mps_and_a_pod_may_have_several() -> None:
    pool = world.pool(allocation=SHARED_BY_MPS)
    assert "can be one client of one card" in refused(world.pod(2), view(pool, free_node()))
    one = world.container({"gpu.deckhouse.io/a": "1"})
    both = world.pod(1) | {"spec": {"containers": [one, one | {"name": "second"}]}}
    cards = [world.device("n1", number, slots=4) for number in range(2)]
    placed = judged(both, view(pool, world.capacity_of(world.node("n1"), cards)))
    assert isinstance(placed, Placed), placed
    others = world.pool(allocation={"mode": "TimeSlice"})
    assert not isinstance(judged(world.pod(2), view(others, free_node())), Denied)
