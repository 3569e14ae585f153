"""Pods that were admitted and lost their reservation come before newcomers of a pool that lets none wait."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.gpupool import PassedOver
from controllers.api.record import adapter, to_json
from controllers.api.tenant import TenantPod
from controllers.domain.clock import stamp
from controllers.domain.waiting import PendingPod, pending_pod
from tests.kit.objects import reservation
from tests.webhook import world
from webhook.caches.snapshot import Snapshot
from webhook.caches.stores import Stores
from webhook.decision.pending import reserve_for_pending
from webhook.decision.verdict import Denied, Placed, Verdict


def pod(name: str, units: int = 1, age: float = 200.0, **spec: Any) -> TenantPod:
    body = to_json(world.stored_pod(name, None, request=f"r-{name}", units=units))
    body["metadata"]["creationTimestamp"] = stamp(world.NOW - age)
    body["metadata"]["resourceVersion"] = "9"
    body["spec"] |= spec
    return adapter(TenantPod).validate_python(body)


def wants(*pods: TenantPod) -> tuple[PendingPod, ...]:
    found = [pending_pod(one, world.POOL) for one in pods]
    return tuple(one for one in found if one is not None)


def caches(cards: int) -> tuple[Stores, Snapshot]:
    stores = world.stores()
    made = world.snapshot(stores)
    stores.pools.on_watch_event(world.refusing_pool())
    stores.nodes.on_watch_event(world.node("n1"))
    for number in range(cards):
        stores.devices.on_watch_event(world.device("n1", number))
    return stores, made


def newcomer(made: Snapshot, now: float = world.NOW, units: int = 1) -> Verdict:
    return world.decided(world.pod(units), world.Known.of(made._stores, made, "a", now), "new")


def test_a_newcomer_does_not_get_the_card_that_an_older_pod_waits_for() -> None:
    stores, made = caches(1)
    stores.pods.on_watch_event(pod("old"))
    verdict = newcomer(made)
    assert isinstance(verdict, Denied)
    assert verdict.error_code == "InsufficientCapacity"
    assert "1 free ones are kept for pods that were admitted earlier" in verdict.message


def test_what_is_left_beside_it_a_newcomer_gets() -> None:
    stores, made = caches(2)
    stores.pods.on_watch_event(pod("old"))
    assert isinstance(newcomer(made), Placed)
    assert isinstance(newcomer(made, units=2), Denied)


def test_others_come_first_while_a_pod_that_had_its_turns_is_passed_over() -> None:
    stores, made = caches(1)
    stores.pods.on_watch_event(pod("old"))
    entry = PassedOver(request_id="r-old", turns=2, until=stamp(world.NOW + 60))
    stores.pools.on_watch_event(world.refusing_pool(status={"passed_over": (entry,)}, meta={"resource_version": "2"}))
    assert isinstance(newcomer(made), Placed)
    assert isinstance(newcomer(made, now=world.NOW + 61), Denied), "it has its place again"


HELD_BACK: dict[str, dict[str, Any]] = {
    "it can use no node": {"nodeSelector": {"disk": "fast"}},
    "it waits for a gate": {"schedulingGates": [{"name": "example.com/quota"}]},
    "it is bound": {"nodeName": "n2"},
}


@pytest.mark.parametrize("spec", HELD_BACK.values(), ids=HELD_BACK.keys())
def test_a_pod_that_could_not_use_the_card_holds_nobody_up(spec: dict[str, Any]) -> None:
    stores, made = caches(1)
    stores.pods.on_watch_event(pod("old", **spec))
    assert isinstance(newcomer(made), Placed)


def test_a_pod_waits_from_the_moment_its_reservation_ends_until_it_has_another() -> None:
    stores, made = caches(2)
    stores.pods.on_watch_event(pod("old"))
    for version, until in ((20, 5.0), (21, 30.0)):
        promise = reservation("r-old", until=world.NOW + until, seen=True)
        card = world.device("n1", 0, reservations=[promise])
        stores.devices.on_watch_event(adapter(type(card)).validate_python(newer(to_json(card), version)))
        assert made.view("a", "team", world.NOW + until - 0.1).pending == ()
        assert [w.request_id for w in made.view("a", "team", world.NOW + until + 0.1).pending] == ["r-old"]
    stores.pods.on_watch_event(pod("old"), deleted=True)
    assert made.view("a", "team", world.NOW + 60).pending == ()


def newer(body: dict[str, Any], version: int) -> dict[str, Any]:
    made = copy.deepcopy(body)
    made["metadata"]["resourceVersion"] = str(version)
    return made


def test_a_pod_that_has_just_been_made_has_a_reservation_that_may_be_on_its_way() -> None:
    stores, made = caches(1)
    stores.pods.on_watch_event(pod("fresh", age=14))
    assert isinstance(newcomer(made), Placed)
    assert isinstance(newcomer(made, world.NOW + 2), Denied)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, "n0", "n1"])), max_size=6),
)
def test_what_is_kept_is_never_more_than_is_free_nor_than_is_wanted(
    cards: list[int], asked: list[tuple[int, str | None]]
) -> None:
    capacities = [
        world.capacity_of(
            world.node(f"n{n}", **{names.LABEL_HOSTNAME: f"n{n}"}), [world.device(f"n{n}", c) for c in range(amount)]
        )
        for n, amount in enumerate(cards)
    ]
    specs = [{"nodeSelector": {names.LABEL_HOSTNAME: only}} if only else {} for _, only in asked]
    queue = wants(*(pod(f"p{n}", units, **specs[n]) for n, (units, _) in enumerate(asked)))
    left = reserve_for_pending(capacities, queue)
    for before, after in zip(capacities, left, strict=True):
        assert after.free + after.reserved_for_pending == before.free
        assert after.free >= 0
    assert sum(entry.reserved_for_pending for entry in left) <= sum(units for units, _ in asked)
    # Whoever could have gone to a node with something left has what it needs, or the most there was.
    for units, only in asked:
        rest = max((e.free for e in left if only in (None, e.slots.node) and e.total >= units), default=0)
        assert rest == 0 or sum(e.reserved_for_pending for e in left) > 0
