"""Pods that wait: those whose reservation has expired, and how many have our gate.

Kept up to date, so that a review only has to look.

For each unbound pod the moment is kept from which on nothing holds what it needs; a change of
the pod, or of a card that names its request, moves that moment. Lives in the event loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import nsmallest
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.queue.gates import is_queued, waits_for_cards_alone
from controllers.domain.waiting import PendingPod, pending_pod, waits_from
from webhook.caches.stores import BY_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.tenant import TenantPod
    from controllers.runtime.store import Store

PODS_MAX = 100
"""Pods of one pool that a review looks at, the oldest: their demand is hardly ever more than what is free."""


class PendingPods:
    """Unbound pods that were admitted to a pool and have no reservation any more."""

    def __init__(self, pods: Store[TenantPod], devices: Store[GPUDevice], unseen_ttl: Callable[[], float]) -> None:
        """Follow the stores."""
        self._pods, self._devices, self._unseen_ttl = pods, devices, unseen_ttl
        self._known: dict[str, dict[str, PendingPod]] = defaultdict(dict)
        self._since: dict[str, dict[str, float]] = defaultdict(dict)
        self._dirty: dict[str, set[str]] = defaultdict(set)
        self._queued: dict[str, Counter[str]] = defaultdict(Counter)
        self._waiting: Counter[str] = Counter()
        pods.subscribe(self._pod_changed)
        devices.subscribe(self._device_changed)

    def of(self, pool: str, now: float, passed: Container[str] = ()) -> tuple[PendingPod, ...]:
        """Who waits now, the oldest first, without these requests; no more than `PODS_MAX`."""
        known = self._known.get(pool)
        if not known:
            return ()
        since = self._since[pool]
        for key in self._dirty.pop(pool, ()):
            if (pod := known.get(key)) is not None:
                cards = self._devices.by(BY_REQUEST, pod.request_id)
                held = [reservation for card in cards for reservation in card.status.reservations]
                since[key] = waits_from(pod, held, now, self._unseen_ttl())
        waits = (known[key] for key, at in since.items() if at <= now)
        return tuple(nsmallest(PODS_MAX, (pod for pod in waits if pod.request_id not in passed), key=_age))

    def queued(self, pool: str, namespace: str) -> tuple[int, int]:
        """Pods of the pool that wait for cards alone, and pods of the namespace among all that have our gate."""
        return self._waiting[pool], self._queued[pool][namespace] if pool in self._queued else 0

    def _count_queued(self, pod: TenantPod, change: int) -> None:
        if not is_queued(pod):
            return
        pool, namespace = _pool_of(pod), pod.metadata.namespace or ""
        self._queued[pool][namespace] += change
        self._waiting[pool] += change * waits_for_cards_alone(pod)
        if not self._queued[pool][namespace]:
            del self._queued[pool][namespace]
        if not self._queued[pool]:
            del self._queued[pool]
            del self._waiting[pool]

    def _pod_changed(self, old: TenantPod | None, new: TenantPod | None) -> None:
        for pod, change in ((old, -1), (new, 1)):
            if pod is not None:
                self._count_queued(pod, change)
        if old is not None:
            self._forget(_pool_of(old), old.key)
        if new is not None and (found := pending_pod(new, _pool_of(new))) is not None:
            self._known[_pool_of(new)][new.key] = found
            self._dirty[_pool_of(new)].add(new.key)

    def _forget(self, pool: str, key: str) -> None:
        self._known[pool].pop(key, None)
        self._since[pool].pop(key, None)
        if not self._known[pool]:  # nothing is kept for pools that nobody waits for
            for kept in (self._known, self._since, self._dirty):
                kept.pop(pool, None)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        requests = {r.request_id for device in (old, new) if device is not None for r in device.status.reservations}
        for request in requests:
            for pod in self._pods.by(BY_REQUEST, request):
                if pod.key in self._known.get(_pool_of(pod), ()):
                    self._dirty[_pool_of(pod)].add(pod.key)


def _pool_of(pod: TenantPod) -> str:
    return pod.metadata.labels.get(names.LABEL_POOL, "")


def _age(pod: PendingPod) -> tuple[str, str, str]:
    return pod.queue_key
