"""What kubelet gave a pod of several cards, compared with what was near: said and counted once, and of no other pod."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import REGISTRY

from controllers.api import names
from controllers.api.gpupool import AllocationSpec, MIGShare
from controllers.api.record import adapter
from controllers.api.tenant import TenantPod
from controllers.domain.clock import stamp
from controllers.gpupool import metrics
from controllers.gpupool.loops import pod_conditions
from controllers.gpupool.loops.pod_conditions import PodConditionController
from controllers.gpupool.nearness import NEW, Nearness, PodCards, compare, plan_near
from controllers.gpupool.world import World
from controllers.inventory.identity import inventory_id
from controllers.runtime.plan import Action, Apply, EmitEvent
from controllers.runtime.store import Store
from tests.gpupool.world import KINDS
from tests.kit import objects
from tests.kit.clock import Clock
from tests.kit.objects import NOW, address, allocation, reservation
from tests.kit.pods import asking, pod_body

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice


def card(number: int, pod: str = "", *, node: str = "n", **status: Any) -> GPUDevice:
    """One of eight cards in bridged pairs, four on each NUMA node, that a pod has."""
    hardware = {"numa_node": number // 4, "nvlink": {"peers": [address(number ^ 1)]}}
    taken = (allocation(pod, f"pod-{pod}"),) if pod else ()
    return objects.card(node, number, pool="a", hardware=hardware, **{"allocations": taken} | status)


def cards(has: str = "", *others: GPUDevice, pod: str = "p", node: str = "n") -> tuple[GPUDevice, ...]:
    """The node's eight cards, of which the pod has those with these digits; `others` stand for their numbers."""
    given = {device.name: device for device in others}
    made = (card(number, pod if str(number) in has else "", node=node) for number in range(8))
    return tuple(given.get(device.name, device) for device in made)


def bound_body(reserved: str = "", units: int = 2, *, on: str = "n", said: Any = (), **more: Any) -> dict[str, Any]:
    """A pod on node n for which the cards with these digits of a node were reserved."""
    devices = ",".join(inventory_id(on, address(int(number))) for number in reserved)
    body: dict[str, Any] = pod_body("p", units, devices=devices, nodeName="n", **more)
    body["status"] |= {"conditions": list(said), "startTime": stamp(NOW)}
    return body


def bound(reserved: str = "", units: int = 2, **more: Any) -> TenantPod:
    """The same, read; `more` is what `bound_body` takes."""
    return adapter(TenantPod).validate_python(bound_body(reserved, units, **more))


def found(pod: TenantPod, here: tuple[GPUDevice, ...], *, is_new: bool = False, **more: Any) -> Nearness | None:
    return compare(PodCards(pod, "a", here, more.pop("there", here), AllocationSpec(), is_new), more.pop("now", NOW))


@pytest.mark.parametrize(
    ("reserved", "has", "missed"),
    [
        ("01", "01", None),
        ("01", "45", None),  # another pair is as near
        ("01", "02", "bond"),
        ("02", "04", "numa"),
        ("04", "01", None),  # nearer than what was free when it was placed
        ("0123", "0145", "numa"),
        ("0123", "4567", None),
    ],
)
def test_reserved_cards_are_what_was_to_be_had(reserved: str, has: str, missed: str | None) -> None:
    one = found(bound(reserved, len(has)), cards(has))
    assert one is not None
    assert (one.missed if one.is_split else None) == missed
    assert one.cause == "OtherCards"
    assert one.cards == tuple(inventory_id("n", address(int(number))) for number in has)


def test_on_another_node_it_is_compared_with_the_reserved_ones_of_the_first() -> None:
    one = found(bound("01", on="m"), cards("02"), there=cards(node="m"))
    assert one is not None
    assert (one.is_split, one.missed, one.cause) == (True, "bond", "OtherNode")


@pytest.mark.parametrize(
    ("others", "missed"),
    [
        ((), "bond"),
        ([card(n, "q") for n in (0, 5, 6)], "bond"),
        ([card(n, "q") for n in (0, 3, 5, 6)], "numa"),
        ([card(n, "q") for n in (0, 2, 3, 5, 6, 7)], None),
        ([card(0, "q"), card(2, reservations=(reservation("other", until=NOW + 9),)), card(3, "q")], "bond"),
        ([card(n, published=None) for n in (0, 2, 3, 5, 6, 7)], None),
    ],
)
def test_without_reserved_cards_it_is_what_else_was_free(others: list[GPUDevice], missed: str | None) -> None:
    here = cards("14", *others)
    one = found(bound(), here, is_new=True)
    assert one is not None
    assert (one.missed if one.is_split else None) == missed
    assert one.cause == "NotReserved"
    assert found(bound(), here) is None, "what else was free when it came is not known any more"
    assert found(bound(), here, is_new=True, now=NOW + NEW) is None, "it has run for a while: an agent told of it anew"


def test_in_a_mixed_layout_slots_of_other_profiles_are_not_to_be_had() -> None:
    layout = AllocationSpec(
        mode="MIG",
        mig_layout=(MIGShare(profile="1g.10gb", count=2), MIGShare(profile="3g.40gb", count=1)),
    )
    offered = {
        "pool": "a",
        "config_version": "1",
        "slots": 3,
        "profiles": [{"profile": "1g.10gb", "slots": 2}, {"profile": "3g.40gb", "slots": 1}],
    }

    def instance(number: int, pod: str, profile: str) -> GPUDevice:
        hardware = {"numa_node": number // 4, "nvlink": {"peers": [address(number ^ 1)]}}
        hardware |= {"mig": {"capable": True, "enabled": True}}
        taken = [replace(allocation(pod, f"pod-{pod}"), profile=profile)]
        return objects.card("n", number, pool="a", hardware=hardware, allocations=taken, published=offered)

    def missed(profile: str) -> str | None:
        here = (*(instance(n, "q", profile) for n in (0, 1)), instance(2, "p", "3g.40gb"), instance(4, "p", "3g.40gb"))
        pod = bound(containers=[asking("a.3g.40gb", units=2)], pool="a")
        one = compare(PodCards(pod, "a", here, here, layout, is_new=True), NOW)
        assert one is not None
        return one.missed if one.is_split else None

    assert missed("1g.10gb") == "bond", "the pair had both of its large instances"
    assert missed("3g.40gb") is None


def test_nothing_is_said_before_kubelet_has_told_all_or_of_one_card() -> None:
    assert found(bound("01"), cards("2")) is None
    assert found(bound("0", 1), cards("2")) is None
    assert found(bound("01"), cards()) is None
    without = tuple(each for each in cards("24") if each.status.inventory_id != inventory_id("n", address(1)))
    assert found(bound("01"), without) is None, "one of the reserved cards is gone"
    # What an init container had beyond that, nobody tells.
    init: Any = {"initContainers": [asking("a", units=4)], "containers": [asking("a", units=2)]}
    assert found(bound("0123", **init), cards("04")) is not None


TOGETHER, APART = (False,) * 5, (True, True, True, False, False)
SPLIT = Nearness(("n-a", "n-b"), APART, TOGETHER, "OtherCards")
NEAR = replace(SPLIT, got=TOGETHER)
QUEUED = {"type": names.QUEUED, "status": "False", "reason": "Released", "lastTransitionTime": stamp(NOW - 9)}


def test_it_is_written_once_with_our_other_condition() -> None:
    write, event = plan_near(bound(said=[QUEUED]), SPLIT, NOW).actions
    assert isinstance(write, Apply)
    assert isinstance(event, EmitEvent)
    queued, made = write.body["status"]["conditions"]
    assert (queued["type"], queued["reason"], write.subresource) == (names.QUEUED, "Released", "status")
    assert (made["type"], made["status"], made["reason"]) == (names.NEAR, "False", "OtherCards")
    assert made["message"] == event.message
    assert made["message"] == (
        "The pod's 2 cards (n-a, n-b) are not linked to each other by the most NVLinks. Those reserved for it were, and"
        " kubelet took others."
    )
    known = bound(said=[queued, made])
    assert plan_near(known, SPLIT, NOW + 99).actions == ()
    assert plan_near(known, None, NOW + 99).actions == ()
    # Its node was started anew, and kubelet gave anew.
    (again,) = plan_near(known, NEAR, NOW + 99).actions
    assert isinstance(again, Apply)
    assert [(each["type"], each["status"]) for each in again.body["status"]["conditions"]] == [
        (names.QUEUED, "False"), (names.NEAR, "True"),
    ]  # fmt: skip
    assert plan_near(bound(said=again.body["status"]["conditions"]), NEAR, NOW).actions == ()


def test_of_a_pod_whose_cards_are_near_nothing_is_written() -> None:
    assert plan_near(bound(), NEAR, NOW).actions == ()


class Bench:
    """The controller over caches in memory; what it applies to a pod is stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, body: dict[str, Any], pool: str) -> None:
        self.clock = Clock(monkeypatch, pod_conditions)
        stores: dict[str, Any] = {name: Store(kind.kind) for name, (kind, _) in KINDS.items()}
        self.world, self.written = World(**stores, clock=lambda: NOW), list[Action]()
        self.world.pools.replace([objects.pool(pool)], 1)
        self._body = body
        self._store()
        process: Any = SimpleNamespace(executor=SimpleNamespace(execute=self._execute))
        self.conditions = PodConditionController(process, self.world)
        self.conditions.watch()

    @property
    def pod(self) -> TenantPod:
        """As it is stored."""
        (found,) = self.world.pods
        return found

    def _store(self) -> None:
        self.world.pods.replace([adapter(TenantPod).validate_python(self._body)], self.world.pods.observed + 1)

    async def _execute(self, actions: tuple[Action, ...]) -> None:
        self.written += actions
        for action in actions:
            if isinstance(action, Apply):
                self._body = {**self._body, "status": {**self._body["status"], **action.body["status"]}}
                self._store()

    def give(self, devices: tuple[GPUDevice, ...]) -> None:
        self.world.devices.replace(devices, self.world.devices.observed + 1)

    async def look(self) -> None:
        await self.conditions._reconcile(self.pod.key)


def counted(pool: str) -> float | None:
    wanted = {"pool": pool, "cards": "2", "level": "bond"}
    return REGISTRY.get_sample_value("gpupool_split_pods_total", wanted)


@pytest.mark.parametrize("reserved", ["01", ""])
async def test_a_pod_that_gets_cards_is_compared_and_counted_once(
    monkeypatch: pytest.MonkeyPatch, reserved: str
) -> None:
    bench = Bench(monkeypatch, bound_body(reserved, said=[QUEUED]), "a")
    bench.clock.now = NOW
    metrics.forget("a")
    bench.give(cards())
    bench.give(cards("2"))
    await bench.look()
    assert bench.pod.status.near is None
    bench.written.clear()
    bench.give(cards("24"))
    for _ in range(3):
        await bench.look()
        bench.conditions.enqueue_all()
    assert [type(each) for each in bench.written] == [Apply, EmitEvent]
    assert bench.pod.status.near is not None
    assert bench.pod.status.queued is not None
    assert bench.pod.status.near.reason == ("OtherCards" if reserved else "NotReserved")
    assert counted("a") == 1
    metrics.forget("a")
    assert counted("a") is None


async def test_after_a_restart_reserved_cards_are_still_what_was_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    for reserved, count in (("01", 1), ("", 0)):
        bench = Bench(monkeypatch, bound_body(reserved), "a")
        bench.give(cards("24"))
        bench.conditions.enqueue_all()
        await bench.look()
        assert len([each for each in bench.written if isinstance(each, Apply)]) == count
