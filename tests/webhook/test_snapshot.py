"""The capacities that are kept are those that would be made anew from the caches, at any time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.domain.placement.capacity import NodeCapacity
from controllers.domain.placement.choice import Placement, Share
from tests.kit.objects import reservation
from tests.webhook import world
from webhook import metrics
from webhook.caches.snapshot import Snapshot
from webhook.caches.stores import Stores

NODES, CARDS = ("n0", "n1"), (0, 1)
TAINT = {"key": "gpu", "value": "b", "effect": "NoSchedule"}


def summary(capacities: tuple[NodeCapacity, ...]) -> dict[str, Any]:
    return {
        entry.slots.node: (entry.free, entry.taken, entry.total, sorted(s.device.name for s in entry.free_cards))
        for entry in capacities
    }


def fresh(stores: Stores, now: float) -> tuple[dict[str, Any], Any, Any]:
    """What a snapshot says that learned of everything just now."""
    copy = world.stores()
    snapshot = world.snapshot(copy)
    for source, target in (
        (stores.pools, copy.pools),
        (stores.nodes, copy.nodes),
        (stores.devices, copy.devices),
        (stores.pods, copy.pods),
    ):
        for item in source:
            target.on_watch_event(item)  # type: ignore[attr-defined]
    seen = snapshot.view("a", "team", now)
    return summary(seen.capacities), seen.pending, seen.tolerated


def versioned(item: Any, version: int) -> Any:
    return replace(item, metadata=replace(item.metadata, resource_version=str(version)))


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("device"), st.sampled_from(NODES), st.sampled_from(CARDS), st.sampled_from(["a", "a", "b", None]),
            st.lists(st.tuples(st.sampled_from(["r1", "r2"]), st.integers(1, 9)), max_size=2, unique_by=lambda r: r[0]),
            st.booleans(),
        ),
        st.tuples(st.just("no device"), st.sampled_from(NODES), st.sampled_from(CARDS)),
        st.tuples(st.just("node"), st.sampled_from(NODES), st.booleans()),
        st.tuples(st.just("no node"), st.sampled_from(NODES)),
        st.tuples(
            st.just("pod"), st.sampled_from(["p1", "p2"]), st.sampled_from([*NODES, None]), st.sampled_from(["r1", ""])
        ),
        st.tuples(st.just("no pod"), st.sampled_from(["p1", "p2"])),
        st.tuples(st.just("pool"), st.sampled_from(["Exclusive", "TimeSlice"])),
        st.tuples(st.just("neighbour"), st.booleans()),
        st.tuples(st.just("tainted"), st.sampled_from(NODES), st.booleans()),
        st.tuples(st.just("no pool")),
        st.tuples(st.just("time"), st.integers(1, 12)),
    ),
    min_size=4,
    max_size=30,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(steps)
def test_what_is_kept_is_what_would_be_made_anew(script: list[Any]) -> None:
    stores, now = world.stores(), world.NOW
    snapshot = world.snapshot(stores)
    stores.pools.on_watch_event(versioned(world.pool(), 2))
    for version, name in enumerate(NODES, 3):
        stores.nodes.on_watch_event(versioned(world.node(name), version))
        stores.devices.on_watch_event(versioned(world.device(name, 0), version))
    for version, step in enumerate(script, 10):
        now = _play(stores, step, version, now)
        seen = snapshot.view("a", "team", now)
        assert (summary(seen.capacities), seen.pending, seen.tolerated) == fresh(stores, now)


def _play(stores: Stores, step: Any, version: int, now: float) -> float:  # noqa: C901 - a list of happenings
    match step:
        case "device", node, number, pool, promises, withdrawn:
            kept = [reservation(request, until=world.NOW + seconds) for request, seconds in promises]
            offer = {"published": None} if withdrawn else {}
            made = world.device(node, number, pool=pool, reservations=kept, **offer)
            stores.devices.on_watch_event(versioned(made, version))
        case "no device", node, number:
            stores.devices.on_watch_event(versioned(world.device(node, number), version), deleted=True)
        case "node", node, ready:
            stores.nodes.on_watch_event(versioned(world.node(node, ready=ready), version))
        case "no node", node:
            stores.nodes.on_watch_event(versioned(world.node(node), version), deleted=True)
        case "pod", name, node, request:
            stores.pods.on_watch_event(versioned(world.stored_pod(name, node, request=request), version))
        case "no pod", name:
            stores.pods.on_watch_event(versioned(world.stored_pod(name, None), version), deleted=True)
        case "pool", mode:
            stores.pools.on_watch_event(versioned(world.pool(allocation={"mode": mode}), version))
        case "neighbour", wants:
            taints = [TAINT] if wants else []
            stores.pools.on_watch_event(versioned(world.pool("b", scheduling={"taints": taints}), version))
        case "tainted", node, ours:
            noted = {names.POOL_TAINTS: orjson.dumps([{**TAINT, "pool": "b"}]).decode()} if ours else {}
            made = world.node(node, taints=[TAINT])
            stores.nodes.on_watch_event(
                versioned(replace(made, metadata=replace(made.metadata, annotations=noted)), version)
            )
        case ("no pool",):
            stores.pools.on_watch_event(versioned(world.pool(), version), deleted=True)
        case "time", seconds:
            return now + seconds
    return now


def ready() -> tuple[Stores, Snapshot]:
    stores = world.stores()
    snapshot = world.snapshot(stores)
    stores.pools.on_watch_event(versioned(world.pool(), 2))
    stores.nodes.on_watch_event(versioned(world.node("n0"), 2))
    stores.devices.on_watch_event(versioned(world.device("n0", 0), 2))
    return stores, snapshot


def free(snapshot: Snapshot, now: float = world.NOW) -> int:
    return sum(entry.free for entry in snapshot.view("a", "team", now).capacities)


def test_what_is_held_is_not_free_until_released() -> None:
    stores, snapshot = ready()
    placement = Placement("n0", (Share(next(iter(stores.devices)), 1),))
    snapshot.track_in_flight("r1", placement, "team", "a")
    assert free(snapshot) == 0
    snapshot.untrack_in_flight("r1", placement, "team")
    assert free(snapshot) == 1


def test_a_reservation_ends_by_the_clock_alone() -> None:
    stores, snapshot = ready()
    stores.devices.on_watch_event(
        versioned(world.device("n0", 0, reservations=[reservation("r1", until=world.NOW + 5)]), 3)
    )
    assert free(snapshot, world.NOW + 4.9) == 0
    assert free(snapshot, world.NOW + 5.1) == 1


def unseen(stores: Stores, snapshot: Snapshot, at: float) -> int:
    del stores
    return snapshot.view("a", "team", at).unseen


def test_reservations_count_as_unseen_after_their_grace_until_their_pod_or_end() -> None:
    stores, snapshot = ready()
    both = [reservation("r1", until=world.NOW + 15), reservation("r2", until=world.NOW + 15, namespace="other")]
    stores.devices.on_watch_event(versioned(world.device("n0", 0, reservations=both), 3))
    # The same request on a second card is one request.
    stores.devices.on_watch_event(versioned(world.device("n0", 1, reservations=both[:1]), 3))
    assert unseen(stores, snapshot, world.NOW + 2.9) == 0
    assert unseen(stores, snapshot, world.NOW + 3.1) == 1
    assert unseen(stores, snapshot, world.NOW + 15.1) == 0
    stores.pods.on_watch_event(versioned(world.stored_pod("p", None, request="r1"), 4))
    assert unseen(stores, snapshot, world.NOW + 3.1) == 0


def test_a_reservation_that_was_seen_or_ended_is_not_unseen() -> None:
    stores, snapshot = ready()
    made = reservation("r1", until=world.NOW + 15)
    stores.devices.on_watch_event(versioned(world.device("n0", 0, reservations=[made]), 3))
    stores.devices.on_watch_event(versioned(world.device("n0", 0, reservations=[replace(made, seen=True)]), 4))
    assert unseen(stores, snapshot, world.NOW + 4) == 0
    stores.devices.on_watch_event(versioned(world.device("n0", 0, reservations=[made]), 5))
    stores.devices.on_watch_event(versioned(world.device("n0", 0), 6))
    assert unseen(stores, snapshot, world.NOW + 4) == 0


def test_unreadable_times_of_a_reservation_hold_nothing() -> None:
    stores, snapshot = ready()
    odd = replace(reservation("r1"), expires_at="soon")
    stores.devices.on_watch_event(versioned(world.device("n0", 0, reservations=[odd]), 3))
    assert free(snapshot) == 1
    assert unseen(stores, snapshot, world.NOW + 4) == 0


def test_pods_of_the_pool_that_are_bound_take_slots() -> None:
    stores, snapshot = ready()
    stores.pods.on_watch_event(versioned(world.stored_pod("p", "n0"), 3))
    assert free(snapshot) == 0
    bound_and_reserved = [reservation("r1")]
    stores.devices.on_watch_event(versioned(world.device("n0", 1, reservations=bound_and_reserved), 4))
    stores.pods.on_watch_event(versioned(world.stored_pod("p", "n0", request="r1", devices="n0-0000:01:00.0"), 5))
    assert free(snapshot) == 1


def test_a_bound_pod_takes_a_slot_of_each_pool_that_it_asks_for() -> None:
    """Such as one that was resized before that was refused: admitted to another pool, and here all the same."""
    stores, snapshot = ready()
    stores.pods.on_watch_event(versioned(world.stored_pod("p", "n0", label="other"), 3))
    assert free(snapshot) == 0
    stores.pods.on_watch_event(versioned(world.stored_pod("p", "n0", label="other"), 4), deleted=True)
    assert free(snapshot) == 1


def test_what_was_reserved_for_a_pod_that_is_bound_elsewhere_is_free() -> None:
    stores, snapshot = ready()
    stores.devices.on_watch_event(versioned(world.device("n0", 0, reservations=[reservation("r1")]), 3))
    stores.pods.on_watch_event(versioned(world.stored_pod("p", None, request="r1"), 4))
    assert free(snapshot) == 0
    stores.pods.on_watch_event(versioned(world.stored_pod("p", "n1", request="r1"), 5))
    assert free(snapshot) == 1


def test_a_pool_that_is_divided_otherwise_is_counted_anew() -> None:
    stores, snapshot = ready()
    stores.devices.on_watch_event(versioned(world.device("n0", 0, published=None), 3))
    assert summary(snapshot.view("a", "team", world.NOW).capacities)["n0"][2] == 1
    stores.pools.on_watch_event(versioned(world.pool(allocation={"mode": "TimeSlice"}), 4))
    assert summary(snapshot.view("a", "team", world.NOW).capacities)["n0"][2] == 8


def test_nothing_is_kept_of_a_pool_that_is_gone() -> None:
    """Cards and pods that still bear its name go after it; pools come and go for as long as the process lives."""
    stores, snapshot = ready()
    stores.pods.on_watch_event(versioned(world.stored_pod("p", "n0"), 3))
    metrics.RESERVATIONS.labels("a").inc()
    assert free(snapshot) == 0
    stores.pools.on_watch_event(versioned(world.pool(), 4), deleted=True)
    stores.devices.on_watch_event(versioned(world.device("n0", 0, published=None), 5))
    stores.pods.on_watch_event(versioned(world.stored_pod("p", "n0"), 6), deleted=True)
    assert not any("a" in kept for kept in (snapshot._capacities, snapshot._until, snapshot._dirty))
    assert {"pool": "a"} not in [one.labels for family in metrics.RESERVATIONS.collect() for one in family.samples]
