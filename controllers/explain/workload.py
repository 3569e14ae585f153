"""Whether a Deployment or the like has its pods, and why it cannot make them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.domain.queue.gates import is_queued
from controllers.domain.request import units_by_pool
from controllers.domain.wording import listed
from controllers.explain.explanation import Explanation, Finding
from controllers.explain.faults import refusal
from controllers.explain.queue import Queue
from controllers.explain.records import Unreadable
from controllers.explain.refused import cure, last_failure
from controllers.explain.words import counted, ordinal, since

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.meta import KubeObject
    from controllers.explain.records import DetailedCondition, SeenEvent, SeenPod, Workload

REPLICA_FAILURE: Final = "ReplicaFailure"
"""Condition of ReplicaSets and Deployments; it outlives the event, and ends when a pod is made again."""
ENDED: Final = ("Complete", "Failed")
"""Conditions of a Job that has ended."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Something that makes pods."""

    kind: str
    obj: Workload

    @property
    def name(self) -> str:
        """With its kind, as people say it."""
        return f"{self.kind} {self.obj.name}"

    @property
    def wanted(self) -> int:
        """Pods that it should have now."""
        spec, status = self.obj.spec, self.obj.status
        if self.kind == "DaemonSet":
            return status.desired_number_scheduled
        if self.kind != "Job":
            return 1 if spec.replicas is None else spec.replicas
        if spec.suspend or self.ended is not None:
            return 0
        at_once = 1 if spec.parallelism is None else spec.parallelism
        if spec.completions is not None:
            return min(at_once, max(0, spec.completions - status.succeeded))
        return status.active if status.succeeded else at_once  # a queue that one has found empty gets no more pods

    @property
    def made(self) -> int:
        """Pods that it has, ready or not."""
        status = self.obj.status
        return {"DaemonSet": status.current_number_scheduled, "Job": status.active}.get(self.kind, status.replicas)

    @property
    def ended(self) -> DetailedCondition | None:
        """How a Job ended."""
        if self.kind != "Job":
            return None
        return next((c for c in self.obj.status.conditions if c.type in ENDED and c.status == "True"), None)


@dataclass(frozen=True, slots=True)
class WorkloadSeen:
    """A workload with what its pods depend on."""

    itself: Maker
    replicasets: tuple[Maker, ...] | Unreadable
    """Of a Deployment, those that it owns."""
    events: tuple[SeenEvent, ...] | Unreadable
    """FailedCreate of the namespace, of whatever object."""
    pods: tuple[SeenPod, ...] | Unreadable
    """All of the namespace."""
    now: float
    queue: Queue | Unreadable | None = None
    """The queue in which pods of it wait; None where none does."""

    @property
    def makers(self) -> tuple[Maker, ...]:
        """What makes the pods itself; the Deployment where its ReplicaSets are not there or may not be seen."""
        return (self.itself,) if isinstance(self.replicasets, Unreadable) else self.replicasets or (self.itself,)


def owns(owner: KubeObject, owned: KubeObject) -> bool:
    """Whether the one controls the other."""
    return any(ref.controller and ref.uid == owner.metadata.uid for ref in owned.metadata.owner_references)


def lacks_pods(seen: WorkloadSeen) -> bool:
    """Whether it has fewer pods than it should."""
    return any(maker.made < maker.wanted for maker in seen.makers)


def explained(seen: WorkloadSeen, asked: str = "") -> Explanation:
    """The answer. `asked`: the name of a pod that is not there, where that was the question."""
    itself, key = seen.itself, seen.itself.obj.key
    parts = (seen.replicasets, seen.events, seen.pods, seen.queue)
    unread = tuple(part.reason for part in parts if isinstance(part, Unreadable))
    unread += seen.queue.limitations if isinstance(seen.queue, Queue) else ()
    told = [one for maker in seen.makers if maker.made < maker.wanted if (one := _failure(maker, seen)) is not None]
    wanted, made = sum(m.wanted for m in seen.makers), sum(min(m.made, m.wanted) for m in seen.makers)
    word = next((why.split(":", 1)[0] for why, _ in told if why), "")
    if not lacks_pods(seen):
        verdict = _whole(itself, wanted)
    elif word:
        verdict = f"The webhook refuses the pods of {key}: {word}"
    else:
        why = ", and the others cannot be made" if made else ", and none can be made"
        untold = "" if isinstance(seen.events, Unreadable) else ", and no event says why"
        verdict = f"{itself.kind} {key} has {made} of {counted(wanted, 'pod')}{why if told else untold}"
    findings = [finding for _, finding in told]
    if lacks_pods(seen) and not told:
        do = f"kubectl describe {itself.kind.lower()} {itself.obj.name} -n {itself.obj.metadata.namespace}"
        findings.append(Finding("warning", f"{counted(wanted - made, 'pod')} lacking", do))
    if asked and asked != itself.obj.name:
        findings.append(Finding("note", f"There is no pod {asked}; {itself.name} makes pods of such names"))
    return Explanation(itself.kind, key, verdict, (*findings, *_pods(seen)), unread)


def queued_pods(seen: WorkloadSeen) -> list[SeenPod]:
    """Its pods that wait in the queue of a pool, the oldest first."""
    pods = () if isinstance(seen.pods, Unreadable) else seen.pods
    own = (p for p in pods if is_queued(p) and any(owns(maker.obj, p) for maker in seen.makers))
    return sorted(own, key=lambda p: (p.metadata.creation_timestamp, p.name))


def _in_queue(pod: SeenPod, queue: Queue | None) -> str:
    """A pod with its place."""
    found = queue.of(pod.key) if queue is not None else None
    if queue is None or found is None:
        return pod.name
    place = f"{ordinal(found.position)} of {queue.total}" if found.position is not None else found.reason
    return f"{pod.name} ({place})"


def _whole(itself: Maker, wanted: int) -> str:
    if itself.ended is not None:
        return f"{itself.kind} {itself.obj.key} has ended ({itself.ended.type})"
    if not wanted:
        return f"{itself.kind} {itself.obj.key} asks for no pods now"
    return f"{itself.kind} {itself.obj.key} has all its pods: {wanted} of {wanted}"


def _failure(maker: Maker, seen: WorkloadSeen) -> tuple[str, Finding] | None:
    """What our webhook said (empty where it was somebody else), and the last failure to make a pod."""
    event = None if isinstance(seen.events, Unreadable) else last_failure(maker.kind, maker.obj, seen.events)
    if event is not None:
        message, when = event.message or "", f", {since(event.when, seen.now)} ago" if event.when else ""
    else:
        kept = (c for c in maker.obj.status.conditions if c.type == REPLICA_FAILURE and c.status == "True")
        message, when = next((condition.message for condition in kept), ""), ""
    if not message:
        return None
    why = refusal(message)
    text = f"{maker.name} could not make a pod{when}: {why or message}"
    return why or "", Finding("bad", text, cure(why or ""))


def _pods(seen: WorkloadSeen) -> Iterator[Finding]:
    """How the pods are that were made."""
    if seen.itself.ended is not None and seen.itself.ended.message:
        yield Finding("note", seen.itself.ended.message)
    if isinstance(seen.pods, Unreadable):
        return
    own = [p for p in seen.pods if not p.finished and any(owns(maker.obj, p) for maker in seen.makers)]
    in_queue = queued_pods(seen)
    if in_queue:
        queue = seen.queue if isinstance(seen.queue, Queue) else None
        text = f"{counted(len(in_queue), 'pod')} in a queue for cards: {listed(_in_queue(p, queue) for p in in_queue)}"
        first = in_queue[0]
        yield Finding("warning", text, f"kubectl gpu explain pod {first.name} -n {first.metadata.namespace}")
    waiting = [p for p in own if not p.ready and p not in in_queue]
    if waiting:
        text = f"{counted(len(waiting), 'pod')} not ready: {listed(p.name for p in waiting)}"
        yield Finding("warning", text, f"kubectl gpu explain pod {waiting[0].name} -n {waiting[0].metadata.namespace}")
    elif own and not in_queue:
        yield Finding("good", f"{counted(len(own), 'pod')} ready: {listed(p.name for p in own)}")
    if own and not any(map(units_by_pool, own)):
        yield Finding("note", "None of its pods asks for a card")
