"""Mixed MIG layouts in gpupool-controller: cards are divided so, and each profile's slots are given out apart."""

from __future__ import annotations

from typing import Any

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.api.gangs import GANG, GANG_SIZE
from controllers.api.gpudevice import GPUDevice
from controllers.api.tenant import TenantPod
from controllers.domain.queue.gates import is_gated
from controllers.domain.queue.supply import node_slots
from tests.gpupool.test_maintenance import ask, pooled, published, status, told
from tests.gpupool.test_mig import devices, divided, parts
from tests.gpupool.test_pending_pods import held
from tests.gpupool.test_queued_pods import Queue
from tests.gpupool.world import Cluster
from tests.kit import objects

SMALL, LARGE = {"profile": "1g.10gb", "count": 2}, {"profile": "3g.40gb", "count": 1}
MIXED = {"mode": "MIG", "migLayout": [SMALL, LARGE]}
INSTANCES = {"1g.10gb": 2, "3g.40gb": 1}


def test_a_pool_divides_its_cards_so_and_offers_each_profile() -> None:
    made = pooled(**MIXED)

    assert divided(made) == [INSTANCES, INSTANCES]
    assert published(made) == [3, 3]
    offered = [device.status.published for device in devices(made)]
    assert [[(each.profile, each.slots) for each in one.profiles or ()] for one in offered if one is not None] == [
        [("1g.10gb", 2), ("3g.40gb", 1)]
    ] * 2
    capacity = status(made).capacity
    assert capacity is not None
    assert (capacity.unit, capacity.total, capacity.available) == ("mig-partition", 6, 6)
    apart = [(one.profile, one.total, one.available) for one in capacity.profiles]
    assert apart == [("1g.10gb", 4, 4), ("3g.40gb", 2, 2)]


def test_another_order_or_spelling_is_no_change() -> None:
    made = pooled(**MIXED)
    ask(made, {"mode": "MIG", "migLayout": [LARGE, {"profile": "all-1g.10gb", "count": 2}]})
    made.settle()
    assert (told(made), divided(made)) == (("False", "AsExpected"), [INSTANCES, INSTANCES])


def test_a_changed_layout_divides_the_cards_anew() -> None:
    made = pooled(**MIXED)
    ask(made, {"mode": "MIG", "migLayout": [{"profile": "2g.20gb", "count": 2}, LARGE]})
    made.settle()
    assert divided(made) == [{"2g.20gb": 2, "3g.40gb": 1}] * 2
    ask(made, {"mode": "Exclusive"})
    made.settle()
    assert (divided(made), published(made)) == ([None, None], [1, 1])


def test_after_a_reboot_the_cards_are_divided_so_again() -> None:
    made = pooled(**MIXED)
    made.reboot("n1")
    made.settle()
    assert (divided(made), published(made)) == ([INSTANCES, INSTANCES], [3, 3])
    assert parts(made) == [parts(made)[0]] * 2


def test_a_layout_that_no_card_has_places_for_closes_the_pool_with_the_reason() -> None:
    made = Cluster()
    made.node("n1", 1)
    made.pool("a", allocation={"mode": "MIG", "migLayout": [{"profile": "3g.40gb", "count": 2}, SMALL]})
    made.settle()
    condition = kinds.find(status(made).conditions, kinds.MISCONFIGURED)
    assert condition is not None
    assert condition.status == "True"
    assert "MIGLayoutDoesNotFit" in condition.message
    assert "migLayout" in condition.message


class Mixed(Queue):
    """A pool of cards that are divided so, with pods that wait for profiles."""

    def __init__(self, cards: int = 1) -> None:
        super().__init__({"n1": 0}, allocation=MIXED)
        counts = [{"profile": name, "slots": count} for name, count in INSTANCES.items()]
        offered = {"pool": "a", "configVersion": "1", "slots": 3, "profiles": counts}
        for number in range(cards):
            one, capable = f"n1-{number}", {"capable": True, "enabled": True}
            card = objects.card("n1", number, pool="a", hardware={"mig": capable}, meta={"name": one}, inventory_id=one)
            self.add(card)
            with self.edit("GPUDevice", one) as found:
                found["status"]["published"] = offered

    def wants(self, name: str, profile: str, units: int = 1, **more: Any) -> None:
        """A pod behind our gate that asks for instances of one profile."""
        limits = {names.resource_name(f"a.{profile}"): str(units)}
        self.queues(name, **more)
        with self.edit("Pod", f"default/{name}") as found:
            for container in found["spec"]["containers"]:
                container["resources"] = {"limits": limits}

    def promised(self) -> dict[str, list[str | None]]:
        return {pod: [entry.profile for _, entry in found] for pod, found in self.reservations().items()}

    def free(self, profile: str | None) -> int:
        seen = self.view().queue("a", {})
        assert seen is not None
        return sum(slots.free for slots in node_slots(seen, self.now, profile).values())

    def gated(self) -> set[str]:
        return {pod.name for pod in self.all(resources.POD, TenantPod) if is_gated(pod.spec)}


def test_each_profile_is_given_out_by_itself() -> None:
    pool = Mixed()
    for name, profile in (
        ("s1", "1g.10gb"),
        ("l1", "3g.40gb"),
        ("s2", "1g.10gb"),
        ("l2", "3g.40gb"),
        ("s3", "1g.10gb"),
    ):
        pool.wants(name, profile)
    pool.rest()

    assert pool.promised() == {"s1": ["1g.10gb"], "s2": ["1g.10gb"], "l1": ["3g.40gb"]}
    assert pool.gated() == {"l2", "s3"}
    assert (pool.free("1g.10gb"), pool.free("3g.40gb"), pool.free(None)) == (0, 0, 0)


def test_who_waits_for_one_profile_keeps_nobody_from_another() -> None:
    pool = Mixed()
    pool.wants("first", "3g.40gb", age=900)
    pool.wants("second", "3g.40gb", age=800)
    pool.rest()
    pool.wants("small", "1g.10gb", units=2, age=5)
    pool.rest()
    assert held(pool) == {"first": 1, "small": 2}


def test_a_profile_that_the_layout_does_not_have_is_given_to_nobody() -> None:
    pool = Mixed()
    pool.wants("odd", "7g.80gb")
    pool.wants("plain", "1g.10gb")
    with pool.edit("Pod", "default/plain") as found:
        found["spec"]["containers"][0]["resources"] = {"limits": {names.resource_name("a"): "1"}}
    pool.rest()
    assert pool.promised() == {}
    assert pool.gated() == {"odd", "plain"}


def test_a_gang_asks_for_one_profile() -> None:
    pool = Mixed()
    marks = {GANG: "g", GANG_SIZE: "2"}
    pool.wants("g-0", "1g.10gb", marks=marks)
    pool.wants("g-1", "3g.40gb", marks=marks)
    pool.rest()
    made = pool.look()
    assert made is not None
    assert "different MIG profiles (1g.10gb, 3g.40gb)" in made.reasons["default/g-0"].detail
    assert pool.gated() == {"g-0", "g-1"}


def test_what_kubelet_gave_of_one_profile_is_not_taken_from_another() -> None:
    pool = Mixed(cards=2)
    pool.wants("s1", "1g.10gb")
    with pool.edit("GPUDevice", "n1-0") as found:
        taken = {
            "podUID": "u-x",
            "namespace": "default",
            "pod": "x",
            "container": "c",
            "slots": 2,
            "profile": "1g.10gb",
        }
        found["status"]["allocations"] = [taken]
    assert (pool.free("1g.10gb"), pool.free("3g.40gb"), pool.free(None)) == (2, 2, 4)
    pool.rest()
    (cards,) = (each.name for each in pool.all(resources.GPUDEVICE, GPUDevice) if each.status.reservations)
    assert cards == "n1-1"


def test_a_condition_counts_the_slots_that_the_pod_asks_for() -> None:
    pool = Mixed(cards=2)
    pool.wants("large", "3g.40gb", units=3, age=60)
    pool.wants("small", "1g.10gb", units=5, age=50)
    pool.wants("first", "1g.10gb", units=3, age=90)
    pool.wants("second", "1g.10gb", units=2, age=40)
    made = pool.look()
    assert made is not None
    said = {name: made.numbers(f"default/{name}").partition(" (")[0] for name in ("first", "large", "small", "second")}
    assert said == {
        "first": "",
        "large": "2 cards: 2 free on nodes that have too few",
        "small": "2 cards: 2 free on nodes that have too few",
        "second": "3 free ones are kept for pods that are before it",
    }
