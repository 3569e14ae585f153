"""A pod that waits in its pool's queue: at which place, for what, and until when. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names, reasons
from controllers.api.gpupool import GPUPool
from controllers.domain.queue.gates import other_gates
from controllers.domain.verdict.shortage import THEN
from controllers.domain.verdict.shortage import counted as counted_cards
from controllers.domain.wording import listed, short
from controllers.explain import pending
from controllers.explain.cures import UNLISTED
from controllers.explain.explanation import Finding
from controllers.explain.queue import DENIED, GATES_OF_OTHERS, Queue, reported_reason
from controllers.explain.records import Unreadable
from controllers.explain.words import UNITS, counted, ordinal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.explain.explanation import Level
    from controllers.explain.pod import PodSeen
    from controllers.explain.queue import Waiter

LEVELS: Final[dict[str, Level]] = {"Waiting": "note", "OverLimit": "warning"}
"""Of reasons; others mean that somebody has to do something."""
COUNTED: Final = frozenset({"Waiting", "NoNodeFits"})
"""Reasons that lie in the pool's cards."""


def explain_queued(seen: PodSeen, pool: str, units: int, what: str) -> tuple[str, tuple[Finding, ...]]:
    """The verdict and the findings. `what`: what the pod asks for, in words."""
    queue = seen.queue if isinstance(seen.queue, Queue) else None
    found = queue.of(seen.pod.key) if queue is not None else None
    reason = found.reason if found is not None else reported_reason(seen.pod) or "Waiting"
    findings = (
        *_reason(seen, pool, reason),
        *_node(found, units),
        *_limit(seen, queue, reason),
        *_others(seen, queue, found),
        *pending.find_pool_blockers(seen, pool),
        *(() if isinstance(seen.pool, Unreadable) else pending.capacity(seen, seen.pool, units)),
        *pending.events(seen),
    )
    noun = UNITS[seen.pool.spec.allocation.mode] if isinstance(seen.pool, GPUPool) else "card"
    return f"Pod {seen.pod.key} {_state(queue, found, reason, what, noun)}", findings


def _state(queue: Queue | None, found: Waiter | None, reason: str, what: str, noun: str) -> str:
    """Where the pod stands, as the verdict says it. `noun`: what a slot of the pool is."""
    if found is not None and found.node_use == "reserved":
        return f"has {what} reserved on {found.node}, and is released in a moment"
    if reason == GATES_OF_OTHERS:
        return f"will wait for {what} once its other scheduling gates are gone"
    if reason == DENIED:
        return f"could not be released, though {what} could be had"
    if queue is None or found is None or found.position is None:
        return f"waits for {what}"
    return f"waits for {what}: it is {_place(queue, found, noun)}"


def _place(queue: Queue, found: Waiter, noun: str) -> str:
    """`3rd of 41, and 11 cards are ahead of it`; empty where its place is not known."""
    if found.position is None:
        return ""
    place = f"{ordinal(found.position)} of {queue.total}"
    if found.ahead is None:
        return place
    ahead = f"{counted(found.ahead, noun)} {'is' if found.ahead == 1 else 'are'}" if found.ahead else f"no {noun} is"
    return f"{place}, and {ahead} ahead of it"


def _reason(seen: PodSeen, pool: str, reason: str) -> Iterator[Finding]:
    """Why it waits, and what to do about it."""
    row, said = reasons.find("pod", names.QUEUED, "True", reason), seen.pod.status.queued
    if said is not None and said.reason == reason and said.message:
        text = said.message if seen.numbers is None else said.message.partition(THEN)[0]
    else:
        text = row.meaning.replace("`", "") if row is not None else "its condition says no more"
    gates = other_gates(seen.pod.spec)
    if reason == GATES_OF_OTHERS and gates:
        text = f"other scheduling gates come first: {listed(short(gate) for gate in gates)}. No card is kept before"
    pod = f"{seen.pod.name} -n {seen.pod.metadata.namespace}"
    cure = row.spoken(pool=pool, pod=pod) if row is not None else UNLISTED
    if seen.misfit and reason == "NoNodeFits":
        text = seen.misfit
    yield Finding(LEVELS.get(reason, "bad"), f"{reason}: {text}", cure)
    if seen.numbers is not None and reason in COUNTED:
        see = f"kubectl gpu explain pod {pod} --cards"
        yield Finding("note", f"Of the pool there are {counted_cards(seen.numbers)}", see)


def _node(found: Waiter | None, units: int) -> Iterator[Finding]:
    """What a node is to it."""
    if found is None or found.node is None:
        return
    if found.node_use == "kept":
        text = f"Node {found.node} is kept for it: nobody else gets free slots there until {units} are free"
        yield Finding("good", text)
    elif found.node_use == "free":
        see = f"kubectl -n {names.NAMESPACE} get pods -l {names.LABEL_APP}={names.POOL_CONTROLLER}"
        text = f"Node {found.node} has enough free for it now: {names.POOL_CONTROLLER} reserves it"
        yield Finding("good", text, f"Where it does not go on within seconds, see whether that runs: {see}")


def _limit(seen: PodSeen, queue: Queue | None, reason: str) -> Iterator[Finding]:
    """What its namespace has, where that is limited."""
    namespace = seen.pod.metadata.namespace or ""
    limit = queue.limits.get(namespace) if queue is not None else None
    if queue is None or limit is None:
        return
    has = queue.used.get(namespace)
    text = f"Namespace {namespace} may have {counted(limit, 'slot')} of the pool" + (
        "" if has is None else f", and has {has}"
    )
    yield Finding("warning" if reason == "OverLimit" else "note", text)


def _others(seen: PodSeen, queue: Queue | None, found: Waiter | None) -> Iterator[Finding]:
    """How many wait, where its place is not known."""
    if queue is None or not queue.total or (found is not None and found.position is not None):
        return
    ago = f", the longest {seen.times.lasting(queue.oldest)}" if queue.oldest else ""
    text = f"{counted(queue.total, 'pod')} wait for {counted(queue.units, 'slot')} of GPUPool {queue.pool}{ago}"
    yield Finding("note", text, f"kubectl gpu queue {queue.pool}")
