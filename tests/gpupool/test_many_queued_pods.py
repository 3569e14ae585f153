"""A long queue in which nothing moves: a look at it costs little, since it is looked at with every change."""

from __future__ import annotations

import gc
import time
from collections import Counter
from dataclasses import replace

from controllers.api import names
from controllers.domain.clock import stamp
from controllers.domain.request import units_of
from controllers.gpupool.queue.pending_pods import plan_pending_pods
from controllers.gpupool.queue.records import ObservedQueue
from tests.gpupool.test_queued_pods import POOL_AFFINITY
from tests.kit import objects
from tests.kit.objects import NOW
from tests.kit.pace import Stretch
from tests.kit.pods import pod

PODS, NODES, CARDS, NAMESPACES = 2000, 125, 8, 20
LOOK = 0.05
"""Seconds of the processor; measured: 27 ms, and 40 ms for the first look, which makes the entries."""


def full_pool() -> ObservedQueue:
    """All cards are in use; every fourth pod wants several, and the oldest have waited long enough to be kept cards."""
    nodes = [f"n{at}" for at in range(NODES)]
    cards, running = [], []
    for node in nodes:
        for at in range(CARDS):
            name = f"{node}-{at}"
            taken = objects.allocation(name, f"pod-{name}")
            cards.append(
                objects.card(node, at + 1, pool="a", meta={"name": name}, inventory_id=name, allocations=[taken])
            )
            running.append(pod(name, devices=name, phase="Running", nodeName=node))
    waiting = [
        pod(
            f"p{at}",
            1 + at % CARDS if at % 4 == 0 else 1,
            meta={"namespace": f"team-{at % NAMESPACES}", "creationTimestamp": stamp(NOW - at)},
            schedulingGates=[{"name": names.CARDS_GATE}],
            affinity=POOL_AFFINITY,
        )
        for at in range(PODS)
    ]
    labels = {names.pool_node_label("a"): "true"}
    known = {name: objects.node(name, labels=labels) for name in nodes}
    return ObservedQueue(objects.pool("a"), tuple(waiting), tuple(cards), known, tuple(running))


def test_a_look_at_two_thousand_pods_that_cannot_be_served_takes_less_than_fifty_milliseconds() -> None:
    view, took = full_pool(), list[float]()
    gc.collect()
    gc.freeze()  # what other tests have left in memory is not this one's
    try:
        with Stretch() as stretch:
            for _ in range(8):
                began = time.thread_time()
                made = plan_pending_pods(view, NOW)
                took.append(time.thread_time() - began)
    finally:
        gc.unfreeze()
    assert Counter(wait.cause for wait in made.reasons.values()) == {"Waiting": PODS}
    assert (made.plan.writes, made.promises) == ((), ())
    assert made.status is not None
    assert made.status.waiting == PODS
    stretch.judge("a look", min(took), LOOK)


def test_a_pool_that_goes_while_two_thousand_wait_tells_each_of_them_and_serves_them_when_it_is_back() -> None:
    full = full_pool()
    going = replace(full, pool=objects.pool("a", meta={"deletion_timestamp": stamp(NOW)}))
    closed = plan_pending_pods(going, NOW)
    assert Counter(wait.cause for wait in closed.reasons.values()) == {"PoolClosed": PODS}
    assert (closed.plan.writes, closed.promises) == ((), ())

    free = tuple(replace(card, status=replace(card.status, allocations=())) for card in full.members)
    back = plan_pending_pods(replace(full, members=free, bound=()), NOW)
    units = {found.key: units_of(found, "a") for found in full.unbound}
    served = [key for promise in back.promises for key in promise.pods]
    assert len(served) == len(set(served))
    kept = NODES * CARDS - sum(units[key] for key in served)
    assert 0 <= kept < CARDS, "some of one node at most, for the first that fits nowhere"
    assert set(served) | set(back.reasons) == set(units)
    assert set(served).isdisjoint(back.reasons)
