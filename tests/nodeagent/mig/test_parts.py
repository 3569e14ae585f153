"""The parts under the manager: the driver's word, the lock, the memory, and programs that misbehave."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from controllers.domain.mig import DISABLED, CardLayout
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.facts.records import Driver, DriverCard
from nodeagent.host.output import TEXT_MAX
from nodeagent.host.paths import HostPaths
from nodeagent.mig import scanner, tools
from nodeagent.mig.cards.records import Attempt
from nodeagent.mig.files import JOURNAL, Journal, Lock, Taken
from nodeagent.mig.tools import Outcome, Programs
from tests.kit.waiting import PATIENCE

FIRST, SECOND, THIRD = (f"0000:{bus}:00.0" for bus in ("07", "0f", "47"))
SEVEN = CardLayout(True, {"1g.5gb": 7})


def driver(**cards: DriverCard | None) -> tuple[Driver, Driver]:
    """What the driver's files list, and what it answers for."""
    names = (FIRST, SECOND, THIRD)
    told = {name: card or DriverCard(name) for name, card in zip(names, cards.values(), strict=True)}
    return Driver("1", cards=told), Driver("1", cards={n: c for n, c in told.items() if cards[f"c{names.index(n)}"]})


def card(address: str, **facts: object) -> DriverCard:
    return DriverCard(address, **{"mig_capable": True, "mig_enabled": False, **facts})  # type: ignore[arg-type]


def test_cards_are_numbered_by_address() -> None:
    told = scanner.driver_reports(*driver(c0=card(FIRST), c1=card(SECOND), c2=card(THIRD)))
    assert {address: one.index for address, one in told.items()} == {FIRST: 0, SECOND: 1, THIRD: 2}


def test_after_a_card_that_does_not_answer_no_number_is_sure() -> None:
    told = scanner.driver_reports(*driver(c0=card(FIRST), c1=None, c2=card(THIRD)))
    assert {address: one.index for address, one in told.items()} == {FIRST: 0, THIRD: None}


@pytest.mark.parametrize(
    ("facts", "layout"),
    [
        ({}, DISABLED),
        ({"mig_enabled": True, "mig_instances": {"1g.5gb": 7}}, SEVEN),
        ({"mig_enabled": True}, CardLayout(True)),
        ({"mig_enabled": True, "failed": ("mig_instances",)}, None),
        ({"mig_enabled": None, "mig_capable": None}, None),
        ({"mig_enabled": None, "mig_capable": False}, DISABLED),
    ],
)
def test_how_a_card_is_divided(facts: dict[str, object], layout: CardLayout | None) -> None:
    told = scanner.driver_reports(*driver(c0=card(FIRST, **facts), c1=card(SECOND), c2=card(THIRD)))
    assert told[FIRST].layout == layout


def test_the_hosts_library_comes_alone(tmp_path: Path) -> None:
    """The folder where it lies has the host's libc too."""
    libraries = tmp_path / "root" / "usr" / "lib64"
    libraries.mkdir(parents=True)
    for name in ("libnvidia-ml.so.1", "libc.so.6"):
        (libraries / name).touch()
    where, state = HostPaths(root=tmp_path / "root", proc=tmp_path, sys=tmp_path), tmp_path / "state"
    state.mkdir()
    for _ in range(2):
        found = scanner.library_folder(where, state)
        assert found is not None
        assert [path.name for path in found.iterdir()] == ["libnvidia-ml.so.1"]
        assert (found / "libnvidia-ml.so.1").resolve() == libraries / "libnvidia-ml.so.1"
    assert scanner.library_folder(HostPaths(proc=tmp_path, sys=tmp_path), state) is None


def test_a_loading_of_the_driver_is_told_from_another_one_of_the_same_boot(tmp_path: Path) -> None:
    module, boot = tmp_path / "sys/module/nvidia", tmp_path / "proc/sys/kernel/random/boot_id"
    for folder in (module, module.with_name("again"), boot.parent):
        folder.mkdir(parents=True)
    boot.write_text("0c57a7d8-8bd0-4a4c-9e55-0d6a0e9a1c11\n")
    host = scanner.HostScanner(HostPaths(proc=tmp_path / "proc", sys=tmp_path / "sys"), DriverProbe([], Timing()))

    first = asyncio.run(host.collect_evidence(())).loading
    assert first is not None
    assert first.boot == "0c57a7d8-8bd0-4a4c-9e55-0d6a0e9a1c11"
    os.utime(module, (1, 1))
    assert asyncio.run(host.collect_evidence(())).loading == first
    module.rmdir()
    assert asyncio.run(host.collect_evidence(())).loading is None, "no driver is loaded"
    module.with_name("again").rename(module)
    second = asyncio.run(host.collect_evidence(())).loading
    assert second is not None
    assert (second.boot, second.driver != first.driver) == (first.boot, True)


def test_one_has_the_lock(tmp_path: Path) -> None:
    with Lock(tmp_path).held(), pytest.raises(Taken), Lock(tmp_path).held():
        pass
    with Lock(tmp_path).held():
        pass


def test_what_is_remembered(tmp_path: Path) -> None:
    attempts = {FIRST: Attempt("v", SEVEN, 2, "why"), SECOND: Attempt("w", DISABLED)}
    assert Journal(tmp_path).read() == {}
    Journal(tmp_path).write(attempts)
    assert Journal(tmp_path).read() == attempts
    Journal(tmp_path).write({})
    assert Journal(tmp_path).read() == {}


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"version": "v"}}'])
def test_a_spoiled_memory_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / JOURNAL).write_text(text)
    assert Journal(tmp_path).read() == {}


def ran(folder: Path, code: str, deadline: float = PATIENCE) -> Outcome:
    """How a program of that code ends."""
    program = folder / "nvidia-mig-parted"
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return asyncio.run(Programs(str(program), "x", Lock(folder), deadline).check("a: 1\n"))


def test_a_program_gets_the_document(tmp_path: Path) -> None:
    assert ran(tmp_path, "import sys; print(sys.argv[1:], sys.stdin.read())") == Outcome(
        ok=True, text="['assert', '--config-file', '-'] a: 1"
    )


def test_the_end_of_what_a_program_says_is_kept(tmp_path: Path) -> None:
    outcome = ran(tmp_path, "import sys\nfor n in range(99999): print('line', n)\nsys.exit('the cause')")
    assert not outcome.ok
    assert outcome.text.startswith("nvidia-mig-parted assert: ")
    assert "line 99998" in outcome.text
    assert len(outcome.text) < TEXT_MAX + 50


def test_a_program_that_reads_nothing_and_dies(tmp_path: Path) -> None:
    outcome = ran(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert outcome == Outcome(ok=False, text="nvidia-mig-parted assert: ended by signal 9; ")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    outcome = asyncio.run(Programs("/nowhere/x", "/nowhere/smi", Lock(tmp_path), 1.0).reset(FIRST))
    assert outcome == Outcome(ok=False, text="smi --gpu-reset cannot be started: No such file or directory")


def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    code = "import subprocess, sys, time, pathlib; child = subprocess.Popen(['sleep', '60']);"
    code += f"pathlib.Path({str(mark)!r}).write_text(str(child.pid)); time.sleep(60)"
    outcome = ran(tmp_path, code, deadline=5)
    assert outcome.text == "nvidia-mig-parted assert did not end in 5 s and was killed"
    state = Path("/proc") / mark.read_text() / "stat"
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_its_environment(tmp_path: Path) -> None:
    given = {"PATH": "/bin", "MIG_PARTED_SKIP_RESET": "false", "LD_LIBRARY_PATH": "/x"}
    assert tools.environment(given, tmp_path) == {"PATH": "/bin", "LD_LIBRARY_PATH": f"{tmp_path}:/x"}
    assert tools.environment({"PATH": "/bin"}, None) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("text", "busy"),
    [("GPU is currently in use by another client", True), ("ERROR_IN_USE", True), ("refused", False)],
)
def test_whether_somebody_holds_the_card(tmp_path: Path, text: str, busy: bool) -> None:
    """Also where much is said after it: mig-parted ends with "all orderings failed", whatever the reason was."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{text}'\nseq 1000\nexit $1\n")
    program.chmod(0o755)
    run = Programs("", str(program), Lock(tmp_path), PATIENCE)._run
    failed, ended = (asyncio.run(run(str(program), status)) for status in ("1", "0"))
    assert (failed.ok, failed.busy) == (False, busy)
    assert (ended.ok, ended.busy) == (True, False)
