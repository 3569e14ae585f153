"""Few at once, the others in order, and nobody for ever."""

from __future__ import annotations

import asyncio

import pytest

from webhook.reservations.concurrency import ConcurrencyLimiter


async def test_so_many_are_inside_and_the_others_follow_in_order() -> None:
    limiter, inside, most, done = ConcurrencyLimiter(3), 0, 0, list[int]()

    async def one(number: int) -> None:
        nonlocal inside, most
        async with limiter.acquire():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            done.append(number)

    await asyncio.gather(*(one(number) for number in range(20)))
    assert most == 3
    assert done == sorted(done)


async def test_who_waits_too_long_leaves_and_takes_no_turn_with_it() -> None:
    limiter, out = ConcurrencyLimiter(1, wait_max=0.02), asyncio.Event()

    async def stay() -> None:
        async with limiter.acquire():
            await out.wait()

    staying = asyncio.create_task(stay())
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with limiter.acquire():
            pytest.fail("there was no room")
    out.set()
    await staying
    async with limiter.acquire():
        pass


async def test_a_failure_or_a_cancellation_inside_gives_the_turn_back() -> None:
    limiter = ConcurrencyLimiter(1, wait_max=0.02)
    with pytest.raises(ValueError, match="mine"):
        async with limiter.acquire():
            raise ValueError("mine")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), limiter.acquire():
            await asyncio.sleep(1)
    async with limiter.acquire():
        pass
