"""What the executor and the controller do when writes fail, on a real API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from pydantic import TypeAdapter
from structlog.testing import capture_logs

from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import ConfigMap
from controllers.api.resources import CONFIGMAP, GPUDEVICE, Resource
from controllers.runtime.controller import Controller
from controllers.runtime.errors import (
    AlreadyExists,
    ApiError,
    Busy,
    Conflict,
    Invalid,
    LostLeadership,
    NotFound,
    Retry,
    Terminal,
    Unreachable,
)
from controllers.runtime.events import Recorder
from controllers.runtime.executor import Executor
from controllers.runtime.plan import Action, Apply, Delete, EmitEvent, Merge, Precondition, Ref
from controllers.runtime.store import Store
from reliability.kit.fault_proxy import writes_to
from tests.kit.waiting import PATIENCE, until
from tests.runtime.helpers import Counted, following, watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from controllers.runtime.client import Client
    from reliability.kit.fault_proxy import FaultProxy
    from tests.runtime.helpers import Space

WRITES = writes_to("configmaps")


@pytest.fixture
def executor(client: Client) -> Executor:
    return Executor(client, "tested", Recorder(client, "tested", "test"))


@pytest.fixture
def refer(space: Space) -> Any:
    def make(name: str, uid: str | None = None) -> Ref:
        return Ref(CONFIGMAP, name, space.name, uid)

    return make


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- the executor ---------------------------------------------------------------------------


async def test_apply_owns_exactly_its_fields(executor: Executor, space: Space, refer: Any) -> None:
    await space.put("a", theirs="1")
    await executor.execute([Apply(refer("a"), {"data": {"ours": "1"}})])
    await executor.execute([Apply(refer("a"), {"data": {"ours2": "1"}})])
    assert (await space.all())["a"] == {"theirs": "1", "ours2": "1"}


async def test_apply_with_the_uid_of_a_deleted_object_does_not_make_it_anew(
    executor: Executor, space: Space, refer: Any
) -> None:
    uid = (await space.put("a", v="1"))["uid"]
    await space.delete("a")
    with pytest.raises(Conflict):
        await executor.execute([Apply(refer("a", uid), {"data": {"v": "2"}})])
    assert await space.all() == {}


async def test_apply_with_the_uid_of_a_predecessor_changes_nothing(
    executor: Executor, space: Space, refer: Any
) -> None:
    uid = (await space.put("a", v="1"))["uid"]
    await space.delete("a")
    await space.put("a", v="other")
    with pytest.raises(Conflict):
        await executor.execute([Apply(refer("a", uid), {"data": {"v": "2"}})])
    assert await space.all() == {"a": {"v": "other"}}


@pytest.mark.parametrize("known", [True, False])
async def test_status_meant_for_an_object_that_is_gone_does_not_reach_its_successor(
    executor: Executor, admin: Client, device: str, known: bool
) -> None:
    """The API server itself takes any uid on a custom resource's status."""
    old = orjson.loads(await admin.get(GPUDEVICE, device))
    if known:
        executor.register_cache(GPUDEVICE, GPUDevice, store := Store("GPUDevice"))
        store.on_watch_event(TypeAdapter(GPUDevice).validate_python(old))
    stale = Ref(GPUDEVICE, device, uid=old["metadata"]["uid"])
    await admin.request("DELETE", GPUDEVICE.path(None, device))
    with pytest.raises(NotFound):
        await executor.execute([Apply(stale, {"status": {"nodeName": "n"}}, "status")])
    body = {"apiVersion": GPUDEVICE.api_version, "kind": GPUDEVICE.kind, "metadata": {"name": device}}
    await admin.create(GPUDEVICE, body, manager="other")
    with pytest.raises(Conflict):
        await executor.execute([Apply(stale, {"status": {"nodeName": "n"}}, "status")])
    with pytest.raises(Conflict):
        await executor.execute([Apply(stale, {"metadata": {"labels": {"a": "b"}}})])
    assert "status" not in orjson.loads(await admin.get(GPUDEVICE, device))


async def test_status_of_several_owners_is_no_conflict(
    executor: Executor, admin: Client, device: str, proxy: FaultProxy
) -> None:
    """The cache may be behind: an apply of our own fields goes through all the same."""
    old = orjson.loads(await admin.get(GPUDEVICE, device))
    executor.register_cache(GPUDEVICE, GPUDevice, store := Store("GPUDevice"))
    store.on_watch_event(TypeAdapter(GPUDevice).validate_python(old))
    ours = Ref(GPUDEVICE, device, uid=old["metadata"]["uid"])
    theirs = {"apiVersion": GPUDEVICE.api_version, "kind": GPUDEVICE.kind, "metadata": {"name": device}}
    await admin.apply(GPUDEVICE, device, theirs | {"status": {"nodeName": "n"}}, manager="other", subresource="status")
    await executor.execute([Apply(ours, {"status": {"inventoryID": "i"}}, "status")])
    await executor.execute([Apply(ours, {"status": {"inventoryID": "j"}}, "status")])
    status = orjson.loads(await admin.get(GPUDEVICE, device))["status"]
    assert (status["nodeName"], status["inventoryID"]) == ("n", "j")
    assert [e.status for e in proxy.writes] == [409, 200, 200], "our own write is known to the store"


async def test_merge_with_an_old_version_is_a_conflict(executor: Executor, space: Space, refer: Any) -> None:
    old = await space.put("a", v="1")
    await space.put("a", v="2")
    with pytest.raises(Conflict):
        await executor.execute([Merge(refer("a", old["uid"]), old["resourceVersion"], {"data": {"v": "3"}})])
    assert (await space.all())["a"] == {"v": "2"}


async def test_apply_that_names_an_old_version_is_a_conflict(executor: Executor, space: Space, refer: Any) -> None:
    old = await space.put("a", v="1")
    new = await space.put("a", v="2")

    def apply(value: str, version: str) -> Apply:
        return Apply(refer("a", old["uid"]), {"metadata": {"resourceVersion": version}, "data": {"v": value}})

    with pytest.raises(Conflict):
        await executor.execute([apply("3", old["resourceVersion"])])
    await executor.execute([apply("4", new["resourceVersion"])])
    assert (await space.all())["a"] == {"v": "4"}

    await space.delete("a")
    with pytest.raises(Conflict):
        await executor.execute([apply("5", new["resourceVersion"])])
    assert await space.all() == {}


async def test_merge_of_an_object_that_is_gone(executor: Executor, space: Space, refer: Any) -> None:
    old = await space.put("a", v="1")
    await space.delete("a")
    with pytest.raises(NotFound):
        await executor.execute([Merge(refer("a", old["uid"]), old["resourceVersion"], {"data": {"v": "3"}})])


async def test_delete_is_of_one_object_by_uid(executor: Executor, space: Space, refer: Any) -> None:
    uid = (await space.put("a", v="1"))["uid"]
    await space.delete("a")
    await space.put("a", v="2")
    with pytest.raises(Conflict):
        await executor.execute([Delete(refer("a", uid))])
    with pytest.raises(ValueError, match="without a uid"):
        await executor.execute([Delete(refer("a"))])
    assert await space.all() == {"a": {"v": "2"}}


async def test_delete_of_a_version_that_has_changed(executor: Executor, space: Space, refer: Any) -> None:
    old = await space.put("a", v="1")
    await space.put("a", v="2")
    with pytest.raises(Conflict):
        await executor.execute([Delete(refer("a", old["uid"]), old["resourceVersion"])])
    new = await space.put("a", v="2")
    await executor.execute([Delete(refer("a", new["uid"]), new["resourceVersion"])])
    assert await space.all() == {}
    await executor.execute([Delete(refer("a", new["uid"]))])  # what we wanted is so already


async def test_a_deletion_is_not_sent_again_while_the_cache_does_not_know_of_it(
    executor: Executor, space: Space, refer: Any, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent() -> int:
        return sum(exchange.verb == "delete" for exchange in proxy.trace)

    uid = (await space.put("a", v="1"))["uid"]
    plan = [Delete(refer("a", uid))]
    proxy.fail(WRITES, 500, times=1)
    with pytest.raises(ApiError):
        await executor.execute(plan)
    first = sent()
    await executor.execute(plan)
    assert sent() == first + 1, "what was refused is tried again"
    await executor.execute(plan)
    assert sent() == first + 1

    successor = (await space.put("a", v="2"))["uid"]
    await executor.execute([Delete(refer("a", successor))])
    assert await space.all() == {}, "another object of that name"

    monkeypatch.setattr("controllers.runtime.executor.DELETED_FOR", 0.0)
    await executor.execute(plan)
    assert sent() == first + 3, "not for ever: an etcd that was restored has it again"


async def test_delete_is_given_up_where_what_should_be_absent_is_there(
    executor: Executor, space: Space, refer: Any
) -> None:
    uid, node = (await space.put("card", v="1"))["uid"], (await space.put("node", v="1"))["uid"]
    with pytest.raises(Retry):
        await executor.execute([Delete(refer("card", uid), absent=(refer("node"),))])
    with pytest.raises(Retry):
        await executor.execute([Delete(refer("card", uid), absent=(refer("node", node),))])
    assert "card" in await space.all()
    # Another object of that name is not the one that was meant.
    await executor.execute([Delete(refer("card", uid), absent=(refer("node", "another"), refer("nobody")))])
    assert await space.all() == {"node": {"v": "1"}}


async def test_a_kind_that_is_not_served_is_no_proof_of_absence(executor: Executor, space: Space, refer: Any) -> None:
    uid = (await space.put("card", v="1"))["uid"]
    nowhere = Ref(Resource("nowhere.io", "v1", "things", "Thing", namespaced=False), "x")
    with pytest.raises(NotFound):
        await executor.execute([Delete(refer("card", uid), absent=(nowhere,))])
    assert "card" in await space.all()


async def test_expect_stops_a_plan_that_a_lagging_cache_made(executor: Executor, space: Space, refer: Any) -> None:
    await space.put("known", v="1")
    await space.put("unseen", v="1")
    known = f"{space.name}/known"
    write = Apply(refer("new"), {"data": {}})
    with pytest.raises(Retry):
        await executor.execute([Precondition(CONFIGMAP, frozenset({known}), space.name), write])
    assert "new" not in await space.all()
    both = frozenset({known, f"{space.name}/unseen"})
    await executor.execute([Precondition(CONFIGMAP, both, space.name), write])
    assert "new" in await space.all()


async def test_each_of_several_reads_together_can_end_the_plan(executor: Executor, space: Space, refer: Any) -> None:
    await space.put("known", v="1")
    good, bad = (Precondition(CONFIGMAP, frozenset(keys), space.name) for keys in ([f"{space.name}/known"], []))
    write = Apply(refer("new"), {"data": {}})

    for reads in ([bad, good, good], [good, bad, good], [good] * 20 + [bad]):
        with pytest.raises(Retry):
            await executor.execute([*reads, write])
        assert "new" not in await space.all()
    # One that stands between writes is read between them.
    with pytest.raises(Retry):
        await executor.execute([good, write, good])
    assert "new" in await space.all()


@pytest.mark.parametrize("status", [409, 429, 500, 503, 504])
@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_a_failed_write_ends_the_plan_there(
    executor: Executor, space: Space, refer: Any, proxy: FaultProxy, failing: int, status: int
) -> None:
    actions: list[Action] = [Apply(refer(f"c{n}"), {"data": {"n": str(n)}}) for n in range(3)]
    proxy.fail(writes_to("configmaps", f"c{failing}"), status, times=1)
    with pytest.raises(ApiError) as error:
        await executor.execute(actions)
    assert error.value.status == status
    assert set(await space.all()) == {f"c{n}" for n in range(failing)}

    await executor.execute(actions)
    assert set(await space.all()) == {"c0", "c1", "c2"}


async def test_a_lost_answer_is_unreachable_and_the_write_is_there(
    executor: Executor, space: Space, refer: Any, proxy: FaultProxy
) -> None:
    proxy.reset(WRITES, "after", times=1)
    with pytest.raises(Unreachable):
        await executor.execute([Apply(refer("a"), {"data": {"v": "1"}})])
    assert await space.all() == {"a": {"v": "1"}}
    proxy.reset(WRITES, "before", times=1)
    with pytest.raises(Unreachable):
        await executor.execute([Apply(refer("b"), {"data": {"v": "1"}})])
    assert "b" not in await space.all()


async def test_a_request_without_an_answer_is_given_up(
    executor: Executor, client: Client, space: Space, proxy: FaultProxy, refer: Any
) -> None:
    client.timeout = 0.3
    opened = proxy.gate(WRITES, times=1)
    with pytest.raises(Unreachable, match="TimeoutError"):
        await executor.execute([Apply(refer("a"), {"data": {"v": "1"}})])
    opened.set()
    await executor.execute([Apply(refer("a"), {"data": {"v": "2"}})])
    assert (await space.all())["a"] == {"v": "2"}


async def test_our_writes_are_in_the_store_at_once(
    executor: Executor, client: Client, space: Space, refer: Any, proxy: FaultProxy
) -> None:
    async with following(client, space) as store:
        await watching(proxy)
        held = proxy.hold(lambda _: True)
        executor.register_cache(CONFIGMAP, ConfigMap, store.store)
        await executor.execute([Apply(refer("a"), {"data": {"v": "1"}})])
        first = store.store.get(f"{space.name}/a")
        assert first is not None
        merge = Merge(refer("a", first.metadata.uid), first.metadata.resource_version, {"data": {"w": "1"}})
        await executor.execute([merge])
        assert store.content == {"a": {"v": "1", "w": "1"}}
        assert store.heard == [("added", "a"), ("changed", "a")]
        await space.delete("a")
        held.release()
        await store.has({})
        assert store.heard == [("added", "a"), ("changed", "a"), ("gone", "a")], "the watch's echo wakes nobody"


async def test_a_late_answer_does_not_bring_a_deleted_object_back(
    executor: Executor, client: Client, space: Space, refer: Any, proxy: FaultProxy
) -> None:
    async with following(client, space) as store:
        await watching(proxy)
        executor.register_cache(CONFIGMAP, ConfigMap, store.store)
        answered = proxy.gate(WRITES, "after", times=1)
        writing = asyncio.create_task(executor.execute([Apply(refer("a"), {"data": {"v": "1"}})]))
        await until(lambda: "a" in store.content, "the watch to tell of it")
        await space.delete("a")
        await store.has({})
        answered.set()
        await writing
        assert store.content == {}


async def test_a_second_apply_of_a_plan_is_bound_to_what_the_first_made(
    executor: Executor, client: Client, space: Space, refer: Any, proxy: FaultProxy
) -> None:
    """Somebody deletes the object between the two: the second must not make half an object."""
    async with following(client, space) as store:
        executor.register_cache(CONFIGMAP, ConfigMap, store.store)

        async def delete(_: Any) -> None:
            await space.delete("a")

        proxy.on_write(2, "before", delete)
        with pytest.raises(Conflict):
            await executor.execute([Apply(refer("a"), {"data": {"v": "1"}}), Apply(refer("a"), {"data": {"w": "1"}})])
        assert await space.all() == {}


async def test_an_answer_that_cannot_be_read_does_not_undo_the_plan(
    executor: Executor, client: Client, space: Space, refer: Any
) -> None:
    async with following(client, space) as store:
        executor.register_cache(CONFIGMAP, Counted, store.store)
        with capture_logs() as logs:
            await executor.execute([Apply(refer("a"), {"data": {"v": "one"}}), Apply(refer("b"), {"data": {"v": "2"}})])
    assert set(await space.all()) == {"a", "b"}
    assert [e["object"] for e in logs if e["log_level"] == "warning"] == ["a"]


async def test_the_fence_is_asked_again_when_the_body_goes_out(client: Client, space: Space, proxy: FaultProxy) -> None:
    """The process was stopped, or waited for a connection, after it was asked first."""
    asked = 0

    def fence() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise LostLeadership("lease")

    client.fence = fence
    meta = await space.put("a", v="1")
    ref = Ref(CONFIGMAP, "a", space.name, meta["uid"])
    executor = Executor(client, "tested", Recorder(client, "tested", "test"))
    for action in (Apply(ref, {"data": {}}), Merge(ref, meta["resourceVersion"], {"data": {"v": "2"}}), Delete(ref)):
        asked = 0
        with pytest.raises(LostLeadership):
            await executor.execute([action])
        assert asked > 1
    assert await space.all() == {"a": {"v": "1"}}
    assert proxy.writes == []
    client.fence = None
    await executor.execute([Delete(ref)])
    assert await space.all() == {}


async def test_errors_are_told_apart(client: Client, space: Space) -> None:
    body = {"metadata": {"name": "a"}}
    await client.create(CONFIGMAP, body, space.name, manager="t")
    with pytest.raises(AlreadyExists) as there:
        await client.create(CONFIGMAP, body, space.name, manager="t")
    assert isinstance(there.value, Conflict)
    with pytest.raises(NotFound) as missing:
        await client.get(CONFIGMAP, "b", space.name)
    assert missing.value.about == "b"
    with pytest.raises(Invalid):
        await client.create(CONFIGMAP, {"metadata": {"name": "Not A Name"}}, space.name, manager="t")


# --- the controller -------------------------------------------------------------------------


async def test_a_conflict_is_quiet_and_tried_again_until_it_works(
    executor: Executor, space: Space, refer: Any, proxy: FaultProxy
) -> None:
    conflicts = proxy.fail(WRITES, 409, times=4)

    async def reconcile(key: str) -> None:
        await executor.execute([Apply(refer(key), {"data": {"v": "1"}})])

    with capture_logs() as logs:
        controller = Controller("conflicts", reconcile)
        async with running(controller):
            controller.add("a")
            await until(lambda: len(proxy.seen(WRITES)) == 5, "the fifth try")
            await until(lambda: controller.idle, "it to be done")
    assert conflicts.hits == 4
    assert await space.all() == {"a": {"v": "1"}}
    assert logs == []


async def test_lasting_conflicts_are_tried_less_and_less_often(
    executor: Executor, refer: Any, proxy: FaultProxy
) -> None:
    proxy.fail(WRITES, 409)

    async def reconcile(key: str) -> None:
        await executor.execute([Apply(refer(key), {"data": {"v": "1"}})])

    controller = Controller("conflicts", reconcile)
    async with running(controller):
        controller.add("a")
        await until(lambda: len(proxy.seen(WRITES)) == 8, "eight tries")
    at = [e.at for e in proxy.seen(WRITES)]
    assert at[1] - at[0] >= 0.045
    assert at[7] - at[6] >= 0.25


async def test_429_is_not_tried_again_before_its_time(
    executor: Executor, space: Space, refer: Any, proxy: FaultProxy
) -> None:
    proxy.fail(WRITES, 429, times=1, retry_after=1)

    async def reconcile(key: str) -> None:
        await executor.execute([Apply(refer(key), {"data": {"v": "1"}})])

    controller = Controller("busy", reconcile)
    async with running(controller):
        controller.add("a")
        await until(lambda: len(proxy.seen(WRITES)) == 2, "the second try")
    first, second = (e.at for e in proxy.seen(WRITES))
    assert second - first > 0.95


async def test_one_key_is_never_reconciled_twice_at_once_and_changes_come_again() -> None:
    busy: set[str] = set()
    done: list[str] = []
    go = asyncio.Event()

    async def reconcile(key: str) -> None:
        assert key not in busy
        busy.add(key)
        await go.wait()
        busy.discard(key)
        done.append(key)

    controller = Controller("one", reconcile, workers=3)
    async with running(controller):
        controller.add("a", "a", "b", "c", "d")
        await until(lambda: len(busy) == 3, "three at once")
        controller.add("a")
        controller.add("a")
        assert len(busy) == 3
        go.set()
        await until(lambda: controller.idle, "all to be done")
    assert sorted(done) == ["a", "a", "b", "c", "d"]


async def test_keys_added_before_run_and_delays() -> None:
    loop, at = asyncio.get_running_loop(), []

    async def reconcile(_: str) -> float | None:
        at.append(loop.time())
        return 0.2 if len(at) < 3 else None

    controller = Controller("delays", reconcile)
    controller.add("a")
    async with running(controller):
        await until(lambda: len(at) == 3, "three times")
        controller.add_after("a", 0.1)
        asked = loop.time()
        await until(lambda: len(at) == 4, "the fourth")
    assert at[1] - at[0] >= 0.2
    assert at[3] - asked >= 0.1


async def test_no_error_of_a_reconciliation_ends_the_controller() -> None:
    errors: dict[str, Exception] = {
        "bug": ZeroDivisionError(),
        "away": Unreachable("x"),
        "refused": Invalid(422, "Invalid", "x"),
        "hopeless": Terminal("no such pool"),
        "later": Retry(0.01, "not yet"),
        "busy": Busy(503, "ServiceUnavailable", "x"),
    }
    seen: dict[str, int] = dict.fromkeys(errors, 0)

    async def reconcile(key: str) -> None:
        seen[key] += 1
        if seen[key] < 3 and not (key == "hopeless" and seen[key] > 1):
            raise errors[key]

    with capture_logs() as logs:
        controller = Controller("errors", reconcile)
        async with running(controller):
            controller.add(*errors)
            await until(lambda: all(n == 3 for key, n in seen.items() if key != "hopeless"), "three tries of each")
            assert seen["hopeless"] == 1, "nothing to gain before an input changes"
            controller.add("hopeless")
            await until(lambda: seen["hopeless"] == 2, "a change of it")
    assert {e["event"] for e in logs if "exc_info" in e} == {"reconcile failed"}
    assert len([e for e in logs if "exc_info" in e]) == 2


async def test_losing_the_lease_ends_the_controller() -> None:
    async def reconcile(_: str) -> None:
        raise LostLeadership("lease")

    controller = Controller("lost", reconcile)
    controller.add("a", "b", "c")
    with pytest.raises(LostLeadership):
        await asyncio.wait_for(controller.run(), PATIENCE)


async def test_cancelling_finishes_what_is_in_hand_and_takes_no_more() -> None:
    started, go = [], asyncio.Event()
    done: list[str] = []

    async def reconcile(key: str) -> None:
        started.append(key)
        await go.wait()
        done.append(key)

    controller = Controller("drain", reconcile, workers=2)
    controller.add("a", "b", "c")
    task = asyncio.create_task(controller.run())
    await until(lambda: len(started) == 2, "two at work")
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(task, return_exceptions=True)
    assert done == ["a", "b"]


async def test_note_between_writes_is_queued_only_after_the_writes_before_it(
    client: Client, space: Space, refer: Any, proxy: FaultProxy
) -> None:
    recorder = Recorder(client, "tested", "test")
    executor = Executor(client, "tested", recorder)
    note = EmitEvent(refer("a"), "Normal", "Done", "It is done.")
    proxy.fail(WRITES, 500, times=1)
    plan = [Apply(refer("a"), {"data": {}}), note]
    with pytest.raises(ApiError):
        await executor.execute(plan)
    assert recorder._queue.qsize() == 0
    await executor.execute(plan)
    assert recorder._queue.qsize() == 1


async def test_the_body_that_goes_out_is_what_was_given(client: Client, space: Space) -> None:
    """Text beyond ASCII, and bytes as they are."""
    body = {"metadata": {"name": "a"}, "data": {"v": "карта ✓"}}
    answer = await client.create(CONFIGMAP, orjson.dumps(body), space.name, manager="t")
    assert orjson.loads(answer)["data"] == {"v": "карта ✓"}
