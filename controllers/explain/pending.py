"""A pod that is on no node yet: what it waits for. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.clock import seconds
from controllers.domain.lifecycle import live
from controllers.domain.named_devices import named_devices
from controllers.domain.waiting import until
from controllers.domain.wording import listed
from controllers.explain import pool as pools
from controllers.explain.explanation import Finding
from controllers.explain.records import Unreadable
from controllers.explain.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.api.gpupool import GPUPool, PassedOver
    from controllers.explain.pod import PodSeen

UNSCHEDULABLE: Final = "PodScheduled"


def explain_pending(seen: PodSeen, pool: str, units: int, what: str) -> tuple[str, tuple[Finding, ...]]:
    """The verdict and the findings. `what`: what the pod asks for, in words."""
    pod, held = seen.pod, reserved(seen)
    found = (*_itself(seen), *find_pool_blockers(seen, pool))
    says = _scheduler(seen, held)
    if found:
        verdict = f"Pod {pod.key} waits for {what}: {_headline(found[0])}"
    elif sum(r.slots for _, r in held) >= units:
        node = held[0][0].status.node_name
        verdict = f"Pod {pod.key} has {what} reserved on {node} and waits for the scheduler"
    elif isinstance(seen.cards, Unreadable):
        verdict = f"Pod {pod.key} waits for {what}"
    else:
        verdict = f"Pod {pod.key} waits for {what}: nothing is reserved for it now"
    short = () if held or isinstance(seen.pool, Unreadable) else tuple(capacity(seen, seen.pool, units))
    return verdict, (*found, *_reservations(seen, held, units), *short, *says, *events(seen))


def reserved(seen: PodSeen) -> list[tuple[GPUDevice, Reservation]]:
    """What is promised to the pod now."""
    request = seen.pod.metadata.annotations.get(names.REQUEST_ID)
    cards = () if isinstance(seen.cards, Unreadable) else seen.cards
    return [
        (device, held)
        for device in cards
        for held in device.status.reservations
        if request and held.request_id == request and live(held, seen.now)
    ]


def _headline(finding: Finding) -> str:
    return finding.text.split(":", 1)[0]


def _itself(seen: PodSeen) -> Iterator[Finding]:
    """What the pod itself makes wait."""
    pod, meta = seen.pod, seen.pod.metadata
    if meta.deletion_timestamp is not None:
        yield Finding("bad", "it is being deleted", "Nothing: it goes, and gets no card any more")
    if pod.spec.scheduling_gates:
        gates = listed(gate.name for gate in pod.spec.scheduling_gates)
        text = f"it has scheduling gates: {gates}. No card is held for it until they are gone"
        yield Finding("bad", text, "Whoever set them (a queue, for instance) has to take them off")
    if meta.annotations.get(names.REQUEST_ID) is None:
        text = "the webhook never saw it: it was made before the module was there, or past it"
        yield Finding("bad", text, f"Make the pod again; {names.WEBHOOK} then reserves its cards")


def find_pool_blockers(seen: PodSeen, name: str) -> Iterator[Finding]:
    """What keeps the pool from giving cards to anybody, or that there is no such pool."""
    if isinstance(seen.pool, Unreadable):
        return
    if seen.pool is None:
        text = f"there is no GPUPool {name} any more"
        yield Finding("bad", text, "Have an administrator create it, or make the pod for another: kubectl gpu pools")
        return
    yield from pools.find_blockers(seen.pool)


def _reservations(seen: PodSeen, held: list[tuple[GPUDevice, Reservation]], units: int) -> Iterator[Finding]:
    for device, reservation in held:
        left = seen.times.remaining(seconds(reservation.expires_at))
        name = device.status.inventory_id
        yield Finding("good", f"Card {name} on node {device.status.node_name} is reserved for it, {left}")
    if isinstance(seen.cards, Unreadable) or sum(r.slots for _, r in held) >= units:
        return
    promised = named_devices(seen.pod)
    if not promised:
        return
    passed = _passed_over(seen)
    yield Finding(
        "warning",
        f"Its reservation of {listed(promised)} has ended, since it was not bound in time"
        f" (it was made {seen.times.ago(seen.pod.metadata.creation_timestamp)})",
        ""
        if passed
        else "Nothing for the card: it keeps its place before newcomers, and gets another reservation in its turn",
    )
    if passed is not None:
        left = seen.times.remaining(until(passed, seen.now))
        yield Finding(
            "bad",
            f"The scheduler placed it in none of {passed.turns} turns in which its cards were reserved: others come"
            f" first {left}",
            "Mend what the scheduler says of it (kubectl describe pod), or delete it: the reason is not the cards",
        )


def _passed_over(seen: PodSeen) -> PassedOver | None:
    if seen.pool is None or isinstance(seen.pool, Unreadable):
        return None
    request = seen.pod.metadata.annotations.get(names.REQUEST_ID)
    entries = (each for each in seen.pool.status.passed_over or () if each.request_id == request)
    return next((each for each in entries if until(each, seen.now) > seen.now), None)


def capacity(seen: PodSeen, pool: GPUPool | None, units: int) -> Iterator[Finding]:
    """What the pool has, where nothing is reserved for the pod."""
    it = pool.status.capacity if pool is not None else None
    if pool is None or it is None:
        return
    yield from pools.counts(pool)
    most = max((node.slots - node.used for node in pool.status.nodes), default=0)
    if it.available >= units > most:
        text = f"A pod's cards are on one node, and no node has more than {most} free"
        do = f"Ask for {counted(most, 'card')} at most, or wait for pods to end" if most else "Wait for pods to end"
        yield Finding("bad", text, do)
    if not isinstance(seen.cards, Unreadable):
        mine = [d for d in seen.cards if d.status.pool_ref is not None and d.status.pool_ref.name == pool.name]
        yield from pools.idle(mine, pool.name)


def _scheduler(seen: PodSeen, held: list[tuple[GPUDevice, Reservation]]) -> Iterator[Finding]:
    """What the scheduler says, and whether it speaks of cards at all."""
    said = next(
        (c for c in seen.pod.status.detailed_conditions if c.type == UNSCHEDULABLE and c.status == "False"), None
    )
    if said is None or not said.message or said.reason == "SchedulingGated":
        return
    lacks_cards = f"Insufficient {names.PREFIX}" in said.message
    if held and not lacks_cards:
        do = "Cards are not what is lacking: mend what it names in the pod's own spec, or free that on the card's node"
    elif lacks_cards:
        do = "Wait for a pod of the pool to end, or have cards added to it: kubectl gpu cards --state Unassigned"
    else:
        do = "Mend what it names; a reservation alone does not place the pod"
    yield Finding("bad", f"The scheduler says: {said.message}", do)


def events(seen: PodSeen) -> Iterator[Finding]:
    """The last warnings about the pod that its conditions do not tell."""
    if isinstance(seen.events, Unreadable):
        return
    latest = {
        event.reason: event
        for event in sorted(seen.events, key=lambda event: event.when)
        if event.type == "Warning" and event.reason != "FailedScheduling"
    }
    for reason, event in latest.items():
        yield Finding("warning", f"Event {reason}, {seen.times.ago(event.when)}: {event.message}")
