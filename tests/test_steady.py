"""The judge of runs on a busy machine: what it runs, what it believes, and that nothing of it stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.kit import steady
from tests.kit.waiting import PATIENCE, eventually

ROOT = Path(__file__).resolve().parents[1]
GOOD = "==== 3 passed, 1 skipped in 0.10s ===="


def saying(line: str, status: int = 0) -> str:
    """A command that prints a line and ends so."""
    return f"{sys.executable} -c \"print('{line}'); raise SystemExit({status})\""


def judged(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    status = steady.main(["--loops", "0", *argv])
    return status, capsys.readouterr().out


def test_runs_that_pass_are_counted_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = judged(capsys, "--runs", "2", "--command", saying(GOOD))
    assert status == 0
    assert said.count(GOOD) == 2
    assert "run 2: 0 min 00 s, 3 passed, 0 failed, 1 skipped: passed\n" in said
    assert said.endswith("2 of 2 runs passed; the bar: nothing failed, 25 min each\n")


@pytest.mark.parametrize(
    ("line", "status", "bar", "why"),
    [
        ("1 failed, 3 passed in 9.00s", 1, "25", "1 failed"),
        ("3 passed, 2 errors in 9.00s", 1, "25", "2 failed"),
        ("3 passed in 9.00s", 2, "25", "it ended with 2"),
        ("nothing to be done", 0, "25", "it ran no tests, and ended with 0"),
        ("3 passed in 9.00s", 0, "0", "more than 0 min"),
    ],
)
def test_a_run_that_is_not_within_the_bars_is_told_and_is_the_exit_status(
    capsys: pytest.CaptureFixture[str], line: str, status: int, bar: str, why: str
) -> None:
    found, said = judged(capsys, "--runs", "1", "--minutes", bar, "--command", saying(line, status))
    assert found == 1
    assert f": {why}\n" in said
    assert "0 of 1 runs passed" in said


def test_times_that_were_not_judged_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    line = "SKIPPED [1] tests/x.py:1: not judged: the machine is busy: it took 5 s"
    _, said = judged(capsys, "--runs", "1", "--command", saying(f"{line}\\n{GOOD}"))
    assert "3 passed, 0 failed, 1 skipped, 1 not judged by their time: passed\n" in said


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_loops_end_with_it_however_it_ends(number: signal.Signals, status: int) -> None:
    command = ["/usr/bin/env", "--default-signal=INT", sys.executable, "-m", "tests.kit.steady", "--loops=2"]
    command.append("--command=sleep 600")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        started = psutil.Process(process.pid)
        eventually(lambda: len(started.children()) == 3, "two loops and the command")
        children = started.children()
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert psutil.wait_procs(children, timeout=PATIENCE)[1] == []
