"""What the caches grow by leaves the collector's sight."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.runtime import process
from controllers.runtime.process import Process


async def test_the_collector_does_not_look_through_what_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "FREEZE_PERIOD", 0.01)
    cached: list[Any] = [[number] for number in range(100)]
    synced = asyncio.Event()
    subject = Process.__new__(Process)
    subject._reflectors = [SimpleNamespace(store=cached, synced=synced, resource=None)]  # type: ignore[list-item]
    gc.unfreeze()
    task = asyncio.create_task(subject._keep_frozen())

    async def frozen(more_than: int) -> int:
        for _ in range(500):
            if gc.get_freeze_count() > more_than:
                break
            await asyncio.sleep(0.01)
        return gc.get_freeze_count()

    try:
        await asyncio.sleep(0.1)
        assert gc.get_freeze_count() == 0  # not before the first lists
        synced.set()
        before = await frozen(0)
        cached += [[number] for number in range(3)]
        await asyncio.sleep(0.1)
        assert gc.get_freeze_count() <= before  # a few more are not worth it
        cached += [[number] for number in range(1000)]
        assert await frozen(before + 900) > before + 900
    finally:
        task.cancel()
        gc.unfreeze()
