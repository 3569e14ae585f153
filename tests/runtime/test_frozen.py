"""What the caches grow by leaves the collector's sight."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from controllers.runtime import process
from controllers.runtime.garbage import caches_filling
from controllers.runtime.process import Process
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest


class Cached(list[Any]):
    """What the loop looks at of a store."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__()
        self._changes, self._looks = 0, 0
        self.take(items)

    @property
    def change_count(self) -> int:
        self._looks += 1
        return self._changes

    def take(self, items: Iterable[Any]) -> None:
        taken = list(items)
        self._changes += len(taken)
        self += taken

    async def looked_at(self) -> None:
        """Wait until the loop has looked anew, and has done what followed: it does one look after the other."""
        since = self._looks
        await until(lambda: self._looks >= since + 2, "a second look at the cache")


def test_the_collector_does_not_look_through_caches_while_they_are_filled() -> None:
    full: list[str] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            full.append(phase)

    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.callbacks.append(count)
    try:
        with caches_filling():
            cached = [[number] for number in range(400_000)]
        assert full == [], f"{len(cached)} objects came"
        assert gc.get_freeze_count() >= len(cached), "and are left alone"
        assert gc.get_threshold() == (700, 10, 10)
        more = [[number] for number in range(400_000)]
        assert full, f"it collects again, {len(more)} objects later"
    finally:
        gc.callbacks.remove(count)
        gc.unfreeze()
        gc.set_threshold(*before)


async def test_the_collector_does_not_look_through_what_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "FREEZE_PERIOD", 0.01)
    monkeypatch.setattr(process, "FREEZE_LEAST", 50)
    cached = Cached([number] for number in range(100))
    synced = asyncio.Event()
    subject = Process.__new__(Process)
    subject._reflectors = [SimpleNamespace(store=cached, synced=synced, resource=None)]  # type: ignore[list-item]
    gc.unfreeze()
    task = asyncio.create_task(subject._keep_frozen())

    async def frozen(more_than: int) -> int:
        await until(lambda: gc.get_freeze_count() > more_than, f"more than {more_than} objects to be out of sight")
        return gc.get_freeze_count()

    try:
        await cached.looked_at()
        assert gc.get_freeze_count() == 0  # not before the first lists
        synced.set()
        before = await frozen(0)
        cached.take([number] for number in range(30))
        await cached.looked_at()
        assert gc.get_freeze_count() <= before  # a few more are not worth it, however small the cluster
        cached.take([number] for number in range(1000))
        assert await frozen(before + 900) > before + 900
        before = gc.get_freeze_count()
        cached.take([number] for number in range(52))
        await cached.looked_at()
        assert gc.get_freeze_count() <= before  # nor is a small share of many
        size, before = len(cached), gc.get_freeze_count()
        kept, cached[:] = list(cached), []  # the old ones stay for as long as they are counted here
        cached.take([number] for number in range(size))
        assert await frozen(before + 900) > before + 900, f"{len(kept)} objects were replaced, and none more is there"
    finally:
        task.cancel()
        gc.unfreeze()
