"""What the machine gave is added up over threads that come and end, and is this machine's own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reliability.faults import machine
from reliability.faults.machine import Given, Meter
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000


class Machine:
    """As much of /proc as is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pids: list[int] = [7]

    def thread(self, pid: int, tid: int, ran: int, waited: int) -> None:
        place = self.folder / str(pid) / "task" / str(tid)
        place.mkdir(parents=True, exist_ok=True)
        (place / "schedstat").write_text(f"{ran * SECOND} {waited * SECOND} 9\n")

    def ends(self, pid: int, tid: int) -> None:
        (self.folder / str(pid) / "task" / str(tid) / "schedstat").unlink()

    def meter(self) -> Meter:
        made = Meter(lambda: self.pids, self.folder)
        made.begin()
        return made


def test_only_what_came_since_the_begin_counts(tmp_path: Path) -> None:
    box = Machine(tmp_path)
    box.thread(7, 7, 100, 40)
    meter = box.meter()
    box.thread(7, 7, 102, 43)

    assert meter.given() == Given(2.0, 3.0)
    assert meter.given().wait == 1.5
    meter.begin()
    assert meter.given() == Given(0.0, 0.0)


def test_threads_and_processes_that_come_count_from_their_own_begin(tmp_path: Path) -> None:
    box = Machine(tmp_path)
    box.thread(7, 7, 100, 40)
    meter = box.meter()
    box.thread(7, 8, 1, 2)
    box.thread(9, 9, 3, 4)
    box.pids = [7, 9, 0]

    assert meter.given() == Given(4.0, 6.0)


async def test_what_a_program_had_before_it_ended_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PERIOD", 0.001)
    box = Machine(tmp_path)
    box.thread(7, 7, 1, 0)
    meter = box.meter()
    following = asyncio.create_task(meter.follow())
    box.thread(7, 7, 2, 5)
    await until(lambda: meter._last == {(7, 7): (2 * SECOND, 5 * SECOND)}, "the thread to be looked at")
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    box.ends(7, 7)

    assert meter.given() == Given(1.0, 5.0)
    box.pids = [8]
    assert meter.given() == Given(1.0, 5.0)


def test_where_linux_keeps_no_account_nothing_was_waited_for(tmp_path: Path) -> None:
    box = Machine(tmp_path)
    (tmp_path / "7" / "task" / "7").mkdir(parents=True)

    assert box.meter().given().wait == 0.0


@pytest.mark.skipif(not (machine.PROC / "self" / "schedstat").exists(), reason="this Linux keeps no account")
def test_programs_that_share_one_core_wait_for_each_other() -> None:
    """Real ones: both always want it, so that one waits while the other runs."""
    spin = f"import os\nos.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nwhile True:\n    pass"
    programs = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
    meter = Meter(lambda: [program.pid for program in programs])
    try:
        meter.begin()
        while meter.given().ran < 0.5:
            assert all(program.poll() is None for program in programs)
        found = meter.given()
    finally:
        for program in programs:
            program.kill()
            program.wait()

    assert found.wait > 0.5
