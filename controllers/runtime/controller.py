"""Takes keys from a queue and reconciles them, several at a time, each key by one task at a time.

A reconciliation returns the seconds after which it wants to be called again, or None. An
error puts the key off with growing delays; one that is part of normal life (a conflict)
does so without a word, everything else is logged once with its traceback and counted. No
error ends a controller, except the loss of the lease, after which nothing may be written.
Cancelling `run` stops taking keys and finishes those in hand.
"""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog
from structlog.contextvars import bound_contextvars

from controllers.runtime import metrics
from controllers.runtime.errors import ApiError, Busy, Conflict, LostLeadership, Retry, Terminal, Unreachable
from controllers.runtime.workqueue import MAX_BACKOFF, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from controllers.api.meta import KubeObject

log = structlog.get_logger()
CONFLICT_DELAY = 0.05
"""At least; a cache that stays behind makes it grow, and its catching up brings the key at once."""
OUTAGE_DELAY = 10.0
"""At most, while the API server is away: nobody wants to wait a minute after it is back."""
DRAIN_SECONDS = 10.0


class Controller:
    """One queue, one reconcile function, several tasks at a time."""

    def __init__(self, name: str, reconcile: Callable[[str], Awaitable[float | None]], *, workers: int = 4) -> None:
        """Prepare; keys can be added before `run`."""
        self.name, self._reconcile, self._workers = name, reconcile, workers
        self._queue = WorkQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.Future[None] | None = None  # there while `run` hands keys out
        self._context = contextvars.Context()
        self._called = False
        self._timer: asyncio.TimerHandle | None = None
        self._depth = metrics.QUEUE_DEPTH.labels(name)

    def add(self, *keys: str) -> None:
        """Reconcile keys soon."""
        for key in keys:
            self._queue.add(key)
        self._changed()

    def add_all(self, keys: Iterable[str]) -> None:
        """Reconcile many keys soon."""
        self.add(*keys)

    def add_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Reconcile soon the key that a changed object is named as; a handler for a cache."""
        if (changed := new or old) is not None:
            self.add(changed.name)

    def add_after(self, key: str, seconds: float) -> None:
        """Reconcile a key after a while; what is added in between is done with it."""
        self._queue.add_at(key, asyncio.get_running_loop().time() + seconds)
        self._changed()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nobody works (delayed keys do not count)."""
        return len(self._queue) == 0 and self._queue.busy == 0

    async def run(self) -> None:
        """Work until cancelled; then finish what is in hand, for at most ten seconds."""
        self._context = contextvars.copy_context()
        self._end = end = asyncio.get_running_loop().create_future()
        self._changed()
        try:
            await end
        finally:
            self._end = None
            if self._timer is not None:
                self._timer.cancel()
            await self._drain()

    async def _drain(self) -> None:
        """Let no reconciliation be torn between two writes, unless it takes too long."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=DRAIN_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _changed(self) -> None:
        """Hand keys out in the loop's next turn, so that a burst about one key is one reconciliation."""
        self._depth.set(len(self._queue))
        if self._end is not None and not self._end.done() and not self._called:
            self._called = True
            self._end.get_loop().call_soon(self._hand_out, context=self._context)

    def _hand_out(self) -> None:
        self._called = False
        if self._end is None or self._end.done():
            return
        loop = self._end.get_loop()
        while len(self._tasks) < self._workers and (key := self._queue.take(loop.time())) is not None:
            task = loop.create_task(self._one(key), name=f"{self.name} {key}", context=self._context.copy())
            self._tasks.add(task)
            task.add_done_callback(partial(self._finished, key))
        self._depth.set(len(self._queue))
        due = self._queue.next_due()
        if self._timer is not None:
            self._timer.cancel()
        # With all hands full the next one to finish looks anyway.
        if due is not None and len(self._tasks) < self._workers:
            self._timer = loop.call_at(due, self._hand_out, context=self._context)

    def _finished(self, key: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._queue.done(key)
        if not task.cancelled() and (error := task.exception()) and self._end is not None and not self._end.done():
            self._end.set_exception(error)
        self._changed()

    async def _one(self, key: str) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with bound_contextvars(controller=self.name, key=key, reconcile=uuid4().hex[:8]):
            result, after = await self._guarded(key)
        metrics.RECONCILES.labels(self.name, result).inc()
        metrics.RECONCILE_SECONDS.labels(self.name).observe(loop.time() - started)
        if result in ("ok", "terminal", "retry"):
            self._queue.forget(key)
        if after is not None:
            self._queue.add_at(key, loop.time() + after)

    async def _guarded(self, key: str) -> tuple[str, float | None]:
        """Reconcile; returns the result's name and the delay after which to come again."""
        try:
            return "ok", await self._reconcile(key)
        except Retry as retry:
            return "retry", retry.after
        except Conflict:
            self._put_off(key, at_least=CONFLICT_DELAY, at_most=OUTAGE_DELAY)
            return "conflict", None
        except Terminal as error:
            log.warning("waiting for an input to change", error=str(error))
            return "terminal", None
        except LostLeadership:
            raise
        except (ApiError, Unreachable) as error:
            passing = isinstance(error, (Busy, Unreachable))
            after = (error.retry_after if isinstance(error, Busy) else None) or 0.0
            delay = self._put_off(key, at_least=after, at_most=OUTAGE_DELAY if passing else MAX_BACKOFF)
            log.warning("the API server refused or did not answer", error=str(error), retry_in=round(delay, 3))
            return "error", None
        except Exception:
            delay = self._put_off(key)
            log.exception("reconcile failed", retry_in=round(delay, 3))
            return "error", None

    def _put_off(self, key: str, *, at_least: float = 0.0, at_most: float = MAX_BACKOFF) -> float:
        return self._queue.add_failed(key, asyncio.get_running_loop().time(), at_least=at_least, at_most=at_most)
