"""Records of the queue of pending Pods: what its planner reads, and what it returns. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.api.gpudevice import GPUDevice, Reservation
from controllers.api.settings import SchedulingSettings
from controllers.domain.queue.entry import Entries
from controllers.runtime.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.kube import Node, Pod
    from controllers.api.queue import QueueStatus
    from controllers.api.tenant import TenantPod
    from controllers.gpupool.queue.wait import Wait

ReservationsByRequest = dict[str, list[tuple[GPUDevice, Reservation]]]
"""The reservations on cards, each with its card, by request."""
GRACE = 0.05
"""Seconds added to a deadline, so that it has passed when the key comes back."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The last time that a pod's demand was reserved."""

    began: float
    """Seconds since the epoch."""
    ran_out: int = 0
    """Turns that ran out before the pod was bound, and were counted."""
    cards: frozenset[str] = frozenset()
    """The reserved cards, while it lasts."""


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """A pool's cards, and the pods that may wait for them."""

    pool: GPUPool
    unbound: tuple[TenantPod, ...]
    """Pods of the pool that are on no node and have not ended."""
    members: tuple[GPUDevice, ...]
    nodes: Mapping[str, Node]
    bound: tuple[Pod, ...] = ()
    """Pods that are on a node and hold cards of the pool."""
    tolerated: tuple[Toleration, ...] = ()
    """What the pool's pods tolerate."""
    turns: Mapping[str, Turn] = field(default_factory=dict)
    """By request."""
    unreached: frozenset[str] = frozenset()
    """Requests that the last plan did not come to."""
    reservation_ttl: float = 120.0
    unseen_ttl: float = 15.0
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    """Where pods go, where the pool does not say."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Requests of queued pods that the API server did not let go on, with what it said; others are served first."""
    came_free_at: Mapping[str, float] = field(default_factory=dict)
    """By node: when one of its cards came free of late, in epoch seconds."""
    entries: Entries = field(default_factory=Entries, compare=False)
    """The entries of queued pods, as far as they were made for an earlier look."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Cards for pods of the queue, and the pods' release. It shares no card with another promise of its round."""

    pods: tuple[str, ...]
    """Keys (`namespace/name`)."""
    requests: tuple[str, ...]
    plan: Plan


@dataclass(frozen=True, slots=True)
class ReservationRound:
    """The writes of one round, and the pods that have reservations by them."""

    plan: Plan
    turns: Mapping[str, Turn]
    """By request: what was seen of turns, whatever becomes of the plan."""
    reserved: tuple[str, ...] = ()
    """Requests that have a reservation once the plan is carried out."""
    unreached: tuple[str, ...] = ()
    """Requests that there was no work left for."""
    promises: tuple[Promise, ...] = ()
    """What is given to pods of the queue, to be carried out after `plan`, each by itself."""
    reasons: Mapping[str, Wait] = field(default_factory=dict)
    """By key (`namespace/name`): why each pod with our gate waits; none of those that `promises` release."""
    status: QueueStatus | None = None
    """What the pool's status says of its queue."""
    numbers: Callable[[str], str] = field(default=lambda _: "", compare=False, repr=False)
    """By key: what the pool is to a waiting pod, in numbers; it keeps all that they are counted from."""
