"""Work begins at its time, however long other work takes."""

from __future__ import annotations

import asyncio

import pytest

from reliability.bench.load import at_pace
from reliability.kit.process import by_kind
from tests.kit.waiting import PATIENCE
from tools.errors import UserError


async def test_each_begins_at_its_time_however_long_others_take() -> None:
    loop = asyncio.get_running_loop()
    last = asyncio.Event()
    lates: list[float] = []

    async def one(number: int, due: float) -> int:
        lates.append(loop.time() - due)
        if number == 4:
            last.set()
        await last.wait()  # the first ends only when the last has begun
        return number

    before = loop.time()
    async with asyncio.timeout(PATIENCE):
        assert await at_pace(5, 100.0, one) == [0, 1, 2, 3, 4]
    assert loop.time() - before >= 4 / 100
    assert all(late >= 0 for late in lates)


async def test_the_first_error_is_told_as_it_is() -> None:
    ended: list[int] = []

    async def one(number: int, _due: float) -> None:
        if number == 1:
            raise UserError("refused")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(UserError, match="refused"):
            await at_pace(3, 1000.0, one)
        await asyncio.sleep(0)
    assert ended == [0, 2]


def test_a_metric_by_kind() -> None:
    metrics = {'pages{kind="Node"}': 3.0, 'pages{kind="GPUDevice"}': 1.0, "pages": 9.0, 'other{kind="Node"}': 7.0}
    assert by_kind(metrics, "pages") == {"Node": 3, "GPUDevice": 1}
