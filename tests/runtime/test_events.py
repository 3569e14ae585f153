"""Kubernetes Events: sent in the background, once, bounded, and never in the way."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api.resources import CONFIGMAP, EVENT, NODE
from controllers.runtime import events, metrics
from controllers.runtime.events import Recorder
from controllers.runtime.executor import Executor
from controllers.runtime.plan import Apply, EmitEvent, Ref
from reliability.kit.fault_proxy import writes_to
from tests.kit.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from controllers.runtime.client import Client
    from reliability.kit.fault_proxy import FaultProxy
    from tests.runtime.helpers import Space

EVENTS = writes_to("events")


@pytest.fixture
async def recorder(client: Client) -> AsyncIterator[Recorder]:
    made = Recorder(client, "tested", "instance")
    task = asyncio.create_task(made.run())
    yield made
    assert not task.done(), task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def note(space: Space, message: str = "It happened.", reason: str = "Happened", name: str = "a") -> EmitEvent:
    return EmitEvent(Ref(CONFIGMAP, name, space.name, "uid-1"), "Normal", reason, message)


async def kept(admin: Client, namespace: str) -> list[dict[str, Any]]:
    return list(orjson.loads(await admin.request("GET", EVENT.path(namespace)))["items"])


def dropped(reason: str) -> float:
    return metrics.EVENTS_DROPPED.labels(reason)._value.get()


async def test_the_same_sentence_is_sent_once(
    recorder: Recorder, proxy: FaultProxy, admin: Client, space: Space
) -> None:
    for _ in range(5):
        recorder.enqueue(note(space))
    recorder.enqueue(note(space, "Something else happened."))
    await recorder.drain(PATIENCE)
    assert len(proxy.seen(EVENTS)) == 2
    first = next(e for e in await kept(admin, space.name) if e["note"] == "It happened.")
    assert first["regarding"]["name"] == "a"
    assert first["reason"] == first["action"] == "Happened"
    assert first["reportingController"] == "tested"


async def test_an_event_that_is_there_is_counted(
    recorder: Recorder, client: Client, admin: Client, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten minutes, or by another process of the same name."""
    recorder.enqueue(note(space))
    await recorder.drain(PATIENCE)
    for expected in (2, 3):
        other = Recorder(client, "tested", "instance")
        task = asyncio.create_task(other.run())
        other.enqueue(note(space))
        await other.drain(PATIENCE)
        task.cancel()
        (event,) = await kept(admin, space.name)
        assert event["series"]["count"] == expected
    monkeypatch.setattr(events, "REPEAT_AFTER", 0.0)
    recorder.enqueue(note(space))
    await recorder.drain(PATIENCE)
    (event,) = await kept(admin, space.name)
    assert event["series"]["count"] == 4


async def test_one_that_was_not_sent_can_be_sent_again(
    recorder: Recorder, proxy: FaultProxy, admin: Client, space: Space
) -> None:
    proxy.fail(EVENTS, 500, times=1)
    recorder.enqueue(note(space))
    await recorder.drain(PATIENCE)
    assert await kept(admin, space.name) == []
    recorder.enqueue(note(space))
    await recorder.drain(PATIENCE)
    assert len(await kept(admin, space.name)) == 1


async def test_about_a_cluster_scoped_object_with_a_long_name_and_text(
    recorder: Recorder, admin: Client, space: Space
) -> None:
    name = f"{space.name}.{'n' * 250}"[:199] + ".where-it-is-cut"
    recorder.enqueue(EmitEvent(Ref(NODE, name), "Warning", "Happened", "ы" * 2000))
    await recorder.drain(PATIENCE)
    (event,) = [e for e in await kept(admin, "default") if e["regarding"]["name"] == name]
    assert set(event["note"].lower()) == {"ы"}
    assert len(event["note"].encode()) <= 1024


async def test_the_queue_is_bounded_and_nobody_waits(client: Client, proxy: FaultProxy, space: Space) -> None:
    """An API server that takes no events: reconciliations go on, and what is too much is counted."""
    recorder = Recorder(client, "tested", "instance")
    executor = Executor(client, "tested", recorder)
    task = asyncio.create_task(recorder.run())
    opened = proxy.gate(EVENTS)
    before = dropped("queue full")
    notes = [note(space, f"number {n}") for n in range(events.QUEUE_MAX + 50)]
    await executor.execute([Apply(Ref(CONFIGMAP, "a", space.name), {"data": {}}), *notes])
    await executor.execute([Apply(Ref(CONFIGMAP, "b", space.name), {"data": {}})])
    assert set(await space.all()) == {"a", "b"}
    assert dropped("queue full") - before in (49, 50)  # one may be on its way already
    cut_off = dropped("stop")
    await recorder.drain(0.05)
    assert dropped("stop") > cut_off
    task.cancel()
    opened.set()


async def test_before_it_leads_a_process_keeps_its_events(client: Client, proxy: FaultProxy, space: Space) -> None:
    recorder = Recorder(client, "tested", "instance")
    recorder.may_send.clear()
    task = asyncio.create_task(recorder.run())
    recorder.enqueue(note(space))
    for _ in range(5):
        await asyncio.sleep(0)
    assert proxy.seen(EVENTS) == []
    recorder.may_send.set()
    await until(lambda: proxy.seen(EVENTS), "the event")
    task.cancel()


async def test_many_events_cost_no_more_than_their_sending(client: Client, space: Space) -> None:
    """What was sent is remembered without being looked through for each event."""
    recorder = Recorder(client, "tested", "instance")

    async def created(*_: Any, **__: Any) -> None:
        return None

    recorder._client = type("Sink", (), {"create": staticmethod(created)})()
    notes = [note(space, f"number {n}") for n in range(20_000)]
    started = time.process_time()
    for one in notes:
        await recorder._send(one, 1000.0)
    assert time.process_time() - started < 3
    await recorder._send(notes[0], 1000.0 + 2 * events.REPEAT_AFTER)
    assert len(recorder._sent) == 1
