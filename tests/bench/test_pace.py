"""Work begins at its time, and a watch tells when each thing that was waited for came."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from sim.bench.load import at_pace
from sim.bench.sight import Sight
from sim.bench.subject import by_kind
from sim.errors import UserError
from tests.kit.waiting import PATIENCE


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


def event(name: str, value: int, kind: str = "MODIFIED") -> bytes:
    return orjson.dumps({"type": kind, "object": {"metadata": {"name": name, "uid": "u"}, "value": value}})


async def test_a_sight_tells_when_what_was_waited_for_came() -> None:
    sight = Sight()
    first, second = sight.expect("a", lambda o: o["value"] == 1), sight.expect("a", lambda o: o["value"] == 2)
    other = sight.expect("b", lambda o: o["value"] == 1)
    for at, line in enumerate([event("a", 0), event("a", 2), event("a", 1), event("a", 2)]):
        sight.saw(line, float(at))
    assert (first.result(), second.result(), other.done()) == (2.0, 1.0, False)
    assert sight.events == {"a": 4}
    assert sight.meta["a"]["uid"] == "u"

    sight.end(UserError("the watch ended"))
    for waiting in (other, sight.expect("c", lambda _: True)):
        with pytest.raises(UserError, match="the watch ended"):
            await waiting


async def test_an_error_in_the_watch_is_no_object() -> None:
    with pytest.raises(UserError, match="too old"):
        Sight().saw(orjson.dumps({"type": "ERROR", "object": {"message": "too old resource version"}}), 0.0)


def test_a_metric_by_kind() -> None:
    metrics = {'pages{kind="Node"}': 3.0, 'pages{kind="GPUDevice"}': 1.0, "pages": 9.0, 'other{kind="Node"}': 7.0}
    assert by_kind(metrics, "pages") == {"Node": 3, "GPUDevice": 1}
