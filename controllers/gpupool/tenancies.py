"""Who has the cards, and who had them, as the caches tell it: what `GPUDevice.status.history` is made from.

opened ──allocation gone──▶ over ──the pod's end is known, or 30 s──▶ to be recorded ──in history──▶ forgotten

kubelet's allocation says who has a card, and nobody says who had it: the object before the change does. So this is
the memory of one process; a tenancy that ends while no gpupool-controller runs is in no history. How a pod ended is
what was first seen of it, since a pod that finished is deleted later, and one that is deleted may exit with success.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.gpudevice import HISTORY_MAX, Tenancy
from controllers.domain.allocation import applied, is_shared
from controllers.domain.clock import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controllers.api.gpudevice import Allocation, GPUDevice, TenancyEnd
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Pod

PATIENCE: Final = 30.0
"""Seconds in which the end of a pod must be seen after that of its allocation; they come by different watches."""


@dataclass(slots=True)
class _Tenant:
    """A pod that has a card, or had it."""

    pool: str
    namespace: str
    pod: str
    since: str
    over: float | None = None
    """When the allocation was seen to be gone, in epoch seconds."""


class Tenancies:
    """The tenants of all cards, from the first look at them on."""

    def __init__(
        self,
        find_pool: Callable[[str], GPUPool | None],
        find_pod: Callable[[str], Pod | None],
        clock: Callable[[], float],
    ) -> None:
        """Know nobody yet. `find_pod(key)` by `namespace/name`, `clock()` tells epoch seconds."""
        self._find_pool, self._find_pod, self._clock = find_pool, find_pod, clock
        self._cards: dict[str, dict[str, _Tenant]] = {}  # by the names of cards, then by the uids of pods
        self._having: dict[str, set[str]] = {}  # cards by the uids of their pods
        self._ends: dict[str, TenancyEnd] = {}  # by the uids of pods

    def device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        """A card changed, or is seen for the first time."""
        if new is None:
            for uid in [*self._cards.get(old.name, {})] if old is not None else []:
                self._forget(old.name if old is not None else "", uid)
            return
        self._forget_recorded(new)
        taken = {each.pod_uid: each for each in new.status.allocations}
        for uid, tenant in self._cards.get(new.name, {}).items():
            if uid in taken:
                tenant.over = None
            elif tenant.over is None:
                tenant.over = self._clock()
        pool = new.status.pool_ref.name if new.status.pool_ref is not None else None
        if taken and pool is not None and not self._is_shared(pool):
            self._open(new.name, pool, taken.values())

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed, or is gone."""
        pod = new if new is not None else old
        if pod is None or (uid := pod.metadata.uid) not in self._having:
            return
        if pod.status.start_time is not None:
            for card in self._having[uid]:
                self._cards[card][uid].since = pod.status.start_time
        if uid not in self._ends and (end := _end_of(pod, is_gone=new is None)) is not None:
            self._ends[uid] = end

    def cards_of(self, pod: Pod) -> frozenset[str]:
        """Cards (by name) whose records wait for the end of a pod."""
        uid = pod.metadata.uid
        return frozenset(name for name in self._having.get(uid, ()) if self._cards[name][uid].over is not None)

    def ended(self, card: str, now: float) -> tuple[tuple[Tenancy, ...], float | None]:
        """What is to be recorded of a card, the oldest first, and in how many seconds there may be more."""
        found: list[tuple[float, Tenancy]] = []
        left: list[float] = []
        for uid, tenant in self._cards.get(card, {}).items():
            if tenant.over is None:
                continue
            end, wait = self._ends.get(uid), tenant.over + PATIENCE - now
            if end is None and wait > 0:
                left.append(wait)
                continue
            found.append((tenant.over, _record(uid, tenant, tenant.over, end or "Lost")))
        found.sort(key=lambda each: (each[0], each[1].uid))
        return tuple(tenancy for _, tenancy in found), min(left, default=None)

    def _open(self, card: str, pool: str, taken: Iterable[Allocation]) -> None:
        tenants = self._cards.setdefault(card, {})
        for each in taken:
            if each.pod_uid in tenants:
                continue
            tenants[each.pod_uid] = _Tenant(pool, each.namespace, each.pod, stamp(self._clock()))
            self._having.setdefault(each.pod_uid, set()).add(card)
            pod = self._find_pod(f"{each.namespace}/{each.pod}")
            if pod is not None and pod.metadata.uid == each.pod_uid:
                self.pod_changed(None, pod)

    def _is_shared(self, pool: str) -> bool:
        """Whether a card has so many tenants that a write for each would be too many."""
        found = self._find_pool(pool)
        return found is not None and is_shared(applied(found))

    def _forget_recorded(self, device: GPUDevice) -> None:
        tenants, history = self._cards.get(device.name, {}), device.status.history
        if len(history) >= HISTORY_MAX:  # what ended before all of these has no place in it any more
            oldest = history[0].until
            for uid in [uid for uid, one in tenants.items() if one.over is not None and stamp(one.over) < oldest]:
                self._forget(device.name, uid)
        for each in history:
            tenant = tenants.get(each.uid)
            if tenant is not None and tenant.over is not None and stamp(tenant.over) == each.until:
                self._forget(device.name, each.uid)

    def _forget(self, card: str, uid: str) -> None:
        del self._cards[card][uid]
        if not self._cards[card]:
            del self._cards[card]
        self._having[uid].discard(card)
        if not self._having[uid]:
            del self._having[uid]
            self._ends.pop(uid, None)


def _record(uid: str, tenant: _Tenant, over: float, end: TenancyEnd) -> Tenancy:
    return Tenancy(
        pool=tenant.pool,
        namespace=tenant.namespace,
        pod=tenant.pod,
        uid=uid,
        since=tenant.since,
        until=stamp(over),
        ended=end,
    )


def _end_of(pod: Pod, *, is_gone: bool) -> TenancyEnd | None:
    """How a pod ends, as far as it shows; None while it does not end."""
    # Kubernetes' controllers, its eviction API and kubelet all mark with it what does not end by itself.
    disrupted = any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions)
    if pod.metadata.deletion_timestamp is None and pod.status.phase == "Succeeded":
        return "Finished"
    if pod.metadata.deletion_timestamp is None and pod.status.phase == "Failed":
        return "Evicted" if disrupted else "Failed"
    if pod.metadata.deletion_timestamp is not None or is_gone:
        return "Evicted" if disrupted else "Deleted"
    return None
