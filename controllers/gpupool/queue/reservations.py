"""The end of reservations on a GPUDevice, its `state`, and its `history`, in one write. Pure.

Reservations (docs/dev/design.md, Life of a reservation):

made ──pod appears──▶ seen ──pod is bound──▶ ended (the pod itself now counts)
  │ 15 s without it     │ 2 min unbound, or the pod is gone, or waits for scheduling gates
  ▼                     ▼
ended                 ended (GPUReservationExpired where the time ran out)

A pod that outlives its reservation keeps waiting; `controllers.gpupool.queue.pending_pods` reserves for it anew.

The times are the writer's word. No promise of ours ends later than a TTL from now, so one that claims to end long after
that (`FAR`), as a webhook in foreign hands may write it, is cut to it. What a clock that is wrong by less has written
is believed: cutting it by a clock that is wrong itself would give a promised card to somebody else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE, POD
from controllers.domain.clock import seconds, stamp_exact
from controllers.domain.lifecycle import live, state_with
from controllers.domain.queue.gates import other_gates
from controllers.gpupool.queue import history
from controllers.runtime.plan import EmitEvent, Merge, Plan, PlanBuilder, Precondition, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import Reservation
    from controllers.api.settings import Settings
    from controllers.api.tenant import TenantPod
    from controllers.gpupool.views import ObservedCard

GRACE = 0.05
"""Seconds added to a deadline, so that it has passed when the key comes back."""
FAR = 900.0
"""Seconds by which clocks may differ, or TTLs have been longer a moment ago, before an end is not believed."""


def plan_card(view: ObservedCard, now: float) -> Plan:
    """The plan for one card."""
    device, draft = view.device, PlanBuilder()
    if device.status.inventory_id is None:
        return draft.build()  # inventory has yet to fill it in
    kept: list[Reservation] = []
    expired: list[Reservation] = []
    for reservation in device.status.reservations:
        pod = view.pods.get(reservation.request_id)
        if _has_ended(reservation, pod):
            if pod is None:
                draft.add(_expect_no_pod(view, reservation))
            continue
        current = _mark_seen(reservation, view.settings, now) if pod is not None else reservation
        current = _bounded(current, view.settings, now)
        if live(current, now):
            kept.append(current)
            draft.requeue_within(max(GRACE, seconds(current.expires_at) - now + GRACE))
        else:
            expired.append(current)
    changed = tuple(kept) != device.status.reservations
    wanted = state_with(device, kept, now)
    status = history.write_ended(view)
    if view.more_ended_in is not None:
        draft.requeue_within(view.more_ended_in + GRACE)
    if changed:
        status["reservations"] = [to_json(reservation) for reservation in kept]
    if status or device.status.state != wanted:
        status["state"] = wanted
        about = ref(GPUDEVICE, device)
        draft.add(Merge(about, device.metadata.resource_version, {"status": status}, "status"))
        draft.add(*(EmitEvent(about, "Warning", names.EVENT_RESERVATION_EXPIRED, _expiry_message(r)) for r in expired))
    return draft.build()


def _has_ended(reservation: Reservation, pod: TenantPod | None) -> bool:
    """Whether its pod is bound, finished, or was there and is gone, or waits for what others have to do first.

    Kueue's webhook, among others, adds its gate after ours was asked; the pod is reserved for when its gates are gone.
    """
    if pod is None:
        return reservation.seen
    return pod.node is not None or pod.finished or bool(other_gates(pod.spec))


def _expect_no_pod(view: ObservedCard, reservation: Reservation) -> Precondition:
    """A pod that was there and is not in the cache: the quorum must not have it either."""
    namespace = reservation.namespace
    return Precondition(POD, view.known.get(namespace, frozenset()), namespace=namespace, labels=names.LABEL_POOL)


def _mark_seen(reservation: Reservation, settings: Settings, now: float) -> Reservation:
    """The reservation of a pod that has appeared: from now on it has the whole time to be bound."""
    if reservation.seen:
        return reservation
    expires = _since(reservation, now) + settings.admission.reservation_ttl
    return replace(reservation, seen=True, expires_at=stamp_exact(expires))


def _since(reservation: Reservation, now: float) -> float:
    """When the promise was made, as far as that can be: a year that Python does not know, or far ahead, is now."""
    try:
        since = seconds(reservation.since)
    except ValueError:
        return now
    return since if since < now + FAR else now


def _bounded(reservation: Reservation, settings: Settings, now: float) -> Reservation:
    """The reservation with an end that one of ours can have."""
    longest = max(settings.admission.reservation_ttl, settings.admission.unseen_ttl)
    try:
        believed = seconds(reservation.expires_at) <= now + longest + FAR
    except ValueError:
        return reservation  # is over anyway
    return reservation if believed else replace(reservation, expires_at=stamp_exact(now + longest))


def _expiry_message(reservation: Reservation) -> str:
    pod = f"{reservation.namespace}/{reservation.pod}"
    if not reservation.seen:
        return (
            f"The card was held for pod {pod}, which never appeared: something after the webhook refused it,"
            " a ResourceQuota for instance. The card is free again."
        )
    return (
        f"The card was held for pod {pod}, which was not bound in time: see `kubectl describe pod` there."
        " The pod keeps waiting, and gets another reservation in its turn; after two, others come first for a while."
    )
