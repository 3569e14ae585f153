"""Pods that outlived their reservation get a new one: oldest first, all cards or none, each in its turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice, Reservation
from controllers.api.gpupool import GPUPool
from controllers.api.tenant import TenantPod
from controllers.domain.clock import stamp, stamp_exact
from controllers.domain.lifecycle import live
from controllers.domain.request import units_of
from controllers.gpupool.queue import pending_pods
from controllers.gpupool.queue.records import Turn
from controllers.runtime.plan import Merge
from tests.gpupool.world import Cluster
from tests.kit import objects
from tests.kit.cluster import ConflictError
from tests.kit.manifests import body
from tests.kit.objects import NOW, reservation
from tests.kit.pods import pod_body

TTL, UNSEEN = 120.0, 15.0


class Pool(Cluster):
    """A pool whose cards are offered, pods that ask for them, and the loop over those that wait."""

    def __init__(self, nodes: dict[str, int], slots: int = 1, **spec: Any) -> None:
        super().__init__()
        self.turns, self.unreached, self.slots = dict[str, Turn](), tuple[str, ...](), slots
        self.pool("a", **spec)
        for name, cards in nodes.items():
            self.add(objects.node(name, labels={names.pool_node_label("a"): "true"}))
            for number in range(cards):
                one = f"{name}-{number}"
                self.add(objects.card(name, pool="a", slots=slots, meta={"name": one}, inventory_id=one))

    def waits(self, name: str, units: int = 1, age: float = 200.0, devices: str = "", **spec: Any) -> None:
        """A pod that came so many seconds ago."""
        meta = {"namespace": "default", "creationTimestamp": stamp(self.now - age)}
        self.put(resources.POD, pod_body(name, units, devices=devices, meta=meta, **spec))

    def step(self, stop_after: int | None = None) -> int:
        """One reconciliation, or its beginning; returns the writes that it wanted."""
        seen = self.view().queue("a", self.turns, self.unreached)
        if seen is None:
            return 0
        made = pending_pods.plan_pending_pods(seen, self.now)
        self.turns, self.unreached = dict(made.turns), made.unreached
        self.execute(made.plan.actions, names.MANAGER_POOL, stop_after)
        if stop_after is None:
            for request in made.reserved:
                self.turns[request] = replace(self.turns.get(request, Turn(0.0)), began=self.now)
        return len(made.plan.writes)

    def rest(self) -> None:
        """Until that loop wants nothing."""
        for _ in range(60):
            if self.step() == 0:
                return
        raise AssertionError("it does not settle")

    def expire(self) -> None:
        """The loop over cards takes off what ran out."""
        for device in self.all(resources.GPUDEVICE, GPUDevice):
            left = [body(entry) for entry in device.status.reservations if live(entry, self.now)]
            if len(left) != len(device.status.reservations):
                with self.edit("GPUDevice", device.name) as found:
                    found["status"]["reservations"] = left

    def reservations(self) -> dict[str, list[tuple[str, Reservation]]]:
        found: dict[str, list[tuple[str, Reservation]]] = {}
        for device in self.all(resources.GPUDEVICE, GPUDevice):
            for entry in device.status.reservations:
                if live(entry, self.now):
                    found.setdefault(entry.pod, []).append((device.name, entry))
        return found

    def reserve(self, card: str, pod: str, slots: int = 1, lasts: float = TTL) -> None:
        until = self.now + lasts
        entry = reservation(
            f"r-{pod}", namespace="default", pod=pod, slots=slots, seen=True, since=self.now, until=until
        )
        with self.edit("GPUDevice", card) as found:
            found["status"].setdefault("reservations", []).append(body(entry))


def held(pool: Pool) -> dict[str, int]:
    return {pod: sum(r.slots for _, r in entries) for pod, entries in pool.reservations().items()}


def test_the_oldest_gets_the_card_with_the_name_of_its_own_request() -> None:
    pool = Pool({"n1": 1})
    pool.waits("young", age=150)
    pool.waits("old", age=300)
    pool.rest()

    ((card, entry),) = pool.reservations()["old"]
    assert (card, entry.request_id, entry.seen) == ("n1-0", "r-old", True)
    assert entry.expires_at == stamp_exact(NOW + TTL)
    assert pool.objects["GPUDevice", "n1-0"]["status"]["state"] == "Reserved"
    assert held(pool) == {"old": 1}


def test_the_cards_that_the_webhook_chose_come_first_and_then_others() -> None:
    pool = Pool({"n1": 2, "n2": 2})
    pool.waits("p", devices="n2-1")
    pool.rest()
    assert [card for card, _ in pool.reservations()["p"]] == ["n2-1"]

    taken = Pool({"n1": 2, "n2": 2})
    taken.reserve("n2-1", "another")
    taken.waits("another")
    taken.waits("p", devices="n2-1")
    taken.rest()
    assert len(taken.reservations()["p"]) == 1


HELD_BACK: dict[str, dict[str, Any]] = {
    "a node that it cannot use": {"nodeSelector": {"disk": "fast"}},
    "a required term": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]
                }
            }
        }
    },
    "a gate": {"schedulingGates": [{"name": "example.com/quota"}]},
    "more than a node has": {"containers": [{"resources": {"limits": {names.resource_name("a"): "3"}}}]},
    "a node already": {"nodeName": "n1"},
}


@pytest.mark.parametrize("spec", HELD_BACK.values(), ids=HELD_BACK.keys())
def test_a_pod_that_could_not_use_a_card_gets_none(spec: dict[str, Any]) -> None:
    pool = Pool({"n1": 2, "n2": 2})
    pool.waits("p", **spec)
    pool.rest()
    assert held(pool) == {}


def test_a_pod_whose_reservation_the_cache_may_not_show_yet_is_left_alone() -> None:
    pool = Pool({"n1": 1})
    pool.waits("p", age=UNSEEN - 1)
    seen = pool.view().queue("a", {})
    assert seen is not None
    made = pending_pods.plan_pending_pods(seen, pool.now)
    assert not made.plan.writes
    assert made.plan.requeue_after == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("what", ["deleted", "Maintenance", "Misconfigured", "another allocation"])
def test_a_pool_that_gives_nothing_reserves_nothing(what: str) -> None:
    pool = Pool({"n1": 1})
    obj = pool.objects["GPUPool", "a"]
    if what == "deleted":
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elif what == "another allocation":
        obj["status"] = {"appliedAllocation": {"mode": "TimeSlice"}}
    else:
        obj["status"] = {"conditions": [{"type": what, "status": "True", "reason": "R", "lastTransitionTime": "t"}]}
    pool.waits("p")
    pool.rest()
    assert held(pool) == {}


def test_a_pod_that_nobody_can_place_keeps_the_card_for_one_ttl_and_then_the_next_has_it() -> None:
    pool = Pool({"n1": 1})
    for name, age in (("stuck", 300), ("b", 200), ("c", 100)):
        pool.waits(name, age=age)
    turns = []
    for _ in range(6):
        pool.rest()
        turns += list(held(pool))
        pool.now += TTL + 1
        pool.expire()
    assert turns == ["stuck", "b", "c", "stuck", "b", "c"]


def test_nobody_has_two_turns_within_one_ttl() -> None:
    pool = Pool({"n1": 2})
    pool.waits("p")
    pool.rest()
    pool.objects["GPUDevice", "n1-0"]["status"]["reservations"] = []  # somebody's hand
    pool.touch(("GPUDevice", "n1-0"))
    pool.rest()
    assert held(pool) == {}
    pool.now += TTL + 1
    pool.rest()
    assert held(pool) == {"p": 1}


def passed(pool: Pool) -> dict[str, int]:
    (found,) = pool.all(resources.GPUPOOL, GPUPool)
    return {each.request_id: each.turns for each in found.status.passed_over or ()}


def test_who_is_not_placed_in_two_turns_holds_a_card_for_an_ever_shorter_share() -> None:
    pool = Pool({"n1": 1})
    pool.waits("stuck")
    turns, held_before = [], False
    for second in range(0, int(40 * TTL), 10):
        pool.now = NOW + second
        pool.expire()
        pool.rest()
        if (holds := bool(held(pool))) and not held_before:
            turns.append(second / TTL)
        held_before = holds
    pauses = [round(after - before - 1) for before, after in pairwise(turns)]
    assert pauses == [2, 2, 4, 8, 16], turns  # the first two turns follow each other
    assert passed(pool) == {"r-stuck": 7}
    pool.drop(resources.POD, "default/stuck")
    pool.rest()
    assert passed(pool) == {}


def two_turns(pool: Pool) -> None:
    """Reserved for, and not bound, twice."""
    for _ in range(2):
        pool.rest()
        pool.now += TTL + 1
        pool.expire()
    pool.rest()


def test_a_restart_gives_no_turn_to_who_is_passed_over() -> None:
    pool = Pool({"n1": 1})
    pool.waits("stuck")
    two_turns(pool)
    assert passed(pool) == {"r-stuck": 2}
    pool.turns.clear()
    pool.rest()
    assert held(pool) == {}
    pool.now += TTL + 1
    pool.rest()
    assert held(pool) == {"stuck": 1}
    pool.turns.clear()  # in the midst of its turn, which is seen all the same
    pool.rest()
    pool.now += TTL + 1
    pool.expire()
    pool.rest()
    assert passed(pool) == {"r-stuck": 3}
    assert held(pool) == {}


def test_a_turn_counts_though_the_plan_that_gave_it_met_anothers_write() -> None:
    pool = Pool({"n1": 1})
    pool.waits("stuck")
    for _ in range(2):
        pool.step(stop_after=1)  # reserved, and no more is heard of it
        pool.rest()
        pool.now += TTL + 1
        pool.expire()
    pool.rest()
    assert passed(pool) == {"r-stuck": 2}


def test_the_webhooks_reservation_is_the_first_turn() -> None:
    pool = Pool({"n1": 1})
    pool.waits("stuck")
    pool.reserve("n1-0", "stuck")
    two_turns(pool)
    assert passed(pool) == {"r-stuck": 2}


def test_no_turn_is_counted_in_which_the_card_could_not_be_used() -> None:
    pool = Pool({"n1": 1})
    pool.waits("stuck")
    pool.rest()
    pool.fault("n1-0")
    pool.now += TTL + 1
    pool.expire()
    pool.rest()
    pool.fault("n1-0", faulted=False)
    two_turns(pool)
    assert passed(pool) == {"r-stuck": 2}


def test_of_very_many_that_are_passed_over_those_are_named_for_whom_it_lasts_longest_and_the_list_rests() -> None:
    pool = Pool({"n1": 1})
    for number in range(names.LIST_MAX + 5):
        pool.waits(f"p{number:03}")
        pool.turns[f"r-p{number:03}"] = Turn(pool.now - TTL - 1, 1, frozenset({"n1-0"}))
    pool.rest()
    named = passed(pool)
    assert len(named) == names.LIST_MAX
    pool.rest()
    assert passed(pool) == named


def test_a_pod_of_many_cards_is_not_overtaken_for_ever_by_small_ones() -> None:
    pool = Pool({"n1": 2})
    pool.reserve("n1-0", "other", lasts=60)
    pool.waits("other")
    pool.waits("big", units=2, age=300)
    pool.waits("small", age=200)
    pool.rest()
    assert held(pool) == {"other": 1}  # the free card is left for the older pod

    pool.drop(resources.POD, "default/other")
    pool.now += 61
    pool.expire()
    pool.rest()
    assert held(pool) == {"big": 2}


def test_what_was_reserved_half_way_is_taken_back_and_done_again() -> None:
    pool = Pool({"n1": 3})
    pool.waits("p", units=3)
    pool.step(stop_after=2)
    assert held(pool) == {"p": 2}
    pool.rest()
    assert held(pool) == {"p": 3}


def test_what_ran_out_is_left_to_the_loop_that_tells_people() -> None:
    pool = Pool({"n1": 1})
    pool.reserve("n1-0", "p", lasts=-1)
    pool.waits("p")
    pool.rest()
    assert len(pool.objects["GPUDevice", "n1-0"]["status"]["reservations"]) == 1
    pool.expire()
    pool.rest()
    assert held(pool) == {"p": 1}


pods = st.lists(
    st.tuples(st.integers(1, 3), st.integers(16, 400), st.sampled_from(["", "n1", "n2"]), st.booleans()), max_size=6
)


@settings(max_examples=300, deadline=None)
@given(
    nodes=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    slots=st.integers(1, 3),
    asked=pods,
    stops=st.lists(st.integers(0, 3), max_size=4),
)
def test_it_comes_to_rest_from_any_prefix_and_never_promises_more_than_there_is(
    nodes: tuple[int, int], slots: int, asked: list[tuple[int, int, str, bool]], stops: list[int]
) -> None:
    spec = {"allocation": {"mode": "TimeSlice"}} if slots > 1 else {}
    pool = Pool({"n1": nodes[0], "n2": nodes[1]}, slots, **spec)
    for number, (units, age, only, bound) in enumerate(asked):
        more = {"nodeSelector": {"kubernetes.io/hostname": only}} if only else {}
        pool.waits(f"p{number}", units, age, **more, **({"nodeName": "n1"} if bound else {}))
    for node in ("n1", "n2"):
        pool.objects["Node", node]["metadata"]["labels"]["kubernetes.io/hostname"] = node
    for stop in stops:
        pool.step(stop)
        no_more_than_slots(pool)
    pool.rest()
    no_more_than_slots(pool)

    units = {f"p{number}": entry[0] for number, entry in enumerate(asked)}
    for pod, amount in held(pool).items():
        assert amount == units[pod], "all or none"
        assert len({card.rsplit("-", 1)[0] for card, _ in pool.reservations()[pod]}) == 1, "on one node"
    assert pool.step() == 0
    oldest_first(pool, asked)


def no_more_than_slots(pool: Pool) -> None:
    promised: dict[str, int] = {}
    for entries in pool.reservations().values():
        for card, entry in entries:
            promised[card] = promised.get(card, 0) + entry.slots
    assert all(slots <= pool.slots for slots in promised.values())
    bound = sum(units_of(p, "a") for p in pool.all(resources.POD, TenantPod) if p.node)
    here = [slots for card, slots in promised.items() if card.startswith("n1")]
    cards = sum(1 for d in pool.all(resources.GPUDEVICE, GPUDevice) if d.status.node_name == "n1")
    assert not here or sum(here) + bound <= cards * pool.slots


def oldest_first(pool: Pool, asked: list[tuple[int, int, str, bool]]) -> None:
    """Of pods that want the same, none is served while an older one is not."""
    served = held(pool)
    for one, (units, age, only, bound) in enumerate(asked):
        for other, (others, other_age, other_only, other_bound) in enumerate(asked):
            same = (units, only) == (others, other_only) and not bound and not other_bound
            if same and age > other_age and f"p{other}" in served:
                assert f"p{one}" in served


def test_a_card_that_somebody_else_reserved_meanwhile_is_a_conflict() -> None:
    pool = Pool({"n1": 1})
    pool.waits("p")
    seen = pool.view().queue("a", {})
    assert seen is not None
    (write,) = pending_pods.plan_pending_pods(seen, pool.now).plan.writes
    assert isinstance(write, Merge)
    pool.reserve("n1-0", "newcomer")
    with pytest.raises(ConflictError):
        pool.execute([write], names.MANAGER_POOL)
