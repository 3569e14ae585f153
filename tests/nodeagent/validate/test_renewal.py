"""A container that lacks device nodes of MIG instances ends itself, so that it is made anew: once for the same want."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import validation
from nodeagent.host import procfs
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.paths import HostPaths
from nodeagent.validate.checks import renewal, report
from nodeagent.validate.scanner import NodeScanner
from sim.nvml import build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.validate.machine import Machine, machine

if TYPE_CHECKING:
    from pathlib import Path

    from nodeagent.validate.checks.facts import Facts


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = machine(tmp_path)
    for name, value in environment(build(), made.nvml).items():
        monkeypatch.setenv(name, value)
    return made


async def look(at: Machine, *, cdi: bool, role: str = validation.CONTAINER, proc: Path | None = None) -> Facts:
    asker = DriverProbe(lambda: (at.own,), Timing(deadline=PATIENCE))
    variables = {"NVIDIA_VISIBLE_DEVICES": "void" if cdi else "all"}
    facts = await NodeScanner(role, HostPaths(at.sys, proc or at.proc, at.root), asker, at.own, variables).look()
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
