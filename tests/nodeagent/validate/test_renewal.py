"""A container that lacks device nodes of MIG instances ends itself, so that it is made anew: once for the same want."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controllers.api import names, validation
from controllers.api.meta import ObjectMeta
from controllers.api.nodefeature import NodeFeature
from controllers.runtime.errors import Unreachable
from controllers.runtime.store import Store
from nodeagent.host import procfs
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.facts.records import Driver
from nodeagent.host.paths import HostPaths
from nodeagent.validate.checks import renewal, report
from nodeagent.validate.checks.devices import CONTROL
from nodeagent.validate.checks.facts import Facts, Node
from nodeagent.validate.publish import Publisher
from nodeagent.validate.scanner import NodeScanner
from sim.nvml import build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.validate.machine import Machine, machine

if TYPE_CHECKING:
    from pathlib import Path

    from controllers.runtime.plan import Apply


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = machine(tmp_path)
    for name, value in environment(build(), made.nvml).items():
        monkeypatch.setenv(name, value)
    return made


async def look(at: Machine, *, cdi: bool, role: str = validation.CONTAINER, proc: Path | None = None) -> Facts:
    asker = DriverProbe(lambda: (at.own,), Timing(deadline=PATIENCE))
    variables = {"NVIDIA_VISIBLE_DEVICES": "void" if cdi else "all"}
    facts = await NodeScanner(role, HostPaths(at.sys, proc or at.proc, at.root), asker, at.own, variables).scan()
    await asker.close()
    return facts


async def test_what_the_driver_lists_is_compared_with_what_is_here(at: Machine) -> None:
    assert renewal.lacking(await look(at, cdi=False)) == frozenset()
    at.instance(1, 12, 13)
    assert renewal.lacking(await look(at, cdi=False)) == {12, 13}
    at.device("nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13", "nvidia-caps/nvidia-cap1")
    facts = await look(at, cdi=False)
    assert (renewal.lacking(facts), renewal.mark(facts)) == (frozenset(), "")


async def test_a_specification_that_is_written_late_is_waited_for(at: Machine) -> None:
    at.instance(1, 12, 13)
    in_memory = renewal.mark(await look(at, cdi=True))
    assert in_memory, "the runtime makes it for each container"
    for listed in ((), (12,)):
        at.manage(*listed)
        assert renewal.mark(await look(at, cdi=True)) == ""
    at.manage(12, 13)
    written = renewal.mark(await look(at, cdi=True))
    assert written
    assert written != in_memory, "who ended in vain before it was written ends once more"
    at.manage()
    assert renewal.mark(await look(at, cdi=False)) == in_memory, "whose devices came otherwise is not concerned"


async def test_another_want_and_another_loading_are_marked_otherwise(at: Machine) -> None:
    at.instance(1, 12, 13)
    marks = {renewal.mark(await look(at, cdi=False))}
    at.instance(2, 21, 22)
    marks.add(renewal.mark(await look(at, cdi=False)))
    at.load_anew()
    marks.add(renewal.mark(await look(at, cdi=False)))
    assert len(marks - {""}) == 3


async def test_without_any_device_or_driver_nothing_is_lacking(at: Machine) -> None:
    at.instance(1, 12, 13)
    at.remove("nvidiactl")
    assert renewal.lacking(await look(at, cdi=False)) == frozenset()
    at.device("nvidiactl")
    at.unload()
    assert renewal.lacking(await look(at, cdi=False)) == frozenset()


async def test_who_sees_a_copy_goes_by_what_the_check_of_the_driver_tells(at: Machine) -> None:
    at.instance(1, 12, 13)
    at.device("nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13")
    copy = at.made_by_legacy_runtime()
    at.instance(2, 21, 22)
    assert procfs.access(copy) is None
    facts = await look(at, cdi=False, proc=copy)
    assert renewal.lacking(facts) == frozenset()
    seen = await look(at, cdi=False, role=validation.DRIVER)
    told = report.attributes(validation.DRIVER, seen, report.evaluate(validation.DRIVER, seen))
    assert told["driver.access"] == "12,13,21,22"
    assert renewal.lacking(renewal.with_reported_access(facts, told)) == {21, 22}
    for stale in ({"driver.boot_id": "another"}, {"driver.version": "1.2"}, {"driver.access": f"x,²,-3,{'9' * 9999}"}):
        assert renewal.lacking(renewal.with_reported_access(facts, told | stale)) == frozenset()


NOTED = validation.key(validation.CONTAINER, validation.ENDED_FOR)


class Written:
    """An executor that notes the writes, or fails as where the API server is away."""

    def __init__(self) -> None:
        self.away, self.ready, self.notes = False, asyncio.Event(), list[str]()
        self.ready.set()

    async def execute(self, plan: tuple[Apply, ...]) -> None:
        if self.away:
            raise Unreachable("away")
        await self.ready.wait()
        features = plan[0].body["spec"]["features"]
        self.notes.append(features["attributes"][names.FEATURE_VALIDATION]["elements"].get(NOTED, ""))


def publisher(executor: Written) -> Publisher:
    """Role container with an empty report, which the writes of `executor` do not change."""
    store: Store[NodeFeature] = Store("reports")
    meta = ObjectMeta(name="gpu-n", namespace=names.NAMESPACE, uid="u", resource_version="1")
    store.replace([NodeFeature(metadata=meta)], 1)
    scanner = NodeScanner(validation.CONTAINER, HostPaths(), None)  # type: ignore[arg-type]
    return Publisher(executor, store, scanner, node="n", period=30, slack=1)  # type: ignore[arg-type]


LACKING = Facts(
    module=Driver("1.2", source="procfs", load="5"), nodes={CONTROL: Node()}, access=frozenset({12}), boot_id="b"
)
NEW = {"container": "ok", "container.boot_id": "b"}


async def test_it_ends_at_the_second_look_whenever_the_note_can_be_written() -> None:
    executor = Written()
    role = publisher(executor)
    executor.away = True
    for _ in range(4):
        role._take(LACKING, NEW)
        with suppress(Unreachable):
            await role._write("")
        assert not role._ended.is_set(), "the next one would not know for what"
    executor.away = False
    await role._write("")
    assert (role._ended.is_set(), executor.notes) == (True, [renewal.mark(LACKING)])


async def test_a_write_that_was_under_way_without_the_note_ends_nothing() -> None:
    executor = Written()
    executor.ready.clear()
    role = publisher(executor)
    role._take(LACKING, NEW)
    writing = asyncio.create_task(role._write(""))
    await asyncio.sleep(0)
    role._take(LACKING, NEW)
    executor.ready.set()
    await writing
    assert (role._ended.is_set(), executor.notes) == (False, [""])
    await role._write("")
    assert role._ended.is_set()


async def test_what_comes_back_meanwhile_ends_nothing() -> None:
    role = publisher(executor := Written())
    for _ in range(2):
        role._take(LACKING, NEW)  # nothing can be written meanwhile
    role._take(replace(LACKING, caps=frozenset({12})), NEW)
    await role._write("")
    assert (role._ended.is_set(), executor.notes) == (False, [""])


async def test_while_nobody_tells_what_exists_it_is_remembered_for_what_it_ended() -> None:
    role = publisher(executor := Written())
    role._ended_for = renewal.mark(LACKING)
    for facts in (LACKING, replace(LACKING, access=None), LACKING, LACKING, LACKING):
        role._take(facts, NEW)
        await role._write("")
    assert not role._ended.is_set()
    assert set(executor.notes) == {renewal.mark(LACKING)}
