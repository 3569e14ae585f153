"""A jump of the wall clock, told apart from a process that gets no processor."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from controllers.runtime import clock_guard
from tests.kit.waiting import until


class Clocks:
    """Both clocks of a machine; to read one takes no time, but what `slow` says where the process is set aside."""

    def __init__(self, slow: list[float]) -> None:
        self.now, self.jumped, self._slow = 1000.0, 0.0, itertools.chain(slow, itertools.repeat(0.0))
        self.read = 0
        """How often either was."""

    def monotonic(self) -> float:
        self.read += 1
        self.now += next(self._slow)
        return self.now

    def time(self) -> float:
        return self.monotonic() + 1e9 + self.jumped


async def seen(clocks: Clocks, monkeypatch: pytest.MonkeyPatch, jump: float = 0.0) -> float | None:
    """What the watcher says of a jump, for which it has all the time; None where it sees none in a hundred readings."""
    monkeypatch.setattr(clock_guard, "time", SimpleNamespace(time=clocks.time, monotonic=clocks.monotonic))
    monkeypatch.setattr(clock_guard, "PERIOD", 0.001)
    watching = asyncio.create_task(clock_guard.wait_for_clock_jump())
    await until(lambda: clocks.read, "the watcher's first look")
    clocks.jumped = jump
    many = clocks.read + 100
    await until(lambda: watching.done() or (not jump and clocks.read > many), "what it says, or many looks")
    done = watching.done()
    watching.cancel()
    return watching.result() if done else None


@pytest.mark.parametrize("by", [600.0, -600.0])
async def test_a_jump_is_told_as_large_as_it_was(by: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await seen(Clocks([]), monkeypatch, by) == pytest.approx(by, abs=0.01)


@pytest.mark.parametrize("first", range(8))
async def test_a_process_that_is_set_aside_between_the_two_clocks_sees_none(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await seen(Clocks([0.0] * first + [60.0]), monkeypatch) is None
