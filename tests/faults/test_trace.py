"""What the recorder tells of comes once, also where its own watch breaks, and is the module's."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

from controllers.api import names, resources
from controllers.runtime.errors import Unreachable
from reliability.faults.trace import Recorder, Revision

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def recorder() -> Recorder:
    return Recorder(cast("Any", None))


def test_a_watch_that_ended_is_no_silence() -> None:
    async def dies() -> None:
        raise ValueError("a bug of the recorder")

    async def go() -> None:
        made = recorder()
        made._tasks = [task := asyncio.create_task(dies())]
        made.check()
        with suppress(ValueError):
            await task
        made.check()

    with pytest.raises(ValueError, match="a bug of the recorder"):
        asyncio.run(go())


def test_the_recorder_takes_what_is_the_modules() -> None:
    made = recorder()

    def take(kind: str, name: str, **fields: Any) -> bool:
        key = (kind, name)
        made._take(Revision(1, 0.0, "ADDED", key, {"metadata": {"name": name}, **fields}))
        return key in made.now

    assert take("Event", "e", reportingController=names.MANAGER_POOL)
    assert not take("Event", "f", reportingController="default-scheduler")
    assert take("Secret", names.WEBHOOK_SECRET)
    assert not take("Secret", "another")
    assert take("MutatingWebhookConfiguration", names.WEBHOOK_CONFIGURATION)
    assert not take("MutatingWebhookConfiguration", "theirs")


class Breaking:
    """A server whose watch tells of one change and breaks; it remembers from where it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, *_: Any, **__: Any) -> bytes:
        return orjson.dumps({"metadata": {"resourceVersion": "5"}, "items": []})

    @asynccontextmanager
    async def stream(self, _: str, *, query: dict[str, str], idle: float) -> AsyncIterator[Any]:
        assert idle
        self.asked.append(query["resourceVersion"])
        if len(self.asked) > 1:
            raise asyncio.CancelledError

        async def batches() -> AsyncIterator[list[bytes]]:
            card = {"metadata": {"name": "a", "resourceVersion": "7"}}
            yield [orjson.dumps({"type": "ADDED", "object": card})]
            raise Unreachable("the connection was reset")

        yield batches()


def test_a_watch_that_breaks_goes_on_from_where_it_was() -> None:
    async def go() -> tuple[list[str], int]:
        server = Breaking()
        made = Recorder(cast("Any", server))
        with suppress(asyncio.CancelledError):
            await made._follow(resources.GPUDEVICE, None, asyncio.Event())
        return server.asked, len(made.history)

    assert asyncio.run(go()) == (["5", "7"], 1)
