"""Free slots of each pool on each node, kept so that a decision costs one pass over the pool's nodes.

Lives as long as the process and is used from its event loop only. For each pool and node a `NodeCapacity` is kept. A
change of a card, a pod, a node or a pool marks those that it touches as dirty, and the next decision that needs them
computes them anew; so does the end of a reservation. `track_in_flight` takes slots off while a reservation travels to
the API server, so that two reviews in this process never choose the same slot; other processes are kept off by the
write's precondition.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.accounting import account
from controllers.domain.allocation import applied, offered_profiles
from controllers.domain.clock import seconds
from controllers.domain.lifecycle import live
from controllers.domain.placement.capacity import node_capacity
from controllers.domain.request import pool_of, pools_of, profile_of
from controllers.domain.waiting import passed_over
from webhook import metrics
from webhook.caches.pending_pods import PendingPods
from webhook.caches.stores import BY_NODE, BY_POOL, BY_POOL_AND_NODE, BY_REQUEST, pool_and_node
from webhook.caches.tolerations import PoolTolerations
from webhook.caches.unseen_reservations import UnseenReservations
from webhook.decision.context import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.kube import Node
    from controllers.api.settings import Settings
    from controllers.api.tenant import TenantPod
    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.placement.choice import Placement
    from webhook.caches.stores import Stores


class Snapshot:
    """Views of pools, cheap enough to take one for each review."""

    def __init__(self, stores: Stores, settings: Callable[[], Settings]) -> None:
        """Follow the stores."""
        self._stores, self._settings = stores, settings
        self._capacities: dict[str, dict[str | None, dict[str, NodeCapacity]]] = defaultdict(dict)
        self._until: dict[str, dict[str, float]] = defaultdict(dict)
        self._dirty: dict[str, set[str]] = defaultdict(set)
        self._in_flight: dict[str | None, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        self._unseen = UnseenReservations(stores.devices, stores.pods)
        self._pending = PendingPods(stores.pods, stores.devices, lambda: settings().admission.unseen_ttl)
        self._tolerations = PoolTolerations(stores.pools, stores.devices, stores.nodes)
        self._applied_tolerations: dict[str, tuple[Toleration, ...]] = {}
        stores.devices.subscribe(self._device_changed)
        stores.pods.subscribe(self._pod_changed)
        stores.nodes.subscribe(self._node_changed)
        stores.pools.subscribe(self._pool_changed)

    def view(self, suffix: str, namespace: str, now: float) -> View:
        """What a pool can give, for a pod of that namespace; nothing where the pool is not there.

        `suffix`: what the pod asks for after `gpu.deckhouse.io/`: of a mixed layout only one profile counts.
        """
        pool, profile = pool_of(suffix), profile_of(suffix)
        found = self._stores.pools.get(pool)
        pending = self._pending.of(pool, now, passed_over(found, now) if found else ())
        queued, of_namespace = self._pending.queued(pool, namespace)
        return View(
            unseen=self._unseen.count(namespace, now),
            capacities=self._up_to_date(found, profile, now) if found else (),
            settings=self._settings(),
            tolerated=self._tolerations.of(found) if found else (),
            unseen_history=self._unseen.history(namespace, pool, now),
            pending=tuple(pod for pod in pending if pod.profile == profile),
            queued=queued,
            queued_of_namespace=of_namespace,
        )

    def track_in_flight(self, request_id: str, placement: Placement, namespace: str, suffix: str) -> None:
        """Take slots off what is free until `untrack_in_flight`; they are for a pod of that namespace."""
        units, profile = sum(share.slots for share in placement.shares), profile_of(suffix)
        self._unseen.write_started(namespace, request_id, pool_of(suffix), units)
        for share in placement.shares:
            self._in_flight[profile][share.device.name][request_id] = share.slots
            self._mark_dirty(share.device)

    def untrack_in_flight(self, request_id: str, placement: Placement, namespace: str) -> None:
        """Put slots back; what was reserved meanwhile shows in the card itself."""
        self._unseen.write_finished(namespace, request_id)
        for share in placement.shares:
            name = share.device.name
            for flying in self._in_flight.values():
                if name in flying:
                    flying[name].pop(request_id, None)
                    if not flying[name]:
                        del flying[name]
            self._mark_dirty(share.device)

    def still_fits(self, device: GPUDevice, reservation: Reservation, taken: int, now: float) -> bool:
        """Whether a reservation that was chosen a moment ago still fits on the card as the caches know it now.

        `taken`: slots of the card, of the same profile, that are reserved in the same write. What others of this
        process have in flight does not count: they write later, and are asked the same then.
        """
        pool_ref, node = device.status.pool_ref, device.status.node_name or ""
        pool = self._stores.pools.get(pool_ref.name) if pool_ref is not None else None
        if pool is None:
            return False
        self._up_to_date(pool, reservation.profile, now)
        entry = self._capacities[pool.name].get(reservation.profile, {}).get(node)
        if (
            entry is None
            or (card := next((c for c in entry.slots.cards if c.device.name == device.name), None)) is None
        ):
            return False
        # Of a request for several cards, those that are not written yet need their room too.
        missing = sum(
            self._in_flight[reservation.profile].get(c.device.name, {}).get(reservation.request_id, 0)
            for c in entry.slots.cards
            if all(shown.request_id != reservation.request_id for shown in c.device.status.reservations)
        )
        fresh = card.device.metadata.resource_version == device.metadata.resource_version
        return (
            fresh
            and card.free >= taken + reservation.slots
            and entry.slots.free >= taken + max(missing, reservation.slots)
        )

    # --- capacities ---------------------------------------------------------------------------

    def _up_to_date(self, pool: GPUPool, profile: str | None, now: float) -> tuple[NodeCapacity, ...]:
        until, dirty = self._until[pool.name], self._dirty[pool.name]
        if self._applied_tolerations.get(pool.name) != (tolerated := self._tolerations.of(pool)):
            self._applied_tolerations[pool.name] = tolerated
            dirty.update(until)
        dirty.update(node for node, expires in until.items() if expires <= now)
        for node in dirty:
            self._rebuild(pool, node, now)
        dirty.clear()
        return tuple(self._capacities[pool.name].get(profile, {}).values())

    def _rebuild(self, pool: GPUPool, node_name: str, now: float) -> None:
        stores = self._stores
        devices = stores.devices.by(BY_POOL_AND_NODE, pool_and_node(pool.name, node_name))
        if not devices:
            for nodes in self._capacities[pool.name].values():
                nodes.pop(node_name, None)
            self._until[pool.name].pop(node_name, None)
            return
        node, pods = stores.nodes.get(node_name), self._pods_of(pool.name, node_name, devices)
        for profile in offered_profiles(applied(pool)):
            slots = account(
                pool.name,
                node=node,
                node_name=node_name,
                devices=devices,
                pods=pods,
                allocation=applied(pool),
                now=now,
                tolerated=self._applied_tolerations[pool.name],
                profile=profile,
            )
            capacity = node_capacity(node, slots, self._in_flight[profile])
            self._capacities[pool.name].setdefault(profile, {})[node_name] = capacity
        self._until[pool.name][node_name] = min(
            (seconds(r.expires_at) for device in devices for r in device.status.reservations if live(r, now)),
            default=inf,
        )

    def _pods_of(self, pool: str, node: str, devices: list[GPUDevice]) -> list[TenantPod]:
        """Pods bound to the node, and those for which something is reserved there: they may be bound elsewhere."""
        pods = self._stores.pods
        requests = {entry.request_id for device in devices for entry in device.status.reservations}
        found = [
            *pods.by(BY_POOL_AND_NODE, pool_and_node(pool, node)),
            *(pod for request in requests for pod in pods.by(BY_REQUEST, request)),
        ]
        return list({pod.key: pod for pod in found}.values())

    def is_bound(self, request_id: str) -> bool:
        """Whether the pod of a request is bound: what was reserved for it has served its purpose."""
        return any(pod.node is not None for pod in self._stores.pods.by(BY_REQUEST, request_id))

    def _mark_dirty(self, device: GPUDevice | None) -> None:
        if device is not None and device.status.pool_ref is not None and device.status.node_name is not None:
            self._mark_node_dirty(device.status.pool_ref.name, device.status.node_name)

    def _mark_node_dirty(self, pool: str, node: str) -> None:
        """Nothing is kept for a pool that is not there; when one comes, the nodes of all its cards are marked."""
        if self._stores.pools.get(pool) is not None:
            self._dirty[pool].add(node)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        self._mark_dirty(old)
        self._mark_dirty(new)

    def _pod_changed(self, old: TenantPod | None, new: TenantPod | None) -> None:
        for pod in (old, new):
            if pod is not None and pod.node is not None:
                for pool in pools_of(pod):
                    self._mark_node_dirty(pool, pod.node)
                for device in self._stores.devices.by(BY_REQUEST, pod.metadata.annotations.get(names.REQUEST_ID, "")):
                    self._mark_dirty(device)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None:
            for device in self._stores.devices.by(BY_NODE, node.name):
                self._mark_dirty(device)

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        pool = new or old
        if pool is None or (old is not None and new is not None and applied(old) == applied(new)):
            return
        if new is None:
            for kept in (self._capacities, self._until, self._dirty, self._applied_tolerations):
                kept.pop(pool.name, None)
            metrics.forget(pool.name)
        self._capacities.pop(pool.name, None)  # it may have other profiles now
        for device in self._stores.devices.by(BY_POOL, pool.name):
            self._mark_dirty(device)
