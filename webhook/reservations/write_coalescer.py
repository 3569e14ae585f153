"""Writes of reservations to GPUDevices: one writer for each card at a time, which writes all that waits for it at once.

Several reviews of this process may choose slots of one card at the same moment: what each has chosen is in flight
(`Snapshot.track_in_flight`), so their choices go together, and only their writes would fight over the card's version.
They are one merge patch instead. Where somebody else has written the card since the choice, each reservation is looked
at again on the card as it is now, first come first; one that no longer fits ends with Conflict, and its review chooses
anew.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.runtime.errors import Conflict
from webhook import metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from controllers.api.gpudevice import GPUDevice, Reservation

WRITES_MAX = 6
"""Writes of the same reservations while the card still has room for them."""
CONFLICT = 409


@dataclass(slots=True)
class PendingWrite:
    """A reservation that waits to be written."""

    card: GPUDevice
    """The card that it was chosen on, in the version that the choice saw."""
    reservation: Reservation
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class WriteCoalescer:
    """A writer for each card that somebody writes."""

    def __init__(
        self,
        write: Callable[[GPUDevice, Sequence[Reservation]], Awaitable[None]],
        current: Callable[[str], GPUDevice | None],
        refresh: Callable[[str], Awaitable[object]],
        still_fits: Callable[[GPUDevice, Reservation, int], bool],
    ) -> None:
        """`write` adds reservations to exactly that version of a card; `current`: the card as the cache has it.

        `refresh` reads a card from the quorum into the cache. `still_fits` tells whether a reservation fits on a card
        beside so many slots that are reserved in the same write.
        """
        self._write, self._current, self._refresh, self._still_fits = write, current, refresh, still_fits
        self._pending: dict[str, list[PendingWrite]] = {}
        self._writers: set[asyncio.Task[None]] = set()
        self._in_flight: dict[str, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        """Cards that somebody writes."""
        return len(self._pending)

    def submit(self, card: GPUDevice, reservation: Reservation) -> asyncio.Future[None]:
        """Have a reservation written; the future ends when it is, or raises why it is not."""
        entry = PendingWrite(card, reservation)
        if (queue := self._pending.get(card.name)) is not None:
            queue.append(entry)
            return entry.done
        self._pending[card.name] = [entry]
        # A task of its own: a review that runs out of time must not take others' reservations with it.
        writer = asyncio.create_task(self._write_queue(card.name))
        self._writers.add(writer)
        writer.add_done_callback(self._writers.discard)
        return entry.done

    async def _write_queue(self, name: str) -> None:
        """Write until nothing waits for the card."""
        queue, first = self._pending[name], True
        try:
            while queue:
                batch = [entry for entry in queue if not entry.done.done()]
                queue.clear()
                # Choices of one version go together, whoever made them: nothing is to be looked at again.
                agree = len({entry.card.metadata.resource_version for entry in batch}) == 1
                await self._write_once(name, batch, batch[0].card if batch and first and agree else None)
                first = False
        finally:
            del self._pending[name]

    async def _write_once(self, name: str, batch: list[PendingWrite], device: GPUDevice | None) -> None:
        in_flight = self._in_flight[name] = asyncio.get_running_loop().create_future()
        try:
            await self._write_batch(name, batch, device)
        finally:
            del self._in_flight[name]
            in_flight.set_result(None)

    async def wait_for_write(self, name: str) -> None:
        """Wait for the end of the write of a card that is under way, if there is one.

        It goes on when a review in it gives up: who looks for its reservation sooner does not find it, and it comes
        after.
        """
        if (write := self._in_flight.get(name)) is not None:
            await asyncio.shield(write)

    async def _write_batch(self, name: str, batch: list[PendingWrite], device: GPUDevice | None) -> None:
        """Write a batch on the version that it was chosen on, or, where that is None, on the card as it is now."""
        try:
            for tries in range(1, WRITES_MAX + 1):
                if device is None:
                    device = self._current(name)
                    batch = self._keep_fitting(device, batch)
                if device is None or not batch:
                    return
                try:
                    await self._write(device, [entry.reservation for entry in batch])
                except Conflict as error:
                    metrics.CONFLICTS.inc()
                    if tries == WRITES_MAX:
                        _finish(batch, error)
                        return
                    await self._refresh(name)
                    device = None
                else:
                    _finish(batch)
                    return
        except Exception as error:  # noqa: BLE001 - whatever it is, each review is to tell it
            _finish(batch, error)

    def _keep_fitting(self, device: GPUDevice | None, batch: Iterable[PendingWrite]) -> list[PendingWrite]:
        """Those that still fit on the card, first come first; the others end."""
        kept, taken = list[PendingWrite](), Counter[str | None]()
        for entry in batch:
            if entry.done.done():
                continue  # its review has given up
            if (
                device is not None
                and _is_same_card(device, entry.card)
                and self._still_fits(device, entry.reservation, taken[entry.reservation.profile])
            ):
                kept.append(entry)
                taken[entry.reservation.profile] += entry.reservation.slots
            else:
                why = f"GPUDevice {entry.card.name} was given to somebody else meanwhile"
                _finish([entry], Conflict(CONFLICT, "Conflict", why))
        return kept


def _is_same_card(now: GPUDevice, chosen: GPUDevice) -> bool:
    """Whether a card is the one that was chosen: the same object, in the pool that the pod asks for."""
    return now.metadata.uid == chosen.metadata.uid and now.status.pool_ref == chosen.status.pool_ref


def _finish(batch: Iterable[PendingWrite], error: Exception | None = None) -> None:
    """Tell the reviews; one that has given up meanwhile does not listen."""
    for entry in batch:
        if entry.done.done():
            continue
        if error is None:
            entry.done.set_result(None)
        else:
            entry.done.set_exception(error)
