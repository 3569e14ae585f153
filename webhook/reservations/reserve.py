"""Reservations of a pod on GPUDevices: written for all its cards or for none.

Each card is one merge patch of `state` and `reservations` on the version that the decision
saw, so of several replicas that choose a card one wins; what reviews of this process
choose of one card at once is one write (`write_coalescer`). When one write fails, those that
succeeded, or may have, are taken back, by quorum reads; where even that does not work, or the
process dies in between, the reservations end by themselves (`unseenTTL`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import structlog

from controllers.api.conditions import FAULTED, is_true
from controllers.api.gpudevice import GPUDevice, Reservation
from controllers.api.record import adapter, to_json
from controllers.api.resources import GPUDEVICE
from controllers.domain.clock import stamp_exact
from controllers.domain.lifecycle import Facts, live, project
from controllers.runtime.errors import Conflict, NotFound, RuntimeFault
from controllers.runtime.plan import Merge, ref
from webhook import metrics
from webhook.reservations.write_coalescer import WriteCoalescer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from controllers.domain.placement.choice import Share
    from controllers.runtime.client import Client
    from controllers.runtime.executor import Executor
    from controllers.runtime.store import Store
    from webhook.decision.review import Request
    from webhook.decision.verdict import Placed

log = structlog.get_logger()
TAKE_BACK_TRIES = 5
TAKE_BACK_PAUSE = 0.1
"""Seconds before another try where the API server failed, doubled each time."""
_device = adapter(GPUDevice)


def status_with(device: GPUDevice, reservations: Iterable[Reservation], now: float) -> dict[str, Any]:
    """The two fields of the status that several write, as they should be: the expired are left out."""
    kept = [reservation for reservation in reservations if live(reservation, now)]
    faulted = is_true(device.status.conditions, FAULTED)
    facts = Facts(pooled=device.status.pool_ref is not None, reserved=bool(kept), faulted=faulted)
    return {"state": project(facts), "reservations": [to_json(reservation) for reservation in kept]}


def new_reservation(request: Request, placed: Placed, share: Share, now: float, ttl: float) -> Reservation:
    """The reservation of a card's slots for a pod that has not appeared yet."""
    return Reservation(
        request_id=placed.request_id,
        namespace=request.namespace,
        pod=request.pod_name,
        slots=share.slots,
        since=stamp_exact(now),
        expires_at=stamp_exact(now + ttl),
        profile=placed.wanted.profile,
    )


class Reserver:
    """Writes reservations and takes them back."""

    def __init__(
        self,
        client: Client,
        executor: Executor,
        devices: Store[GPUDevice],
        *,
        is_bound: Callable[[str], bool],
        still_fits: Callable[[GPUDevice, Reservation, int, float], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; writes go into the store of devices at once.

        `is_bound`: whether a request's pod is bound. `still_fits`: whether a reservation fits on a card beside so many
        slots that are reserved in the same write, at a time.
        """
        self._client, self._executor, self._devices = client, executor, devices
        self._is_bound, self._still_fits, self._clock = is_bound, still_fits, clock
        self._taking_back: set[asyncio.Task[None]] = set()
        self._writes = WriteCoalescer(self._write, devices.get, self._refresh, self._still_fits_now)

    async def reserve(self, request: Request, placed: Placed, ttl: float) -> None:
        """Write all; raises the first error, after which none of them is left."""
        shares, now = placed.placement.shares, self._clock()
        # The cards before anything is awaited: an event that comes in between would put another's
        # reservation into the cache, and with its version the precondition would no longer protect it.
        # The cache's object, not the decision's: the same in all that we read, but perhaps of a newer version.
        cards = [self._devices.get(share.device.name) or share.device for share in shares]
        reservations = [new_reservation(request, placed, share, now, ttl) for share in shares]
        writes = [self._writes.submit(card, reservation) for card, reservation in zip(cards, reservations, strict=True)]
        try:
            results = await asyncio.gather(*writes, return_exceptions=True)
        except asyncio.CancelledError:
            # Out of time, with writes on their way: nobody knows which of them arrive.
            self.take_back_later(placed, [share.device.name for share in shares])
            raise
        errors = [(share.device.name, result) for share, result in zip(shares, results, strict=True) if result]
        if not errors:
            metrics.RESERVATIONS.labels(placed.wanted.pool).inc(len(shares))
            return
        refused = {name for name, error in errors if isinstance(error, (Conflict, NotFound))}
        if doubtful := [share.device.name for share in shares if share.device.name not in refused]:
            await asyncio.shield(self.take_back_later(placed, doubtful))
        await asyncio.gather(*(self._refresh(name) for name in refused))
        raise next((error for _, error in errors if not isinstance(error, Conflict)), errors[0][1])

    async def _write(self, card: GPUDevice, reservations: Sequence[Reservation]) -> None:
        others = [entry for entry in card.status.reservations if not self._is_bound(entry.request_id)]
        await self._executor.execute([_merge(card, status_with(card, [*others, *reservations], self._clock()))])

    def _still_fits_now(self, card: GPUDevice, reservation: Reservation, taken: int) -> bool:
        return self._still_fits(card, reservation, taken, self._clock())

    async def _refresh(self, name: str) -> GPUDevice | None:
        """Learn what a card is now; the watch may be a moment behind."""
        try:
            return await self._read(name)
        except (RuntimeFault, ValueError):
            return None

    async def _read(self, name: str) -> GPUDevice:
        device: GPUDevice = _device.validate_json(await self._client.get(GPUDEVICE, name))
        self._devices.on_own_write(device)
        return device

    def take_back_later(self, placed: Placed, cards: list[str]) -> asyncio.Task[None]:
        """Take reservations back, also when the request that asked for it is over."""
        task = asyncio.create_task(self._take_back(placed.request_id, cards))
        self._taking_back.add(task)
        task.add_done_callback(self._taking_back.discard)
        return task

    async def drain(self) -> None:
        """Wait for what is being taken back."""
        await asyncio.gather(*self._taking_back, return_exceptions=True)

    async def _take_back(self, request_id: str, cards: list[str]) -> None:
        await asyncio.gather(*(self._take_one_back(request_id, card) for card in cards))

    async def _take_one_back(self, request_id: str, card: str) -> None:
        await self._writes.wait_for_write(card)
        for tries in range(TAKE_BACK_TRIES):
            try:
                device = await self._read(card)
                rest = [item for item in device.status.reservations if item.request_id != request_id]
                if len(rest) == len(device.status.reservations):
                    return
                await self._executor.execute([_merge(device, status_with(device, rest, self._clock()))])
            except NotFound:
                return
            except Conflict:
                continue
            except (RuntimeFault, ValueError):
                # Whether the write arrived is not known either: it is looked at again.
                await asyncio.sleep(TAKE_BACK_PAUSE * 2**tries)
            else:
                metrics.TAKEN_BACK.inc()
                return
        log.warning("a reservation could not be taken back; it ends by itself", device=card, request_id=request_id)


def _merge(device: GPUDevice, status: dict[str, Any]) -> Merge:
    """A write that only the version of this very object lets through."""
    return Merge(ref(GPUDEVICE, device), device.metadata.resource_version, {"status": status}, subresource="status")
