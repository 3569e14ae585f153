"""Who waits, at which place and why: as gpupool-controller computes it, or as a pool's status says it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.api.tenant import TenantPod
from controllers.explain import queue_table
from controllers.explain.misfit import explain_misfit
from controllers.explain.queue import Queue, from_status
from controllers.explain.queue_order import computed
from controllers.explain.queue_seen import QueueSeen
from controllers.explain.records import Unreadable
from tests.gpupool.test_queued_pods import Queue as Served
from tests.kit import objects
from tests.kubectl_gpu.queues import GATE, KUEUE, cards, node, queued, seen, used
from tests.kubectl_gpu.test_say import NOW, POOL


def places(queue: Queue) -> dict[str, int | None]:
    return {each.pod: each.position for each in queue.waiters}


def reasons(queue: Queue) -> dict[str, str]:
    return {each.pod: each.reason for each in queue.waiters}


class TestComputed:
    def test_the_order_and_the_cards_ahead(self) -> None:
        found = computed(seen(queued("young", age=10), queued("old", 2, age=90), on=used("n1", 2)))
        assert [(each.pod, each.position, each.ahead, each.reason) for each in found.waiters] == [
            ("old", 1, 0, "Waiting"),
            ("young", 2, 2, "Waiting"),
        ]
        assert (found.total, found.units, found.used) == (2, 3, {})

    def test_priority_comes_first_and_what_a_namespace_has_counts(self) -> None:
        pods = (
            queued("a", age=90, team="rich"),
            queued("b", age=10, team="poor"),
            queued("urgent", age=1, team="rich", priority=5),
            dataclasses.replace(queued("runs", gates=(), team="rich", nodeName="n1")),
        )
        found = computed(seen(*pods, on=used("n1", 1, team="rich")))
        assert places(found) == {"urgent": 1, "b": 2, "a": 3}
        assert found.used["rich"] == 1

    def test_a_namespace_at_its_limit_is_passed_over_and_is_ahead_of_nobody(self) -> None:
        shares = {"queue": {"namespaces": [{"name": "team", "limit": 1}]}}
        runs = queued("runs", gates=(), nodeName="n1")
        pods = (runs, queued("more", 4, age=90), queued("theirs", age=10, team="other", priority=-1))
        found = computed(seen(*pods, on=used("n1", 1), pool=shares))
        assert reasons(found) == {"more": "OverLimit", "theirs": "Waiting"}
        assert [each.ahead for each in found.waiters] == [0, 0]
        assert found.limits == {"team": 1}

    def test_a_node_is_kept_for_one_that_has_waited_long_enough(self) -> None:
        on = [*cards("n1", 1), *used("n2", 2)]
        found = computed(seen(queued("big", 2, age=601), queued("small", age=10), on=on))
        big, small = found.waiters
        assert (big.node, big.node_use) == ("n2", "kept")
        assert (small.node, small.node_use) == ("n1", "free")

    def test_nothing_is_free_that_pods_without_a_gate_have_waited_for_before(self) -> None:
        """Their reservation ran out: they are reserved for anew before the queue is served."""
        before = queued("released", gates=(), age=300)
        found = computed(seen(before, queued("p"), on=cards("n1", 1)))
        assert [(each.pod, each.node_use) for each in found.waiters] == [("p", None)]

    def test_behind_gates_of_others_and_after_a_refusal_a_pod_has_no_place(self) -> None:
        pods = (
            queued("theirs", age=90, gates=(KUEUE, GATE), says="Waiting"),
            queued("denied", age=80, says="ReleaseDenied"),
            queued("p", says="OtherGates"),
        )
        found = computed(seen(*pods, on=used("n1", 1)))
        assert places(found) == {"p": 1, "theirs": None, "denied": None}
        assert reasons(found) == {"theirs": "OtherGates", "denied": "ReleaseDenied", "p": "Waiting"}
        assert found.total == 1

    def test_a_pool_that_gives_nothing_is_why(self) -> None:
        closed = {"conditions": [objects.condition("Maintenance")]}
        found = computed(seen(queued("p", says="Waiting"), on=cards("n1", 1), pool=closed))
        assert [(each.position, each.reason, each.node) for each in found.waiters] == [(1, "PoolClosed", None)]

    def test_one_that_no_node_could_take(self) -> None:
        found = computed(seen(queued("huge", 9, age=900), queued("p"), on=used("n1", 2)))
        assert reasons(found) == {"huge": "NoNodeFits", "p": "Waiting"}
        assert [each.ahead for each in found.waiters] == [0, 0]

    def test_one_whose_cards_are_reserved_is_let_go_on(self) -> None:
        held = objects.reservation("r-p", since=NOW - 1, until=NOW + 60)
        found = computed(seen(queued("p"), queued("next"), on=cards("n1", 1, reservations=[held])))
        first, second = found.waiters
        assert (first.pod, first.position, first.node, first.node_use) == ("p", None, "n1", "reserved")
        assert (second.pod, second.position, found.total) == ("next", 1, 1)

    def test_what_runs_ended_or_goes_does_not_wait(self) -> None:
        pods = (
            queued("ended", phase="Failed"),
            queued("going", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            queued("runs", gates=(), nodeName="n1"),
        )
        assert computed(seen(*pods, on=used("n1", 1))).waiters == ()

    def test_without_nodes_the_order_is_known_all_the_same(self) -> None:
        no = Unreadable("dev may not list nodes.")
        pods = (queued("b", age=1), queued("a", age=600, says="NoNodeFits"))
        found = computed(seen(*pods, on=cards("n1", 1), nodes=no))
        assert [(each.pod, each.position, each.reason, each.node) for each in found.waiters] == [
            ("a", 1, "NoNodeFits", None),
            ("b", 2, "Waiting", None),
        ]
        assert found.limitations == (no.reason,)

    @pytest.mark.parametrize(
        "meta",
        [{"creationTimestamp": "yesterday"}, {"creationTimestamp": ""}, {"annotations": {}}, {"labels": {}}],
        ids=lambda meta: next(iter(meta)),
    )
    def test_a_pod_that_somebody_spoiled_spoils_no_answer(self, meta: dict[str, Any]) -> None:
        spoiled = queued("spoiled", meta=meta)
        found = computed(seen(spoiled, queued("p"), on=used("n1", 1)))
        assert "p" in places(found)
        rows = [queue_table.waiter(each, NOW) for each in found.waiters]
        assert len(rows) == len(found.waiters)


def of_cluster(pool: Served) -> QueueSeen:
    """What a person who may read everything sees of a test's cluster."""
    found = {one.name: one for one in pool.all(resources.NODE, Node)}
    (its,) = pool.all(resources.GPUPOOL, GPUPool)
    pods, members = pool.all(resources.POD, TenantPod), pool.all(resources.GPUDEVICE, GPUDevice)
    return QueueSeen(its, tuple(pods), tuple(members), found, (), pool.now)


PODS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1200), st.integers(0, 2)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(PODS, st.lists(st.integers(0, 4), min_size=1, max_size=3), st.sampled_from(("FIFO", "Priority", "Fair")))
def test_it_is_what_the_controller_comes_to(pods: list[tuple[int, int, int]], nodes: list[int], order: str) -> None:
    """Who is served, who waits in which order, and why."""
    pool = Served({f"n{at}": count for at, count in enumerate(nodes)}, queue={"order": order})
    for at, (units, age, priority) in enumerate(pods):
        pool.queues(f"p{at}", units, age=float(age), priority=priority)
    planned, found = pool.look(), computed(of_cluster(pool))
    assert planned is not None
    served = {key for promise in planned.promises for key in promise.pods}
    assert {each.key for each in found.waiters if each.node_use == "free"} == served
    rest = [each for each in found.waiters if each.node_use != "free"]
    assert {each.key: each.reason for each in rest} == {key: wait.cause for key, wait in planned.reasons.items()}


class TestFromStatus:
    def pool(self, **queue: Any) -> GPUPool:
        status = {"waiting": 41, "waitingUnits": 120} | queue
        return objects.pool(POOL, status={"queue": status}, queue={"namespaces": [{"name": "*", "limit": 16}]})

    def test_ones_own_pods_are_told_without_a_place_and_others_are_counted(self) -> None:
        own = (queued("mine", says="Waiting"), queued("later", says="OverLimit"), queued("runs", gates=()))
        found = from_status(self.pool(), own, ["dev may not list pods."])
        assert {(each.key, each.position, each.ahead) for each in found.waiters} == {
            ("team/mine", None, None),
            ("team/later", None, None),
        }
        assert (found.total, found.units, found.limits["team"]) == (41, 120, 16)
        note, why = found.limitations
        assert note == f"GPUPool {POOL} says how many wait, and nothing of their order"
        assert why == "dev may not list pods."

    def test_where_the_status_says_nothing_ones_own_are_counted(self) -> None:
        found = from_status(objects.pool(POOL), (queued("a", 2), queued("b", gates=(GATE, KUEUE))), ())
        assert (found.total, found.units, reasons(found)) == (1, 2, {"a": "Waiting", "b": "OtherGates"})


class TestTables:
    def test_a_row_and_the_same_for_programs(self) -> None:
        found = computed(seen(queued("big", 2, age=700, priority=3), on=[*used("n1", 1), *cards("n2", 2, slots=0)]))
        (one,) = found.waiters
        texts = [cell.text for cell in queue_table.waiter(one, NOW)]
        assert texts[:6] == ["1", "team", "big", "2", "3", "11m"]
        assert len(texts) == len(queue_table.QUEUE)
        (told,) = queue_table.as_json(found)["pods"]
        assert (told["position"], told["units"], told["priority"], told["ahead"]) == (1, 2, 3, 0)

    def test_each_pool_for_which_somebody_waits(self) -> None:
        elsewhere = queued("x", 3, age=10, pool="gone")
        pods = (queued("a", 2, age=60), queued("b", age=600), elsewhere, queued("theirs", gates=(KUEUE, GATE)))
        found = queue_table.summaries(pods)
        assert [(each.pool, each.waiting, each.units) for each in found] == [("gone", 1, 3), (POOL, 2, 3)]
        assert [cell.text for cell in queue_table.summary(found[1], NOW)] == [POOL, "2", "3", "10m"]

    def test_the_same_by_the_pools_own_words(self) -> None:
        waited = objects.pool("b", status={"queue": {"waiting": 2, "waitingUnits": 9}})
        (found,) = queue_table.reported_summaries([waited, objects.pool("a")])
        assert queue_table.summary_as_json(found) == {"pool": "b", "waiting": 2, "waitingUnits": 9, "oldest": None}
        assert queue_table.summary(found, NOW)[3].text == "-"


class TestMisfit:
    def test_it_is_too_large(self) -> None:
        said = explain_misfit(seen(on=used("n1", 2)), queued("p", 3))
        assert said == "it asks for 3 slots of one node, and no node of the pool has more than 2"

    def test_what_it_demands_of_its_node(self) -> None:
        tainted = dataclasses.replace(
            node("n2"), spec=objects.node(taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]).spec
        )
        there = {"n1": node("n1"), "n2": tainted}
        view = seen(on=[*used("n1", 1), *used("n2", 1)], nodes=there)
        picky = queued("p", nodeSelector={"zone": "z"})
        assert explain_misfit(view, picky) == (
            "it is kept away by its node selector (on n1, n2) and by taints that it does not tolerate (on n2)"
        )
        terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        only = seen(on=used("n1", 1))
        assert explain_misfit(only, queued("p", affinity={"nodeAffinity": required})) == (
            "it is kept away by its node affinity (on n1)"
        )
        assert explain_misfit(view, queued("p")) == "", "n1 could take it"

    def test_of_nodes_that_are_not_known_nothing_is_said(self) -> None:
        assert explain_misfit(seen(on=used("n1", 1), nodes=Unreadable("no")), queued("p", 9)) == ""
