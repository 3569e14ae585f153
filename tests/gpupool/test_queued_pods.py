"""Pods behind our gate: all cards first, then the pod's release; any prefix of the writes is safe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names, resources
from controllers.api.gangs import GANG, GANG_SIZE
from controllers.api.gpudevice import GPUDevice
from controllers.api.tenant import TenantPod
from controllers.domain.lifecycle import live
from controllers.domain.queue.gates import is_gated
from controllers.gpupool.queue import pending_pods
from controllers.gpupool.queue.records import GRACE, ReservationRound, Turn
from tests.gpupool.test_pending_pods import TTL, Pool
from tests.kit import objects
from tests.kit.cluster import ConflictError
from tests.kit.manifests import body
from tests.kit.objects import NOW, allocation

POOL_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": names.pool_node_label("a"), "operator": "Exists"}]}]
        }
    }
}


class Queue(Pool):
    """A pool with pods that wait behind our gate."""

    denied: dict[str, str]

    def queues(
        self,
        name: str,
        units: int = 1,
        *,
        age: float = 60.0,
        gates: tuple[str, ...] = (),
        marks: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A pod with our gate, and others. `marks`: annotations."""
        found = [*({"name": gate} for gate in gates), {"name": names.CARDS_GATE}]
        self.waits(name, units, age, schedulingGates=found, **{"affinity": POOL_AFFINITY} | spec)
        self.mark(name, marks or {})

    def mark(self, name: str, marks: dict[str, str]) -> None:
        with self.edit("Pod", f"default/{name}") as found:
            found["metadata"]["annotations"] |= marks

    def expire_of(self, name: str) -> None:
        """What was reserved for a pod that is gone is taken off."""
        for device in self.all(resources.GPUDEVICE, GPUDevice):
            with self.edit("GPUDevice", device.name) as found:
                kept = [each for each in found["status"].get("reservations", ()) if each["pod"] != name]
                found["status"]["reservations"] = kept

    def look(self) -> ReservationRound | None:
        """What the planner says now."""
        seen = self.view().queue("a", self.turns, self.unreached, getattr(self, "denied", {}))
        return pending_pods.plan_pending_pods(seen, self.now) if seen is not None else None

    def step(self, stop_after: int | None = None) -> int:
        """One round, or its first writes; a promise that meets another's write holds up no other."""
        made = self.look()
        if made is None:
            return 0
        self.turns, self.unreached = dict(made.turns), made.unreached
        left = stop_after
        for plan in (made.plan, *(promise.plan for promise in made.promises)):
            before = self.writes
            try:
                self.execute(plan.actions, names.MANAGER_POOL, left)
            except ConflictError:
                continue
            if left is not None:
                left -= self.writes - before
                if left <= 0:
                    break
        if stop_after is None:
            for request in made.reserved:
                self.turns[request] = replace(self.turns.get(request, Turn(0.0)), began=self.now)
        return len(made.plan.writes) + sum(len(promise.plan.writes) for promise in made.promises)

    def pods(self) -> dict[str, TenantPod]:
        return {pod.name: pod for pod in self.all(resources.POD, TenantPod)}

    def released(self) -> set[str]:
        return {name for name, pod in self.pods().items() if not is_gated(pod.spec) and pod.node is None}

    def promised(self, name: str) -> int:
        """Slots that are promised to a pod."""
        return sum(entry.slots for _, entry in self.reservations().get(name, ()))

    def why(self) -> dict[str, str]:
        made = self.look()
        return {key.partition("/")[2]: wait.cause for key, wait in made.reasons.items()} if made is not None else {}


def test_the_oldest_gets_its_card_and_goes_on() -> None:
    pool = Queue({"n1": 1})
    pool.queues("young", age=10)
    pool.queues("old", age=20)
    pool.step()
    assert pool.released() == {"old"}
    assert pool.promised("old") == 1
    assert pool.why() == {"young": "Waiting"}
    assert pool.step() == 0


def test_the_release_names_the_cards_and_prefers_their_node() -> None:
    pool = Queue({"n1": 1, "n2": 4})
    pool.queues("p", 2, tolerations=[{"key": "mine", "operator": "Exists"}])
    pool.step()
    body: Any = pool.objects["Pod", "default/p"]
    devices = body["metadata"]["annotations"][names.DEVICES].split(",")
    assert sorted(devices) == sorted(card for card, _ in pool.reservations()["p"])
    assert {device.rpartition("-")[0] for device in devices} == {"n2"}
    assert "schedulingGates" not in body["spec"]
    (term,) = body["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["preference"] == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    assert body["spec"]["tolerations"] == [{"key": "mine", "operator": "Exists"}]


def test_what_the_pod_prefers_itself_stays_and_what_the_pool_tolerates_now_is_added() -> None:
    pool = Queue({"n1": 1}, scheduling={"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]})
    own = {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}}
    nodes = POOL_AFFINITY["nodeAffinity"] | {"preferredDuringSchedulingIgnoredDuringExecution": [own]}
    pool.queues("p", affinity={"nodeAffinity": nodes})
    pool.step()
    spec: Any = pool.objects["Pod", "default/p"]["spec"]
    preferred = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [preferred[0], len(preferred)] == [own, 2]
    assert [each["key"] for each in spec["tolerations"]] == ["gpu"]


def test_behind_a_gate_of_others_nothing_is_promised() -> None:
    pool = Queue({"n1": 1})
    pool.queues("theirs", age=90, gates=("kueue.x-k8s.io/admission",))
    pool.queues("ours", age=10)
    pool.step()
    assert pool.why() == {"theirs": "OtherGates"}
    assert pool.released() == {"ours"}
    assert pool.promised("theirs") == 0


def test_a_promise_without_its_release_is_released_by_the_next_round() -> None:
    pool = Queue({"n1": 2})
    pool.queues("p", 2)
    pool.step(stop_after=2)
    assert (pool.promised("p"), pool.released()) == (2, set())
    pool.step()
    assert pool.released() == {"p"}


def test_half_a_promise_is_taken_back_and_made_again() -> None:
    pool = Queue({"n1": 2})
    pool.queues("p", 2)
    pool.step(stop_after=1)
    assert (pool.promised("p"), pool.released()) == (1, set())
    pool.step()
    assert pool.promised("p") == 0
    pool.step()
    assert (pool.promised("p"), pool.released()) == (2, {"p"})


def test_a_promise_of_a_card_that_cannot_be_given_any_more_is_taken_back() -> None:
    pool = Queue({"n1": 1, "n2": 1})
    pool.queues("p")
    pool.step(stop_after=1)
    ((card, _),) = pool.reservations()["p"]
    with pool.edit("GPUDevice", card) as found:
        found["status"]["conditions"] = [
            {"type": "Faulted", "status": "True", "reason": "X", "message": "", "lastTransitionTime": ""}
        ]
    pool.step()
    assert (pool.promised("p"), pool.released()) == (0, set())
    pool.step()
    assert pool.released() == {"p"}
    assert pool.reservations()["p"][0][0] != card


@pytest.mark.parametrize("kind", ["Maintenance", "Misconfigured"])
def test_a_closed_pool_promises_nothing_and_takes_back(kind: str) -> None:
    pool = Queue({"n1": 1})
    pool.queues("p")
    pool.step(stop_after=1)
    with pool.edit("GPUPool", "a") as found:
        found.setdefault("status", {})["conditions"] = [
            {"type": kind, "status": "True", "reason": "X", "message": "", "lastTransitionTime": ""}
        ]
    pool.step()
    assert (pool.promised("p"), pool.released(), pool.why()) == (0, set(), {"p": "PoolClosed"})
    with pool.edit("GPUPool", "a") as found:
        found["status"]["conditions"] = []
    pool.step()
    assert pool.released() == {"p"}


def test_one_whose_release_was_denied_keeps_no_card_from_others() -> None:
    pool = Queue({"n1": 1})
    pool.queues("denied", age=90)
    pool.queues("next", age=10)
    pool.step(stop_after=1)
    pool.denied = {"r-denied": "namespace default may not use GPUPool a"}
    pool.step()
    pool.step()
    assert pool.released() == {"next"}
    assert pool.why() == {"denied": "ReleaseDenied"}


def test_who_lost_its_reservation_comes_before_the_queue() -> None:
    pool = Queue({"n1": 1})
    pool.queues("queued", age=900)
    pool.waits("old", age=200)
    pool.step()
    assert (pool.promised("old"), pool.released()) == (1, {"old"})


def test_a_namespace_at_its_limit_waits_though_cards_are_free() -> None:
    pool = Queue({"n1": 4}, queue={"namespaces": [{"name": "default", "limit": 2}]})
    for at in range(4):
        pool.queues(f"p{at}", age=90 - at)
    pool.step()
    assert pool.released() == {"p0", "p1"}
    assert pool.why() == {"p2": "OverLimit", "p3": "OverLimit"}


def test_cards_of_several_slots_are_written_once_for_all_who_get_them() -> None:
    pool = Queue({"n1": 1}, slots=4, allocation={"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}})
    for at in range(5):
        pool.queues(f"p{at}", age=90 - at)
    made = pool.look()
    assert made is not None
    assert [promise.pods for promise in made.promises] == [tuple(f"default/p{at}" for at in range(4))]
    pool.step()
    assert pool.released() == {"p0", "p1", "p2", "p3"}


def test_the_status_counts_and_names_nobody() -> None:
    pool = Queue({"n1": 1})
    for at in range(30):
        pool.queues(f"p{at:02}", 2, age=100 - at)
    made = pool.look()
    assert made is not None
    assert made.status is not None
    assert (made.status.waiting, made.status.waiting_units) == (30, 60)
    assert made.status.oldest == pool.pods()["p00"].metadata.creation_timestamp


def gang(name: str, size: int) -> dict[str, str]:
    return {GANG: name, GANG_SIZE: str(size)}


SCALE_UP = {"scaleUp": {"after": "30s", "maxUnits": 4}}


def test_pods_that_nothing_can_serve_are_let_go_on_without_cards_after_a_while() -> None:
    pool = Queue({"n1": 1}, queue=SCALE_UP)
    pool.queues("big", 3, age=31)
    pool.queues("young", 1, age=10)
    pool.queues("second", 3, age=31)
    pool.step()
    assert pool.released() == {"big", "young"}  # `young` has the card, `second` would be more than four slots
    assert (pool.promised("big"), pool.promised("young")) == (0, 1)
    body: Any = pool.objects["Pod", "default/big"]
    assert body["metadata"]["annotations"].get(names.DEVICES, "") == ""
    assert pool.why() == {"second": "NoNodeFits"}
    pool.step()
    assert pool.released() == {"big", "young"}


def test_without_scale_up_nobody_is_let_go_on_without_cards() -> None:
    pool = Queue({"n1": 1})
    pool.queues("big", 3, age=9000)
    pool.step()
    assert pool.released() == set()


def test_it_is_looked_again_when_a_pod_has_waited_long_enough() -> None:
    pool = Queue({"n1": 1}, queue=SCALE_UP)
    pool.queues("big", 3, age=20)
    made = pool.look()
    assert made is not None
    assert made.plan.requeue_after == pytest.approx(10, abs=1.1)


def test_over_its_limit_no_pod_is_let_go_on_without_cards() -> None:
    pool = Queue({"n1": 1}, queue=SCALE_UP | {"namespaces": [{"name": "default", "limit": 1}]})
    pool.queues("big", 3, age=90)
    pool.step()
    assert pool.released() == set()


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    slots = draw(st.sampled_from([1, 1, 4]))
    mode = {"allocation": {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}}} if slots == 4 else {}
    limit = draw(st.none() | st.integers(1, 4))
    shares = [{"name": "default", "limit": limit}] if limit is not None else []
    pool = Queue(
        draw(st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 4), min_size=1)),
        slots=slots,
        queue={"namespaces": shares, "hold": {"pods": draw(st.integers(0, 2)), "after": "1m"}},
        **mode,
    )
    for at in range(draw(st.integers(1, 8))):
        gates = draw(st.sampled_from([(), (), (), ("other/gate",)]))
        pool.queues(f"p{at}", draw(st.integers(1, 5)), age=draw(st.integers(0, 120)), gates=gates)
    for name, size in draw(st.dictionaries(st.sampled_from("gh"), st.integers(2, 3))).items():
        units, age = draw(st.integers(1, 4)), draw(st.integers(0, 120))
        for at in range(size):
            pool.queues(f"p{name}{at}", units, age=age, marks=gang(name, size))
    for at in range(draw(st.integers(0, 2))):
        pool.waits(f"w{at}", draw(st.integers(1, 3)), age=draw(st.integers(20, 300)))
    return pool


def holds(pool: Queue, limit: int | None) -> None:
    """What must be true after every write."""
    for card in pool.all(resources.GPUDEVICE, GPUDevice):
        promised = sum(entry.slots for entry in card.status.reservations if live(entry, pool.now))
        assert promised <= pool.slots, f"{card.name}: {promised} of {pool.slots}"
    for name, pod in pool.pods().items():
        if name.startswith("p") and not is_gated(pod.spec):
            assert pool.promised(name) >= int(pod.spec.containers[0].resources.limits[f"{names.PREFIX}a"])
        if name.startswith("p") and len(pod.spec.scheduling_gates) > 1:
            assert pool.promised(name) == 0
    if limit is not None:
        assert sum(pool.promised(name) for name in pool.pods() if name.startswith("p")) <= limit


@given(queues(), st.lists(st.integers(0, 5), max_size=6))
@settings(max_examples=150, deadline=None)
def test_from_any_prefix_it_comes_to_the_same_rest_and_nobody_is_released_without_all_cards(
    pool: Queue, stops: list[int]
) -> None:
    limits = pool.view().pools.get("a").spec.queue.namespaces  # type: ignore[union-attr]
    limit = limits[0].limit if limits else None
    if any(name.startswith("w") for name in pool.pods()):
        limit = None  # those were admitted before, and have what they were admitted to
    for stop in stops:
        pool.step(stop)
        holds(pool, limit)
    for _ in range(60):
        if pool.step() == 0:
            break
        holds(pool, limit)
    else:
        raise AssertionError("it does not settle")
    assert pool.now - NOW < TTL
    gated = {name: is_gated(pod.spec) for name, pod in pool.pods().items()}
    for letter in "gh":
        assert len({held for name, held in gated.items() if name.startswith(f"p{letter}")}) <= 1, f"{letter} is torn"


def test_a_gang_waits_for_all_of_its_pods_and_then_for_all_of_its_cards() -> None:
    pool = Queue({"n1": 2, "n2": 2})
    pool.queues("g0", 2, marks=gang("run", 2))
    assert pool.why() == {"g0": "WaitingForGang"}
    pool.queues("g1", 2, marks=gang("run", 2))
    pool.queues("x", 1, age=900)
    pool.step()
    assert pool.released() == {"x"}  # older, and then there is no room for both
    assert pool.why() == {"g0": "Waiting", "g1": "Waiting"}
    del pool.objects["Pod", "default/x"]
    pool.expire_of("x")
    pool.step()
    assert pool.released() == {"g0", "g1"}


def test_a_gang_of_which_a_card_was_written_by_others_is_taken_back_as_a_whole() -> None:
    pool = Queue({"n1": 3})
    for at in range(3):
        pool.queues(f"g{at}", marks=gang("run", 3))
    pool.step(stop_after=2)
    assert sum(pool.promised(f"g{at}") for at in range(3)) == 2
    pool.step()
    assert sum(pool.promised(f"g{at}") for at in range(3)) == 0
    pool.step()
    assert pool.released() == {"g0", "g1", "g2"}


def test_a_release_that_was_cut_short_goes_on_before_everybody() -> None:
    pool = Queue({"n1": 3})
    for at in range(3):
        pool.queues(f"g{at}", age=10, marks=gang("run", 3))
    pool.step(stop_after=4)  # three cards, and one release
    assert len(pool.released()) == 1
    pool.queues("old", age=900, priority=100)
    pool.step()
    assert pool.released() == {"g0", "g1", "g2"}


def test_a_pod_that_is_made_anew_for_a_running_gang_comes_first() -> None:
    pool = Queue({"n1": 2})
    pool.waits("g0", age=50, nodeName="n1")
    pool.mark("g0", gang("run", 2))
    pool.queues("old", age=900)
    pool.queues("g1", age=5, marks=gang("run", 2))
    made = pool.look()
    assert made is not None
    assert next(promise.pods for promise in made.promises) == ("default/g1",)


def test_a_pod_that_is_made_anew_does_not_wait_for_those_of_its_gang_that_have_ended() -> None:
    pool = Queue({"n1": 3})
    for name in ("g0", "g1"):
        pool.waits(name, age=50, nodeName="n1")
        pool.mark(name, gang("run", 3))
    with pool.edit("Pod", "default/g1") as found:
        found["status"] = {"phase": "Succeeded"}
    pool.queues("g2", age=5, marks=gang("run", 3))
    made = pool.look()
    assert made is not None
    assert [promise.pods for promise in made.promises] == [("default/g2",)]


def test_no_more_pods_come_before_everybody_than_a_gang_is_short_of() -> None:
    pool = Queue({"n1": 2})
    pool.waits("g0", age=50, nodeName="n1")
    pool.mark("g0", gang("run", 2))
    pool.queues("old", age=900)
    for at in range(1, 4):
        pool.queues(f"g{at}", age=10 - at, marks=gang("run", 2))
    made = pool.look()
    assert made is not None
    assert [promise.pods for promise in made.promises] == [("default/g1",)]
    assert {key: wait.cause for key, wait in made.reasons.items()} == {
        "default/old": "Waiting",
        "default/g2": "WaitingForGang",
        "default/g3": "WaitingForGang",
    }
    assert "all of its 2 pods have cards" in made.reasons["default/g2"].detail


def test_pods_that_disagree_on_the_size_wait_and_say_so() -> None:
    pool = Queue({"n1": 4})
    pool.queues("g0", marks=gang("run", 2))
    pool.queues("g1", marks=gang("run", 3))
    pool.step()
    made = pool.look()
    assert made is not None
    assert {wait.cause for wait in made.reasons.values()} == {"WaitingForGang"}
    assert "disagree" in made.reasons["default/g0"].detail
    assert pool.released() == set()


class Leaving(Queue):
    """A node whose four cards a pod had that has ended, in a process that sees them come free one after another."""

    def __init__(self) -> None:
        super().__init__({"n1": 4})
        for number in range(4):
            with self.edit("GPUDevice", f"n1-{number}") as found:
                found["status"]["allocations"] = [body(allocation("gone", "u-gone", namespace="default"))]
        self.look()

    def look(self) -> ReservationRound | None:
        seen = self.process().queue("a", self.turns, self.unreached, {})
        return pending_pods.plan_pending_pods(seen, self.now) if seen is not None else None

    def free(self, *cards: int) -> None:
        for number in cards:
            with self.edit("GPUDevice", f"n1-{number}") as found:
                found["status"]["allocations"] = []


def test_cards_of_a_pod_that_ends_go_to_a_large_pod_that_comes_first_though_they_come_free_one_by_one() -> None:
    pool = Leaving()
    pool.queues("large", 4, age=20)
    pool.queues("small", 1, age=10)
    for number in range(3):
        pool.free(number)
        pool.step()
        assert pool.released() == set()
    pool.free(3)
    pool.step()
    assert pool.released() == {"large"}


def test_a_card_that_is_not_followed_by_the_others_is_kept_for_two_seconds() -> None:
    pool = Leaving()
    pool.queues("large", 4, age=20)
    pool.queues("small", 1, age=10)
    pool.free(0)
    made = pool.look()
    assert made is not None
    assert (made.promises, made.plan.requeue_after) == ((), pytest.approx(2.0 + GRACE))
    pool.now += 2.0
    pool.step()
    assert pool.released() == {"small"}


def test_when_a_card_came_free_is_forgotten_once_nothing_is_waited_for() -> None:
    pool = Leaving()
    pool.add(objects.card("gone", pool="a", meta={"name": "gone-0"}, allocations=(allocation(),)))
    pool.process()
    for card in ("gone-0", "n1-0"):
        with pool.edit("GPUDevice", card) as found:
            found["status"]["allocations"] = []
        assert set(pool.process().came_free_at) == {card.rpartition("-")[0]}
        pool.now += 2.0


def test_nothing_is_kept_where_the_other_cards_are_those_of_pods_that_run() -> None:
    pool = Leaving()
    pool.waits("gone", 3, nodeName="n1")
    with pool.edit("Pod", "default/gone") as found:
        found["metadata"]["uid"] = "u-gone"
    pool.queues("large", 4, age=20)
    pool.queues("small", 1, age=10)
    pool.free(0)
    pool.step()
    assert pool.released() == {"small"}


def test_two_gangs_never_hold_each_other_up() -> None:
    pool = Queue({"n1": 3})
    for at in range(2):
        pool.queues(f"a{at}", age=20, marks=gang("a", 2))
        pool.queues(f"b{at}", age=20, marks=gang("b", 2))
    for _ in range(4):
        pool.step()
    assert pool.released() == {"a0", "a1"}
    assert pool.why() == {"b0": "Waiting", "b1": "Waiting"}
