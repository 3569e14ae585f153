"""Why a pod waits, or where its cards are. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.queue.gates import is_queued
from controllers.domain.request import units_by_pool
from controllers.explain import bound, pending, queued
from controllers.explain.explanation import Explanation, Finding
from controllers.explain.queue import Queue
from controllers.explain.records import Unreadable
from controllers.explain.times import Times
from controllers.explain.words import asked

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Node
    from controllers.domain.verdict.records import Summary
    from controllers.explain.records import SeenEvent, SeenPod


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod with all that its cards depend on."""

    pod: SeenPod
    pool: GPUPool | Unreadable | None
    """The pool that it names; None where there is no such pool, or it names none."""
    cards: tuple[GPUDevice, ...] | Unreadable
    """The cards of that pool, and those that the pod was promised."""
    node: Node | Unreadable | None
    inventory: GPUNodeInventory | Unreadable | None
    """Of the node that the pod is on, or that its reserved cards are on."""
    events: tuple[SeenEvent, ...] | Unreadable
    now: float
    queue: Queue | Unreadable | None = None
    """The queue of the pool, where the pod is in it."""
    misfit: str = ""
    """Why no node of the pool could ever take it; empty where one could, or that is not known."""
    numbers: Summary | None = None
    """What the pool's cards are to it; None where that is not known."""
    is_kept: bool = False
    """Whether the answer is kept and shown for long: it then says times, and no ages."""

    @property
    def times(self) -> Times:
        """How its times are said."""
        return Times(self.now, absolute=self.is_kept)


def explained(seen: PodSeen) -> Explanation:
    """The answer, by where the pod is in its life."""
    pod, asks = seen.pod, units_by_pool(seen.pod)
    unread = tuple(
        part.reason
        for part in (seen.pool, seen.cards, seen.node, seen.inventory, seen.events, seen.queue)
        if isinstance(part, Unreadable)
    )
    if isinstance(seen.queue, Queue):
        unread += tuple(why for why in seen.queue.limitations if why not in unread)
    if not asks:
        verdict, findings = f"Pod {pod.key} asks for no card", _asks_nothing()
    else:
        ((pool, units), *_) = sorted(asks.items())
        known = seen.pool if not isinstance(seen.pool, Unreadable) else None
        what = asked(units, pool, known)
        if pod.finished:
            verdict, findings = _finished(pod)
        elif pod.node is not None:
            verdict, findings = bound.explain_bound(seen, what)
        elif is_queued(pod):
            verdict, findings = queued.explain_queued(seen, pool, units, what)
        else:
            verdict, findings = pending.explain_pending(seen, pool, units, what)
    return Explanation("Pod", pod.key, verdict, findings, unread)


def _asks_nothing() -> tuple[Finding, ...]:
    return (
        Finding(
            "note",
            f"None of its containers has a limit such as {names.PREFIX}<pool>: 1, so this module never looked at it",
            "If it should have cards, make it anew with such a limit; kubectl gpu pools lists the pools",
        ),
    )


def _finished(pod: SeenPod) -> tuple[str, tuple[Finding, ...]]:
    status = pod.status
    verdict = f"Pod {pod.key} has ended ({status.phase}) and holds no cards"
    if status.phase == "Succeeded":
        return verdict, ()
    why = f"It failed ({status.reason or 'no reason given'}): {status.message or 'its containers ended with an error'}"
    do = f"kubectl logs {pod.name} -n {pod.metadata.namespace}"
    if status.reason == "UnexpectedAdmissionError":
        do = "Kubelet had no card left for it when it came; its controller makes another, one made by hand make again"
    return verdict, (Finding("bad", why, do),)
