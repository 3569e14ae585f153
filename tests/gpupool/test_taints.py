"""A pool's taints come with its first card and go with its last; what others put on a node stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names, resources
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.tenant import TenantPod
from controllers.gpupool.node import taints
from controllers.runtime.plan import EmitEvent, Merge
from tests.gpupool.world import AUTOMATIC, Cluster
from tests.kit import cluster, objects
from tests.kit.cluster import ConflictError

OURS = {"key": "gpu", "value": "train", "effect": "NoSchedule"}
EVICTING = {"key": "gpu", "value": "train", "effect": "NoExecute"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}


class Place(cluster.Cluster):
    """One node and the pools that have cards there."""

    def __init__(self, *there: dict[str, Any]) -> None:
        super().__init__()
        self.put(resources.NODE, {"metadata": {"name": "n1", "annotations": {}}, "spec": {"taints": list(there)}})
        self.running: list[TenantPod] = []
        self.coming: list[TenantPod] = []

    def pool(self, name: str, *wanted: dict[str, Any], created: str = "2026-01-01T00:00:00Z") -> None:
        self.add(objects.pool(name, meta={"creation_timestamp": created}, scheduling={"taints": wanted}))

    def view(self) -> taints.ObservedTaints:
        (node,) = self.all(resources.NODE, Node)
        pools = sorted(self.all(resources.GPUPOOL, GPUPool), key=lambda p: (p.metadata.creation_timestamp, p.name))
        return taints.ObservedTaints(node, tuple(pools), tuple(self.running), tuple(self.coming))

    def settle(self) -> list[dict[str, Any]]:
        """Until nothing is wanted; returns the node's taints."""
        for _ in range(3):
            made = taints.plan_taints(self.view())
            if not made.writes:
                return self.taints()
            self.execute(made.actions, names.MANAGER_POOL)
        raise AssertionError("it does not settle")

    def taints(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.objects["Node", "n1"]["spec"].get("taints", [])
        return found

    def somebody_sets(self, *there: dict[str, Any]) -> None:
        with self.edit("Node", "n1") as node:
            node["spec"]["taints"] = list(there)

    def remembered(self) -> list[dict[str, str]]:
        text = self.objects["Node", "n1"]["metadata"].get("annotations", {}).get(names.POOL_TAINTS)
        return json.loads(text) if text else []


def pod(*tolerations: dict[str, Any]) -> TenantPod:
    body = {"metadata": {"name": "p", "namespace": "team"}, "spec": {"tolerations": list(tolerations)}}
    return adapter(TenantPod).validate_python(body)


def test_they_come_with_the_pool_and_go_with_it_and_the_rest_stays_as_it_was() -> None:
    place = Place(CORDON)
    place.pool("a", OURS)
    assert place.settle() == [CORDON, OURS]
    assert place.remembered() == [{**OURS, "pool": "a"}]

    place.drop(resources.GPUPOOL, "a")
    assert place.settle() == [CORDON]
    assert place.remembered() == []


def test_a_taint_that_was_there_before_is_not_ours_and_never_goes() -> None:
    place = Place(OURS)
    place.pool("a", OURS)
    assert place.settle() == [OURS]
    place.drop(resources.GPUPOOL, "a")
    assert place.settle() == [OURS]


def test_a_foreign_value_of_the_same_key_stays_and_ours_does_not_come() -> None:
    foreign = {**OURS, "value": "mine"}
    place = Place(foreign)
    place.pool("a", OURS)
    assert place.settle() == [foreign]

    place = Place()
    place.pool("a", OURS)
    place.settle()
    place.somebody_sets(foreign)  # by hand, over ours
    assert place.settle() == [foreign]
    assert place.remembered() == []
    place.drop(resources.GPUPOOL, "a")
    assert place.settle() == [foreign]


def test_what_somebody_removed_comes_back_and_what_the_pool_changed_follows() -> None:
    place = Place()
    place.pool("a", OURS)
    place.settle()
    place.somebody_sets()
    assert place.settle() == [OURS]

    other = {**OURS, "value": "infer"}
    place.pool("a", other)
    assert place.settle() == [other]
    place.pool("a")
    assert place.settle() == []


def test_two_pools_may_want_the_same_and_the_oldest_has_the_say() -> None:
    place = Place()
    place.pool("young", {**OURS, "value": "young"}, created="2026-02-01T00:00:00Z")
    place.pool("old", OURS)
    assert place.settle() == [OURS]
    place.drop(resources.GPUPOOL, "old")
    assert place.settle() == [{**OURS, "value": "young"}]


def test_a_taint_that_says_how_a_node_is_belongs_to_kubernetes() -> None:
    place = Place()
    place.pool("a", {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    assert place.settle() == []


HURT: dict[str, tuple[dict[str, Any], str, dict[str, Any] | None, bool]] = {
    "it runs and would be evicted": (EVICTING, "running", None, True),
    "it runs and tolerates it": (EVICTING, "running", {"key": "gpu", "operator": "Exists"}, False),
    "it runs and stays": (OURS, "running", None, False),
    "its card is here and it could not come": (OURS, "coming", None, True),
    "its card is here and it tolerates it": (OURS, "coming", {"key": "gpu", "value": "train"}, False),
    "it would rather not": ({**OURS, "effect": "PreferNoSchedule"}, "coming", None, False),
}


@pytest.mark.parametrize(("taint", "where", "toleration", "withheld"), HURT.values(), ids=HURT.keys())
def test_a_pod_that_was_admitted_before_is_not_hurt(
    taint: dict[str, Any], where: str, toleration: dict[str, Any] | None, withheld: bool
) -> None:
    place = Place()
    place.pool("a", taint)
    setattr(place, where, [pod(*([toleration] if toleration else []))])
    made = taints.plan_taints(place.view())

    assert bool(made.writes) is not withheld
    if withheld:
        assert made.requeue_after is not None
        (note,) = [action for action in made.actions if isinstance(action, EmitEvent)]
        assert "pod team/p was admitted without a toleration" in note.message
        setattr(place, where, [])
    assert place.settle() == [taint]


FORMER = {"key": "gpu", "value": "train"}
LATER = {**OURS, "value": "infer"}
BOTH = (FORMER, {"key": "gpu", "value": "infer"})


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_former_value_stands_until_the_new_one_may_come_and_one_write_exchanges_them(effect: str) -> None:
    former, later = ({**one, "effect": effect} for one in (OURS, LATER))
    place = Place()
    place.pool("a", former)
    place.settle()
    setattr(place, "coming" if effect == "NoSchedule" else "running", [pod(FORMER), pod(*BOTH)])
    place.pool("a", later)
    assert place.settle() == [former]
    assert place.remembered() == [{**former, "pool": "a"}]
    made = taints.plan_taints(place.view())
    assert made.requeue_after is not None
    (note,) = [action for action in made.actions if isinstance(action, EmitEvent)]
    assert note.message.endswith("Until then the node keeps its value 'train'.")

    place.coming, place.running = [pod(*BOTH)], [pod(*BOTH)]
    (write,) = taints.plan_taints(place.view()).writes
    assert isinstance(write, Merge)
    assert write.body["spec"] == {"taints": [later]}
    assert place.settle() == [later]
    assert place.remembered() == [{**later, "pool": "a"}]


def test_a_former_value_goes_where_a_pod_comes_that_does_not_tolerate_it() -> None:
    """As one does that was admitted by an older version of the module, or a moment before the node was seen."""
    place = Place()
    place.pool("a", OURS)
    place.settle()
    place.coming = [pod(FORMER), pod({"key": "gpu", "value": "infer"})]
    place.pool("a", LATER)
    assert place.settle() == []
    place.coming = place.coming[1:]
    assert place.settle() == [LATER]


def test_a_former_value_that_somebody_exchanged_is_theirs() -> None:
    place = Place()
    place.pool("a", OURS)
    place.settle()
    place.coming = [pod(FORMER)]
    place.pool("a", LATER)
    place.settle()
    theirs = {**OURS, "value": "theirs"}
    place.somebody_sets(theirs)
    place.coming = []
    assert place.settle() == [theirs]
    assert place.remembered() == []


def tainted() -> tuple[Cluster, dict[str, Any]]:
    """A pool with its card on one node, which comes to want a taint; nothing of it is on the node yet."""
    made = Cluster()
    made.node("n1", 1)
    made.pool("a", **AUTOMATIC)
    made.settle()
    made.objects["GPUPool", "a"]["spec"]["scheduling"] = {"taints": [OURS]}
    made.touch(("GPUPool", "a"))
    return made, made.objects["Node", "n1"]


def reserved(made: Cluster, request: str) -> None:
    (name,) = [name for kind, name in made.objects if kind == "GPUDevice"]
    made.reserve(name, request, pod="web-*", namespace="team")


def put_off(made: Cluster) -> str:
    """What the event of a withheld taint says; empty where none is withheld."""
    seen = made.view().taints("n1", made.now)
    assert seen is not None
    found = taints.plan_taints(seen)
    notes = [action.message for action in found.actions if isinstance(action, EmitEvent)]
    assert bool(notes) is not bool(found.writes)
    assert (found.requeue_after is None) is not bool(notes)
    return "".join(notes)


def test_a_taint_waits_for_a_pod_that_is_promised_cards_and_has_not_appeared() -> None:
    """Its object may be a moment behind the webhook's reservation, and has no toleration for what was not there."""
    made, node = tainted()
    reserved(made, "r")
    assert "reserved for pod team/web-*, which has not appeared yet" in put_off(made)

    made.pod("web-1", "a", "r")
    assert "pod default/web-1 was admitted without a toleration" in put_off(made)

    made.pod("web-1", "a", "r", node="n1", phase="Running")
    made.settle()
    assert node["spec"]["taints"] == [OURS]


def test_a_reservation_of_a_pod_that_never_appears_puts_the_taint_off_no_longer_than_it_lasts() -> None:
    made, node = tainted()
    reserved(made, "r")
    assert put_off(made)
    made.now += 16.0
    made.settle()
    assert node["spec"]["taints"] == [OURS]


@pytest.mark.parametrize("fields", [{}, {"schedulingGates": [{"name": "later"}]}])
def test_a_taint_waits_for_a_pod_that_holds_no_reservation_now(fields: dict[str, Any]) -> None:
    """Between two turns, or behind a gate: no node of its pool would ever be open to it again."""
    made, node = tainted()
    made.pod("old", "a", "r")
    made.objects["Pod", "default/old"]["spec"] |= fields
    assert "pod default/old was admitted without a toleration" in put_off(made)

    tolerations = [{"key": "gpu", "operator": "Exists"}]
    made.objects["Pod", "default/old"]["spec"]["tolerations"] = tolerations
    assert put_off(made) == ""

    made.objects["Pod", "default/old"]["spec"].pop("tolerations")
    made.objects["Pod", "default/old"]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    made.settle()
    assert node["spec"]["taints"] == [OURS]


def test_a_taint_does_not_wait_for_a_pod_of_the_queue_which_gets_its_toleration_with_its_cards() -> None:
    made, node = tainted()
    made.pod("queued", "a", "r")
    made.objects["Pod", "default/queued"]["spec"]["schedulingGates"] = [{"name": names.CARDS_GATE}]
    made.settle()
    assert node["spec"]["taints"] == [OURS]


STARTUP = {"key": names.STARTUP_TAINT, "value": "true", "effect": "NoSchedule"}


def test_a_startup_taint_goes_once_all_cards_of_the_node_are_offered() -> None:
    class Starting(Cluster):
        """A node that is starting: after each write it is looked at."""

        def check(self) -> None:
            super().check()
            cards = [body["status"] for (kind, _), body in self.objects.items() if kind == "GPUDevice"]
            offered = [bool(status.get("published")) for status in cards]
            assert all(offered) or STARTUP in self.objects["Node", "n1"]["spec"]["taints"], f"gone while {offered}"

    made = Starting()
    made.node("n1", 2)
    made.objects["Node", "n1"]["spec"]["taints"] = [STARTUP, CORDON]
    made.touch(("Node", "n1"))
    made.pool("a", **AUTOMATIC)
    made.settle()
    assert made.objects["Node", "n1"]["spec"]["taints"] == [CORDON]


def test_on_a_node_without_cards_of_pools_a_startup_taint_stays() -> None:
    made = Cluster()
    made.node("n1", 1)
    made.objects["Node", "n1"]["spec"]["taints"] = [STARTUP]
    made.touch(("Node", "n1"))
    made.settle()
    assert made.objects["Node", "n1"]["spec"]["taints"] == [STARTUP]


def test_a_pod_of_a_pool_that_has_no_card_here_keeps_no_taint_off() -> None:
    made, _ = tainted()
    made.pod("elsewhere", "b", "r")
    assert put_off(made) == ""


@pytest.mark.parametrize("text", ["", "no json", "{}", "[1]", '[{"key": "gpu"}]'])
def test_a_memory_that_cannot_be_read_takes_nothing_away(text: str) -> None:
    place = Place(OURS)
    place.objects["Node", "n1"]["metadata"]["annotations"][names.POOL_TAINTS] = text
    assert place.settle() == [OURS]


def test_a_node_that_changed_meanwhile_is_read_again() -> None:
    place = Place()
    place.pool("a", OURS)
    (write,) = taints.plan_taints(place.view()).writes
    assert isinstance(write, Merge)
    place.somebody_sets(CORDON)
    with pytest.raises(ConflictError):
        place.execute([write], names.MANAGER_POOL)
    assert place.settle() == [CORDON, OURS]


taint = st.fixed_dictionaries(
    {"key": st.sampled_from("xy"), "value": st.sampled_from("12"), "effect": st.sampled_from(["NoSchedule"])}
)
one_each = st.lists(taint, max_size=3, unique_by=lambda entry: entry["key"])


@settings(max_examples=300, deadline=None)
@given(one_each, st.lists(st.tuples(st.sampled_from("ab"), one_each), max_size=5), st.lists(one_each, max_size=3))
def test_whatever_happens_a_taint_goes_only_if_we_put_it_there(
    there: list[dict[str, Any]], pools: list[tuple[str, list[dict[str, Any]]]], hands: list[list[dict[str, Any]]]
) -> None:
    place = Place(*there)
    foreign = {(t["key"], t["value"]) for t in there}
    for step, (name, wanted) in enumerate(pools):
        place.pool(name, *wanted)
        place.settle()
        if step < len(hands):
            ours = {(t["key"], t["value"]) for t in place.remembered()}
            place.somebody_sets(*hands[step])
            foreign = {(t["key"], t["value"]) for t in hands[step]} - ours
            place.settle()
        keys = [t["key"] for t in place.taints()]
        assert len(keys) == len(set(keys)), "the API server refuses two of one key and effect"
        assert foreign <= {(t["key"], t["value"]) for t in place.taints()}
    for name in "ab":
        place.drop(resources.GPUPOOL, name)
    assert {(t["key"], t["value"]) for t in place.settle()} == foreign
    assert place.remembered() == []
