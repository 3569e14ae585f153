"""Turns of pending pods: whose reservation ran out how often, and who is passed over (`status.passedOver`). Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.gpudevice import Reservation
from controllers.api.gpupool import PassedOver
from controllers.domain.clock import seconds, stamp_exact
from controllers.domain.issuing import accepts_new_pods, issuable
from controllers.domain.lifecycle import live
from controllers.domain.waiting import PendingPod
from controllers.gpupool.queue.records import ObservedQueue, ReservationsByRequest, Turn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


PASSED_OVER_AFTER: Final = 2
"""Turns that ran out."""


DOUBLED_MAX: Final = 10
"""Times that the time for which others come first is doubled: with a TTL of two minutes to a day and a half."""


def reservations_by_request(view: ObservedQueue) -> ReservationsByRequest:
    """The reservations on the pool's cards, with their cards, by request."""
    found: ReservationsByRequest = defaultdict(list)
    for device in view.members:
        for reservation in device.status.reservations:
            found[reservation.request_id].append((device, reservation))
    return found


def follow_turns(
    view: ObservedQueue, unbound: Iterable[PendingPod], by_request: ReservationsByRequest, now: float
) -> tuple[dict[str, Turn], frozenset[str]]:
    """The turns of pods that wait, and the requests of those that ran out since the last look.

    Behind a gate nothing is a turn: such pods are not among `unbound`.
    """
    counted = {each.request_id: each.turns for each in view.pool.status.passed_over or ()}
    turns, ended = dict[str, Turn](), set[str]()
    for wants in unbound:
        request, before = wants.request_id, view.turns.get(wants.request_id)
        entries = [entry for entry in by_request.get(request, ()) if live(entry[1], now)]
        if sum(reservation.slots for _, reservation in entries) >= wants.units:
            began = max(_began(reservation, now) for _, reservation in entries)
            ran_out = before.ran_out if before is not None else counted.get(request, 0)
            turns[request] = Turn(began, ran_out, frozenset(device.name for device, _ in entries))
        elif before is not None and before.cards and _could_be_used(view, before.cards):
            ended.add(request)
            turns[request] = Turn(before.began, before.ran_out + 1)
        elif before is not None:
            turns[request] = replace(before, cards=frozenset())
    return turns, frozenset(ended)


def _began(reservation: Reservation, now: float) -> float:
    try:
        return min(now, seconds(reservation.since))
    except ValueError:
        return now


def _could_be_used(view: ObservedQueue, cards: Collection[str]) -> bool:
    """Whether none of these cards is out of service, or gone, at a turn's end: a fault of ours is not the pod's."""
    found = [device for device in view.members if device.name in cards]
    return len(found) == len(cards) and all(
        issuable(device, view.pool.name) and accepts_new_pods(view.nodes.get(device.status.node_name or ""))
        for device in found
    )


def pods_passed_over(
    view: ObservedQueue, turns: Mapping[str, Turn], ended: Collection[str], now: float
) -> tuple[PassedOver, ...]:
    """Whom others come before, with those whose turn has run out by now; the longest are kept where they are many."""
    unbound = {pod.metadata.annotations.get(names.REQUEST_ID) for pod in view.unbound}
    found = {each.request_id: each for each in view.pool.status.passed_over or () if each.request_id in unbound}
    for request in ended:
        if (ran_out := turns[request].ran_out) >= PASSED_OVER_AFTER:
            passed = view.reservation_ttl * 2 ** min(ran_out - PASSED_OVER_AFTER, DOUBLED_MAX)
            found[request] = PassedOver(request_id=request, turns=ran_out, until=stamp_exact(now + passed))
    return tuple(sorted(found.values(), key=lambda each: (each.until, each.request_id))[-names.LIST_MAX :])
