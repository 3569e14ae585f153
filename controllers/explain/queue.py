"""A pool's queue: who waits, at which place, and why, by the rules by which gpupool-controller serves it. Pure.

Where pods of other namespaces or the pool's cards may not be read, what the pool's status says of its queue takes the
place of it: how many wait, and who the first are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from controllers.domain.queue.gates import is_queued, waits_for_cards_alone
from controllers.domain.queue.policy import policy_of
from controllers.domain.request import asked_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpupool import GPUPool
    from controllers.api.tenant import TenantPod
    from controllers.domain.slots import NodeSlots

NodeUse = Literal["kept", "free", "reserved"]
PASSED: Final = frozenset({"OverLimit", "NoNodeFits"})
"""Reasons of pods that are passed over: what they ask for is ahead of nobody."""
GATES_OF_OTHERS, DENIED, CLOSED, INCOMPLETE_GANG = "OtherGates", "ReleaseDenied", "PoolClosed", "WaitingForGang"
OUTSIDE: Final = frozenset({GATES_OF_OTHERS, DENIED, INCOMPLETE_GANG})
"""Reasons of pods that have no place: others are served whatever becomes of them."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A pod that waits, and its place."""

    namespace: str
    pod: str
    units: int
    priority: int
    since: str
    """Since when it exists, RFC 3339."""
    reason: str
    """Why it waits: a reason of condition gpu.deckhouse.io/Queued."""
    position: int | None = None
    """Counted from 1; None where it has none, or it is not known."""
    ahead: int | None = None
    """Slots that those before it get first."""
    node: str | None = None
    node_use: NodeUse | None = None
    """What the node is to it: free slots of it are kept for the pod, are enough for it now, or are reserved for it."""
    profile: str | None = None
    """MIG profile of its slots, in a pool of a mixed layout."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.pod}"


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue of a pool, as far as it is known."""

    pool: str
    waiters: tuple[Waiter, ...]
    """In the order of the queue; those that have no place come last."""
    total: int
    """Pods that have a place, known or not."""
    units: int
    """Slots that these wait for."""
    oldest: str | None = None
    """Since when the one of them exists that has waited longest, RFC 3339."""
    used: Mapping[str, int] = field(default_factory=dict)
    """Slots that pods of a namespace have or are promised."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The most that a namespace may have, of those whose pods wait."""
    before: Mapping[str | None, Mapping[str, int]] = field(default_factory=dict)
    """Free slots that pods get before the queue, by MIG profile and node: pods that were admitted, and nothing is
    reserved for. The profile is None but in a mixed layout."""
    reserved: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By key of a waiter that has some reservations and needs more: slots by node, which count for it already."""
    slots: Mapping[str | None, Mapping[str, NodeSlots]] = field(default_factory=dict, compare=False, repr=False)
    """What it was computed from, by profile: the nodes on which something may be free."""
    limitations: tuple[str, ...] = ()
    """Why something is not known, a sentence each."""

    def of(self, key: str) -> Waiter | None:
        """The pod's entry."""
        return next((each for each in self.waiters if each.key == key), None)

    def within(self, namespace: str | None) -> Queue:
        """The same with the pods of one namespace alone; places and counts stay those of all."""
        if namespace is None:
            return self
        return replace(self, waiters=tuple(each for each in self.waiters if each.namespace == namespace))


def waiter(
    pod: TenantPod,
    pool: str,
    reason: str,
    *,
    position: int | None = None,
    ahead: int | None = None,
    node: str | None = None,
    node_use: NodeUse | None = None,
) -> Waiter:
    """A queued pod. The place, the slots ahead, and the node are as in `Waiter`."""
    meta, wanted = pod.metadata, asked_of(pod, pool)
    return Waiter(
        namespace=meta.namespace or "",
        pod=meta.name,
        units=wanted.units,
        profile=wanted.profile,
        priority=pod.spec.priority or 0,
        since=meta.creation_timestamp,
        reason=reason,
        position=position,
        ahead=ahead,
        node=node,
        node_use=node_use,
    )


def reported_reason(pod: TenantPod) -> str | None:
    """Why the pod waits, as its condition says; None where it does not say."""
    said = pod.status.queued
    return said.reason or None if said is not None and said.status == "True" else None


def from_status(pool: GPUPool, own: Iterable[TenantPod], limitations: Iterable[str]) -> Queue:
    """The queue as the pool's status has it, with `own` pods of the pool that may be read. `limitations`: why so."""
    status = pool.status.queue
    queued = sorted((pod for pod in own if is_queued(pod)), key=lambda pod: pod.metadata.creation_timestamp)
    waiters = [waiter(pod, pool.name, _reason(pod)) for pod in queued]
    placed = [each for each in waiters if each.reason not in OUTSIDE]
    total = status.waiting if status is not None else len(placed)
    oldest = status.oldest if status is not None else min((each.since for each in placed), default=None)
    note = f"GPUPool {pool.name} says how many wait, and nothing of their order"
    return Queue(
        pool=pool.name,
        waiters=tuple(waiters),
        total=total,
        units=status.waiting_units if status is not None else sum(each.units for each in placed),
        oldest=oldest,
        limits=limits_of(pool, waiters),
        limitations=(note, *limitations),
    )


def limits_of(pool: GPUPool, waiters: Iterable[Waiter]) -> dict[str, int]:
    """The limits of namespaces whose pods wait."""
    policy = policy_of(pool)
    found = {each.namespace: policy.share(each.namespace).limit for each in waiters}
    return {namespace: limit for namespace, limit in found.items() if limit is not None}


def _reason(pod: TenantPod) -> str:
    return reported_reason(pod) or ("Waiting" if waits_for_cards_alone(pod) else GATES_OF_OTHERS)
