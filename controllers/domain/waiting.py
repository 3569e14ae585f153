"""Pending pods whose reservation expired, in the order in which they get another (docs/dev/design.md, Pods that wait).

Such a pod comes before newcomers: the pool controller reserves for it anew, and until then
the webhook leaves aside what it could use. Both take the same pods, and nodes in the same
order, from here.

A pod younger than the time that an unseen reservation has is not looked at: it has one, of
which a cache may not have heard. Nor is one with a scheduling gate: its turn is not now, and
a card held for it would idle for as long as somebody likes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.clock import seconds
from controllers.domain.lifecycle import live
from controllers.domain.named_devices import named_devices
from controllers.domain.node_fit import PodConstraints, node_fits
from controllers.domain.request import asked_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import Reservation
    from controllers.api.gpupool import GPUPool, PassedOver
    from controllers.api.kube import Node
    from controllers.api.tenant import TenantPod


@dataclass(frozen=True, slots=True)
class PendingPod:
    """What an unbound pod needs."""

    request_id: str
    namespace: str
    pod: str
    created: str
    units: int
    devices: frozenset[str]
    """InventoryIDs of the cards that the webhook chose for it."""
    wants: PodConstraints
    profile: str | None = None
    """MIG profile of the slots, in a pool of a mixed layout."""

    @property
    def queue_key(self) -> tuple[str, str, str]:
        """The order of waiting pods: oldest first, then by name."""
        return self.created, self.namespace, self.pod

    @property
    def preferred_node(self) -> str:
        """The node of those cards; a PCI address has no dash."""
        return min(self.devices, default="").rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A node of the pool."""

    node: Node
    free: int
    total: int


def pending_pod(pod: TenantPod, pool: str) -> PendingPod | None:
    """What a pod of the pool waits for; None where it waits for nothing that we could give."""
    meta, request = pod.metadata, pod.metadata.annotations.get(names.REQUEST_ID)
    if pod.node is not None or pod.finished or meta.deletion_timestamp or pod.spec.scheduling_gates or not request:
        return None
    wanted = asked_of(pod, pool)
    if wanted.units == 0:
        return None
    return PendingPod(
        request_id=request,
        namespace=meta.namespace or "",
        pod=meta.name,
        created=meta.creation_timestamp,
        units=wanted.units,
        devices=frozenset(named_devices(pod)),
        wants=PodConstraints.of(pod.spec),
        profile=wanted.profile,
    )


def passed_over(pool: GPUPool, now: float) -> frozenset[str]:
    """Requests of the pool's pods that others come before now."""
    return frozenset(each.request_id for each in pool.status.passed_over or () if until(each, now) > now)


def until(passed: PassedOver, now: float) -> float:
    """When its time is over, in seconds since the epoch; a time that cannot be read is over."""
    try:
        return seconds(passed.until)
    except ValueError:
        return now


def waits_from(pod: PendingPod, reservations: Iterable[Reservation], now: float, unseen_ttl: float) -> float:
    """Since when, or from when on, nothing holds what the pod needs; seconds since the epoch."""
    try:
        grown = seconds(pod.created) + unseen_ttl
    except ValueError:
        grown = now
    held = [r for r in reservations if r.request_id == pod.request_id and live(r, now)]
    if sum(reservation.slots for reservation in held) < pod.units:
        return grown
    return max(grown, min(seconds(reservation.expires_at) for reservation in held))


PLAN_WORK: Final = 1_000_000
"""How much of what pods want one plan holds against nodes: half a second's worth. Each pod is 1 a node at least."""


class NodeCapacities:
    """What is free on a pool's nodes, less what pods that wait take of it one after another."""

    def __init__(self, rooms: Iterable[NodeCapacity], work: float = inf, *, share: float = 0.1) -> None:
        """Sort the nodes: the emptiest first.

        `work`: how much of what pods want is held against nodes, at most; no pod has more than `share` of it, or a few
        that fit nowhere would leave nothing for those behind them.
        """
        self._rooms = {room.node.name: room for room in rooms if room.free > 0}
        self._order = sorted((-room.free, name) for name, room in self._rooms.items())
        self._hopeless = set[tuple[int, PodConstraints]]()
        self._work, self._each = work, work * share

    def __bool__(self) -> bool:
        """Whether anything is left, of rooms and of work."""
        return bool(self._order) and self._work > 0

    def left(self) -> dict[str, int]:
        """Free slots that nobody has taken, by node."""
        return {name: room.free for name, room in self._rooms.items()}

    @property
    def spent(self) -> bool:
        """Whether the work limit was reached before all nodes were compared with the pod."""
        return self._work < 0

    def take(self, pod: PendingPod) -> NodeCapacity | None:
        """The node on which the pod's demand counts, as it was before; None where the pod can go to none.

        One with enough free slots comes first: that of the pod's own cards, which the scheduler still
        prefers, else the emptiest. Where none has enough, what is free on the emptiest is taken, or
        small pods would keep one that needs many cards waiting for ever.
        """
        if (pod.units, pod.wants) in self._hopeless:  # pods of one owner want the same, and rooms only shrink
            return None
        if (room := self._room_for(pod)) is None:
            self._hopeless.add((pod.units, pod.wants))
            return None
        return self._take(room, pod.units)

    def _room_for(self, pod: PendingPod) -> NodeCapacity | None:
        size, least = pod.wants.size, self._work - self._each
        home = self._rooms.get(pod.preferred_node)
        if home is not None and home.free >= pod.units and node_fits(pod.wants, home.node):
            return home
        for _, name in self._order:
            room = self._rooms[name]
            if room.total >= pod.units:
                self._work -= size
                if self._work < max(0.0, least):
                    return None
                if node_fits(pod.wants, room.node):
                    return room
        return None

    def _take(self, room: NodeCapacity, units: int) -> NodeCapacity:
        name = room.node.name
        del self._order[bisect_left(self._order, (-room.free, name))]
        if room.free > units:
            self._rooms[name] = left = replace(room, free=room.free - units)
            insort(self._order, (-left.free, name))
        else:
            del self._rooms[name]
        return room
