"""Who waits for cards behind our scheduling gate, who gets them at once, and who is refused all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.gangs import GANG, GANG_SIZE
from controllers.api.settings import parse_settings
from controllers.domain.request import PoolRequest
from controllers.domain.taints import tolerations
from tests.webhook import world
from tests.webhook.test_decide import free_node, required, term, view, why_it_waits
from tests.webhook.test_waiting import pod as stored
from tests.webhook.test_waiting import wants
from tests.webhook.world import Known, decided, refusing_pool
from webhook.decision.affinity import PREFERRED, REQUIRED
from webhook.decision.shortage import UnseenHistory
from webhook.decision.verdict import Denied, Placed, Queued

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool
    from controllers.domain.placement.capacity import NodeCapacity

OURS, QUOTA = {"name": names.CARDS_GATE}, {"name": "example.com/quota"}
KUEUE = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
TAINT = {"key": "gpu", "value": "a", "effect": "NoSchedule"}


def seen(pool: GPUPool, *capacities: NodeCapacity, **waiting: Any) -> Known:
    """A pool with what it can give; `waiting`: fields of the view that say who waits."""
    known = view(pool, *(capacities or (free_node(),)))
    return replace(known, view=replace(known.view, **waiting))


def queued(raw: dict[str, Any], known: Known) -> dict[str, Any]:
    """The pod as it is stored, where it waits though the pool has room."""
    verdict = decided(raw, known)
    assert isinstance(verdict, Queued), verdict
    assert (verdict.shortage, verdict.warnings) == ("", ())
    made: dict[str, Any] = world.apply_patch(raw, verdict.patch)
    assert made["spec"]["schedulingGates"].count(OURS) == 1
    assert names.DEVICES not in made["metadata"]["annotations"]
    return made


def test_where_there_is_room_and_nobody_waits_cards_are_chosen_at_once() -> None:
    verdict = decided(world.pod(), seen(world.pool()))
    assert isinstance(verdict, Placed)
    assert "schedulingGates" not in world.apply_patch(world.pod(), verdict.patch)["spec"]


def test_where_there_is_no_room_a_pod_gets_all_but_what_depends_on_its_cards() -> None:
    pool = world.pool(scheduling={"taints": [TAINT], "affinity": required(term("disk", "Exists"))})
    brought = {"annotations": {names.DEVICES: "of another pod", names.REQUEST_ID: "stolen", "own": "x"}}
    raw = world.pod(3, meta=brought, affinity=required(term("zone", "Exists")))
    known = seen(pool, free_node(disk="ssd", zone="z"))
    verdict = decided(raw, known)
    assert isinstance(verdict, Queued)
    assert (verdict.wanted.units, verdict.request_id) == (3, "r1")
    assert verdict.shortage == "there are not enough free ones"
    assert verdict.warnings == (
        "the pod waits for 3 of GPUPool a: there are not enough free ones. See kubectl gpu queue a",
    )
    made = world.apply_patch(raw, verdict.patch)
    assert made["spec"]["schedulingGates"] == [OURS]
    assert made["metadata"]["labels"] == {names.LABEL_POOL: "a"}
    assert made["metadata"]["annotations"] == {names.REQUEST_ID: "r1", "own": "x"}
    nodes = made["spec"]["affinity"]["nodeAffinity"]
    (joined,) = nodes[REQUIRED]["nodeSelectorTerms"]
    assert [entry["key"] for entry in joined["matchExpressions"]] == ["zone", "disk", names.pool_node_label("a")]
    assert PREFERRED not in nodes
    assert [each["key"] for each in made["spec"]["tolerations"]] == [each.key for each in tolerations(pool)] == ["gpu"]


OTHERS: dict[str, dict[str, Any]] = {
    "pods behind our gate": {"queued": 1},
    "a pod that lost its reservation": {"pending": wants(stored("old"))},
}


@pytest.mark.parametrize("waiting", OTHERS.values(), ids=OTHERS.keys())
def test_where_others_wait_a_newcomer_waits_though_there_is_room(waiting: dict[str, Any]) -> None:
    queued(world.pod(), seen(world.pool(), **waiting))
    verdict = decided(world.pod(), seen(refusing_pool(), free_node(cards=4), **waiting))
    assert isinstance(verdict, Placed), "in a pool that lets no pod wait, what is left over is a newcomer's"


def test_a_namespace_with_a_limit_is_counted_by_the_queue() -> None:
    for name, limited in (("team", True), ("*", True), ("other", False)):
        pool = world.pool(queue={"namespaces": [{"name": name, "limit": 8}]})
        assert isinstance(decided(world.pod(), seen(pool)), Queued if limited else Placed)
    weighed = world.pool(queue={"namespaces": [{"name": "team", "weight": 3, "guaranteed": 1}]})
    assert isinstance(decided(world.pod(), seen(weighed)), Placed)


HELD: dict[str, dict[str, Any]] = {
    "a queue manager": {"meta": KUEUE},
    "another queue manager": {"meta": {"labels": {"kai.scheduler/queue": ""}}},
    "a gate of somebody else": {"schedulingGates": [QUOTA]},
    "our gate": {"schedulingGates": [OURS]},
}


@pytest.mark.parametrize("pool", [world.pool(), refusing_pool()], ids=["Queue", "Refuse"])
@pytest.mark.parametrize("asked", HELD.values(), ids=HELD.keys())
def test_whoever_waits_for_somebody_else_gets_no_cards_yet(asked: dict[str, Any], pool: GPUPool) -> None:
    queued(world.pod(**asked), seen(pool))


def test_which_labels_are_of_queue_managers_is_a_setting() -> None:
    known = seen(world.pool())
    settings = parse_settings({"admission": {"queueLabels": ["example.com/queue"]}})
    known = replace(known, view=replace(known.view, settings=settings))
    queued(world.pod(meta={"labels": {"example.com/queue": "x"}}), known)
    assert isinstance(decided(world.pod(meta=KUEUE), known), Placed)


def test_gates_that_a_pod_brings_are_kept_and_come_first() -> None:
    for brought, expected in (
        ([QUOTA], [QUOTA, OURS]),
        ([OURS], [OURS]),
        ([OURS, QUOTA], [OURS, QUOTA]),
        ([QUOTA, {"name": "b"}], [QUOTA, {"name": "b"}, OURS]),
    ):
        assert queued(world.pod(schedulingGates=brought), seen(world.pool()))["spec"]["schedulingGates"] == expected


@pytest.mark.parametrize("waiting", [{}, {"queued": 7}, {"queued_of_namespace": 500}])
def test_a_pod_that_names_its_node_cannot_be_gated(waiting: dict[str, Any]) -> None:
    for more in ({}, *HELD.values()):
        known = seen(world.pool(), **waiting)
        assert isinstance(decided(world.pod(nodeName="n1", **more), known), Placed)
        full = decided(world.pod(3, nodeName="n1", **more), known)
        assert isinstance(full, Denied)
        assert full.message.startswith("InsufficientCapacity: GPUPool a cannot give 3 now: ")


def test_of_one_namespace_so_many_wait_and_no_more() -> None:
    pool = world.pool(queue={"maxWaiting": 3})
    assert isinstance(decided(world.pod(9), seen(pool, queued_of_namespace=2)), Queued)
    for raw, waiting in ((world.pod(9), 0), (world.pod(), 1), (world.pod(schedulingGates=[QUOTA]), 0)):
        verdict = decided(raw, seen(pool, queued=waiting, queued_of_namespace=3))
        assert isinstance(verdict, Denied)
        assert (verdict.error_code, verdict.http_status) == (names.INSUFFICIENT_CAPACITY, 403)
        assert "exceeded quota" in verdict.message, "Argo and Tekton try again then"
    # Those of other namespaces, or that wait for others still, take nothing from a pod for which there is room.
    assert isinstance(decided(world.pod(), seen(pool, queued_of_namespace=3)), Placed)


@pytest.mark.parametrize(
    "record", [{"unseen": 99}, {"unseen_history": UnseenHistory(2, 1.0)}], ids=["too many unseen", "over its share"]
)
def test_where_reservations_of_a_namespace_were_for_nobody_its_pods_wait_until_they_are_seen(record: Any) -> None:
    queued(world.pod(), seen(world.pool(), **record))
    for pool, more in ((refusing_pool(), {}), (world.pool(), {"nodeName": "n1"})):
        assert isinstance(decided(world.pod(**more), seen(pool, **record)), Denied)


REFUSED: dict[str, tuple[GPUPool, dict[str, Any], str]] = {
    "maintenance": (world.pool(conditions={"Maintenance": "x."}), {}, names.POOL_IN_MAINTENANCE),
    "misconfigured": (world.pool(conditions={"Misconfigured": "x."}), {}, names.POOL_MISCONFIGURED),
    "bad affinity": (world.pool(scheduling={"affinity": {"nodeAffinity": "x"}}), {}, names.POOL_MISCONFIGURED),
    "no access": (world.pool(access={"namespaces": ["other"]}), {}, names.ACCESS_DENIED),
    "too much about nodes": (world.pool(), {"tolerations": [{"operator": "Exists"}] * 257}, "Invalid"),
}


@pytest.mark.parametrize(("pool", "spec", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_what_waiting_would_not_mend_is_refused(pool: GPUPool, spec: dict[str, Any], code: str) -> None:
    for more in ({}, *HELD.values()):
        verdict = decided(world.pod(**spec, **more), seen(pool, queued=1))
        assert isinstance(verdict, Denied)
        assert verdict.error_code == code


def test_who_decides_whether_pods_wait_is_the_pool_and_then_the_setting() -> None:
    refuses = parse_settings({"admission": {"onShortage": "Refuse"}})
    for queue, settings, waits in (
        (None, None, True),
        ({}, None, True),
        (None, refuses, False),
        ({"maxWaiting": 5}, refuses, False),
        ({"onShortage": "Queue"}, refuses, True),
        ({"onShortage": "Refuse"}, None, False),
    ):
        known = view(world.pool(queue=queue), free_node(), settings=settings)
        assert isinstance(decided(world.pod(9), known), Queued if waits else Denied)


def test_a_pod_for_which_nothing_can_be_reserved_now_waits() -> None:
    raw, known = world.request_of(world.pod()), seen(world.pool())
    assert isinstance(world.decided_for(raw, PoolRequest("a", 1), known, may_reserve=False), Queued)
    assert why_it_waits(world.pod(3), known) == "there are not enough free ones"


def test_the_leader_of_a_leader_worker_set_waits_though_its_group_is_said_after_our_review() -> None:
    mark = "leaderworkerset.sigs.k8s.io"
    leader: dict[str, Any] = {"labels": {f"{mark}/name": "serve"}, "annotations": {f"{mark}/size": "2"}}
    queued(world.pod(meta=leader), seen(world.pool()))
    alone = {GANG: "alone", GANG_SIZE: "1"}
    overruled = {**leader, "annotations": leader["annotations"] | alone}
    assert isinstance(decided(world.pod(meta=overruled), seen(world.pool())), Placed)
