"""A replica that the API server does not answer says so, and says when it answers again."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from controllers.runtime.errors import ApiError, Forbidden, Unreachable
from webhook.api_server_probe import ApiServerProbe

PATIENCE = 6.0


class Api:
    """Stands for the connection, not for the API server: each question is answered by what a test has put in."""

    def __init__(self) -> None:
        self.now, self.takes = 1000.0, 0.0
        self.answer: Exception | None = None
        self.asked = asyncio.Semaphore(0)

    async def request(self, _method: str, _path: str, **_: Any) -> bytes:
        self.now += self.takes
        self.asked.release()
        if self.answer is not None:
            raise self.answer
        return b"{}"


@pytest.mark.parametrize(
    ("answer", "reachable"),
    [
        (None, True),
        (Forbidden(403, "Forbidden", "not you"), True),
        (ApiError(503, "ServiceUnavailable", "a proxy speaks for it"), False),
        (Unreachable("timed out"), False),
    ],
    ids=["answers", "refuses", "is not there behind a proxy", "does not answer"],
)
async def test_an_answer_is_contact(answer: Exception | None, reachable: bool) -> None:
    api, told = Api(), list[bool]()
    probe = ApiServerProbe(cast("Any", api), told.append, period=0.001, timeout=PATIENCE, clock=lambda: api.now)
    assert not probe.reachable
    api.answer = answer
    asking = asyncio.create_task(probe.run())
    await api.asked.acquire()
    await api.asked.acquire()
    assert probe.reachable is reachable
    api.now += PATIENCE + 1
    api.answer = Unreachable("gone")
    await api.asked.acquire()
    await api.asked.acquire()
    assert not probe.reachable
    api.answer = None
    await api.asked.acquire()
    await api.asked.acquire()
    assert probe.reachable
    assert told == ([True, False, True] if reachable else [True])
    asking.cancel()


async def test_a_process_that_was_stopped_while_it_asked_asks_anew() -> None:
    api, told = Api(), list[bool]()
    api.takes = PATIENCE + 1
    probe = ApiServerProbe(cast("Any", api), told.append, period=0.001, timeout=PATIENCE, clock=lambda: api.now)
    asking = asyncio.create_task(probe.run())
    await api.asked.acquire()
    await api.asked.acquire()
    assert not probe.reachable
    asking.cancel()
