"""New reservations for pods that outlived theirs, oldest first, all or none (docs/dev/design.md, Pods that wait). Pure.

Turns: each waiting pod is reserved for once, oldest first, before any is a second time; then
the one whose turn is longest ago comes first. A turn lasts the reservation's TTL, and nobody
has another before it is over. Where two turns ran out though the cards could be used, the
webhook's among them, the scheduler does not place the pod for a reason that is not ours:
others come first for a TTL, after each further turn for twice as long as before
(`status.passedOver`, which the webhook reads). Then it has its place again, by its age. So
such a pod holds cards for ever shorter shares of the time. Turns are what is seen of
reservations, and live in the process: after a restart a pod that is not in that list has one
turn more.

Where more pods wait than one plan can hold against the nodes (`card_reservations.WORK`), the rest comes first in
the next one, so that each is looked at in the end.

A pod of several cards is reserved for card by card; where that ends half-way, the next plan
takes back what is there and begins again.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from controllers.api.gpupool import PassedOver
from controllers.api.record import to_json
from controllers.api.resources import GPUPOOL
from controllers.domain.queue.supply import reserves_now
from controllers.domain.waiting import PendingPod, pending_pod, until, waits_from
from controllers.gpupool.queue.card_reservations import left_of, reserve_cards, take_back
from controllers.gpupool.queue.queued_pods import close, read_queue, release_promised, serve
from controllers.gpupool.queue.records import GRACE, ObservedQueue, ReservationRound, ReservationsByRequest, Turn
from controllers.gpupool.queue.turns import follow_turns, pods_passed_over, reservations_by_request
from controllers.runtime.plan import Merge, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def plan_pending_pods(view: ObservedQueue, now: float) -> ReservationRound:
    """The round of reservations for the pending pods of one pool."""
    draft = PlanBuilder()
    by_request = reservations_by_request(view)
    queued = read_queue(view, by_request, now)
    if not reserves_now(view.pool):
        taken_back, reasons = close(view, queued, now)
        draft.add(*taken_back)
        return ReservationRound(draft.build(), {}, reasons=reasons)
    unbound = [found for pod in view.unbound if (found := pending_pod(pod, view.pool.name)) is not None]
    turns, ended = follow_turns(view, unbound, by_request, now)
    passed = pods_passed_over(view, turns, ended, now)
    if passed != (view.pool.status.passed_over or ()):
        status = {"passedOver": [to_json(each) for each in passed] or None}
        draft.add(Merge(ref(GPUPOOL, view.pool), view.pool.metadata.resource_version, {"status": status}, "status"))
    queue = _queue(view, unbound, by_request, turns, passed, draft=draft, now=now)
    promised = release_promised(view, queued, by_request)
    if not (queue or queued.waiting or queued.torn):
        return ReservationRound(draft.build(), turns, promises=tuple(promised), reasons=queued.reasons)
    if remains := take_back(view, {*queued.torn, *(pod.request_id for pod in queue)}, now):
        draft.add(*remains)
        unreached = tuple(view.unreached)
        return ReservationRound(draft.build(), turns, (), unreached, tuple(promised), queued.reasons)
    profiles = dict.fromkeys([*(pod.profile for pod in queue), *(entry.profile for entry in queued.waiting)])
    lefts = left_of(view, profiles, now)
    served, rest = reserve_cards(view, queue, lefts, draft, now)
    walk = serve(view, queued, by_request, lefts, now)
    if walk.next_look < inf:
        draft.requeue_within(walk.next_look - now + GRACE)
    return ReservationRound(
        draft.build(),
        turns,
        tuple(served),
        tuple(rest),
        (*promised, *walk.promises),
        queued.reasons | dict(walk.reasons),
        walk.status,
        walk.numbers,
    )


def _queue(
    view: ObservedQueue,
    unbound: Iterable[PendingPod],
    by_request: ReservationsByRequest,
    turns: Mapping[str, Turn],
    passed: tuple[PassedOver, ...],
    *,
    draft: PlanBuilder,
    now: float,
) -> list[PendingPod]:
    """The pods that wait without a reservation and are not passed over, in the order of their turns."""
    last = {each.request_id: until(each, now) for each in passed}
    queue: list[PendingPod] = []
    for found in unbound:
        reserved = [reservation for _, reservation in by_request.get(found.request_id, ())]
        since = waits_from(found, reserved, now, view.unseen_ttl)
        if (turn := turns.get(found.request_id)) is not None:
            since = max(since, turn.began + view.reservation_ttl)
        since = max(since, last.get(found.request_id, 0.0))
        if since <= now:
            queue.append(found)
        else:
            draft.requeue_within(since - now + GRACE)
    before = last | {request: turn.began for request, turn in turns.items()}
    return sorted(queue, key=lambda p: (p.request_id not in view.unreached, before.get(p.request_id, 0.0), p.queue_key))
