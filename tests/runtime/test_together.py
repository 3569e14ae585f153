"""Writes of which the planner says that they may go together: at once, but never more than some, and safe to fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controllers.api.resources import CONFIGMAP
from controllers.runtime.errors import Busy, Conflict, Invalid, LostLeadership, Unreachable
from controllers.runtime.executor import WRITES_AT_ONCE, Executor
from controllers.runtime.plan import Action, Apply, EmitEvent, Ref
from tests.kit.waiting import PATIENCE


class Api:
    """Answers a write once all that can be under way are, and refuses some."""

    def __init__(
        self, refused: frozenset[str] = frozenset(), at_once: int = 1, errors: dict[str, Exception] | None = None
    ) -> None:
        self.errors: dict[str, Exception] = {name: Conflict(409, "Conflict", name) for name in refused} | (errors or {})
        self.at_once = at_once
        self.done: list[str] = []
        self.notes: list[str] = []
        self.under_way = self.most = 0
        self.full, self.busy = asyncio.Event(), asyncio.Event()

    async def apply(self, _resource: Any, name: str, *_args: Any, **_more: Any) -> bytes:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way == WRITES_AT_ONCE:
            self.busy.set()
        if self.under_way == self.at_once:
            self.full.set()
        await self.full.wait()
        self.under_way -= 1
        if name in self.errors:
            raise self.errors[name]
        self.done.append(name)
        return b"{}"

    def enqueue(self, note: EmitEvent) -> None:
        self.notes.append(note.about.name)


def write(name: str, *, together: bool = True) -> list[Action]:
    about = Ref(CONFIGMAP, name)
    return [Apply(about, {}, parallel_safe=together), EmitEvent(about, "Normal", "Test", name, parallel_safe=together)]


def executor(api: Api) -> Executor:
    client: Any = api
    return Executor(client, "test", client)


async def test_writes_that_may_go_together_do_and_never_too_many() -> None:
    api = Api(at_once=WRITES_AT_ONCE)
    async with asyncio.timeout(PATIENCE):  # one after the other they would wait for ever
        await executor(api).execute([action for n in range(40) for action in write(f"w{n}")])
    assert sorted(api.done) == sorted(api.notes) == sorted(f"w{n}" for n in range(40))
    assert api.most == WRITES_AT_ONCE


async def test_one_that_fails_keeps_no_other_back_and_ends_the_plan() -> None:
    api = Api(frozenset({"w1"}), at_once=3)
    actions = [*write("w0"), *write("w1"), *write("w2"), *write("last", together=False)]
    with pytest.raises(Conflict):
        await executor(api).execute(actions)
    assert sorted(api.done) == ["w0", "w2"]  # ended before the error is told, and nothing after them was begun
    assert sorted(api.notes) == ["w0", "w2"]  # nobody hears of what was not written


@pytest.mark.parametrize("error", [Busy(429, "TooManyRequests", ""), Unreachable("no"), LostLeadership("no")])
async def test_with_a_server_that_does_not_answer_no_more_are_begun(error: Exception) -> None:
    api = Api(at_once=WRITES_AT_ONCE, errors={f"w{n}": error for n in range(WRITES_AT_ONCE)})
    with pytest.raises(type(error)):
        await executor(api).execute([action for n in range(200) for action in write(f"w{n}")])
    assert (api.done, api.notes) == ([], [])


async def test_what_a_person_has_to_hear_of_is_told_before_a_conflict() -> None:
    api = Api(frozenset({"w0", "w2"}), at_once=3, errors={"w1": Invalid(422, "Invalid", "w1")})
    with pytest.raises(Invalid):
        await executor(api).execute([action for n in range(40) for action in write(f"w{n}")])
    assert len(api.done) == 37  # a card that is refused for good keeps no other back


async def test_a_stop_ends_what_is_under_way_before_it_is_told() -> None:
    api = Api(at_once=WRITES_AT_ONCE + 1)  # none is answered
    task = asyncio.create_task(executor(api).execute([action for n in range(40) for action in write(f"w{n}")]))
    async with asyncio.timeout(PATIENCE):
        await api.busy.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    api.full.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (api.done, api.notes) == ([], [])


async def test_others_go_one_after_the_other() -> None:
    api = Api()
    await executor(api).execute([*write("a", together=False), *write("b", together=False)])
    assert (api.done, api.most) == (["a", "b"], 1)
