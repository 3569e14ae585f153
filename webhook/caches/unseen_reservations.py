"""Reservations whose pods have not appeared, by namespace, and the namespaces whose reservations ended so.

Something after the webhook may refuse a pod for which cards were reserved: a ResourceQuota, a webhook, validation. Its
reservation ends by itself, and whoever creates on and on could so keep a pool reserved. Of a namespace whose
reservation ended unseen a moment ago less is believed for a while, and at once: without such a record a burst of good
pods, which take their time to appear, looks the same.

Lives as long as the process, in its event loop; each replica has its own record, of the same reservations.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.domain.clock import seconds
from webhook.caches.stores import BY_REQUEST
from webhook.decision.shortage import PAUSE, UnseenHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.api.tenant import TenantPod
    from controllers.runtime.store import Store

GRACE: Final = 3.0
"""Seconds that a pod may take to appear before its reservation counts against its namespace."""
SKEW: Final = 2.0
"""Seconds by which the clock of who takes an ended reservation off its card may be ahead of ours; what is taken back is
so within a second of being made, long before its end."""
FORGET: Final = 600.0
"""Seconds for which a reservation that ended unseen is remembered."""


@dataclass(frozen=True, slots=True)
class _Unseen:
    """A reservation whose pod has not been reported."""

    request_id: str
    pool: str
    slots: int
    since: float
    until: float


class UnseenReservations:
    """Reservations of every namespace whose pods have not appeared."""

    def __init__(
        self, devices: Store[GPUDevice], pods: Store[TenantPod], clock: Callable[[], float] = time.time
    ) -> None:
        """Follow the stores."""
        self._pods, self._clock = pods, clock
        self._entries: dict[str, dict[str, tuple[_Unseen, ...]]] = defaultdict(dict)
        self._flying: dict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
        self._ended: dict[str, float] = {}
        self._large: dict[tuple[str, str], dict[str, tuple[float, int]]] = {}
        devices.subscribe(self._device_changed)

    def count(self, namespace: str, now: float) -> int:
        """Requests of a namespace whose pods should have appeared by now."""
        return len({entry.request_id for entry in self._live(namespace, now) if entry.since <= now - GRACE})

    def history(self, namespace: str, pool: str, now: float) -> UnseenHistory | None:
        """What counts against a namespace; None where it has no record."""
        ended = self._ended.get(namespace)
        if ended is None or ended <= now - FORGET:
            return None
        found = [entry for entry in self._live(namespace, now) if entry.pool == pool]
        flying = self._flying.get(namespace, {})
        slots = sum(entry.slots for entry in found if entry.request_id not in flying)
        slots += sum(units for home, units in flying.values() if home == pool)
        large = self._large.get((namespace, pool), {}).values()
        return UnseenHistory(
            slots, max(0.0, now - ended), max((units for at, units in large if at > now - PAUSE), default=0)
        )

    def write_started(self, namespace: str, request_id: str, pool: str, units: int) -> None:
        """A reservation is on its way to the API server, until `landed`."""
        self._flying[namespace][request_id] = (pool, units)

    def write_finished(self, namespace: str, request_id: str) -> None:
        """It is there, or is not to be."""
        self._flying[namespace].pop(request_id, None)
        if not self._flying[namespace]:
            del self._flying[namespace]

    def _live(self, namespace: str, now: float) -> Iterator[_Unseen]:
        for entries in self._entries.get(namespace, {}).values():
            for entry in entries:
                if entry.until > now and not self._pods.by(BY_REQUEST, entry.request_id):
                    yield entry

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        kept = {reservation.request_id for reservation in new.status.reservations} if new is not None else set()
        if old is not None:
            for namespace in {reservation.namespace for reservation in old.status.reservations}:
                for entry in self._entries[namespace].pop(old.name, ()):
                    if entry.request_id not in kept:
                        self._remember(namespace, entry)
                if not self._entries[namespace]:
                    del self._entries[namespace]
        if new is not None and new.status.pool_ref is not None:
            found: dict[str, list[_Unseen]] = defaultdict(list)
            for reservation in new.status.reservations:
                if not reservation.seen and (made := _entry(reservation, new.status.pool_ref.name)) is not None:
                    found[reservation.namespace].append(made)
            for namespace, entries in found.items():
                self._entries[namespace][new.name] = tuple(entries)

    def _remember(self, namespace: str, entry: _Unseen) -> None:
        """One that was taken back before its time says nothing about the namespace."""
        now = self._clock()
        if entry.until > now + SKEW or self._pods.by(BY_REQUEST, entry.request_id):
            return
        # Both are in the order of their times: to look through all of them each time would cost a stranger's many
        # forged namespaces the square of their number.
        self._ended.pop(namespace, None)
        self._ended[namespace] = now
        while self._ended[first := next(iter(self._ended))] <= now - FORGET:
            del self._ended[first]
        place = (namespace, entry.pool)
        known = {key: found for key, found in self._large.pop(place, {}).items() if found[0] > now - PAUSE}
        _, units = known.get(entry.request_id, (now, 0))
        known[entry.request_id] = (now, units + entry.slots)  # of a request for several cards each ends by itself
        self._large[place] = known
        while True:
            oldest, requests = next(iter(self._large.items()))
            if max(at for at, _ in requests.values()) > now - PAUSE:
                return
            del self._large[oldest]


def _entry(reservation: Reservation, pool: str) -> _Unseen | None:
    try:
        since, until = seconds(reservation.since), seconds(reservation.expires_at)
    except ValueError:
        return None
    return _Unseen(reservation.request_id, pool, reservation.slots, since, until)
