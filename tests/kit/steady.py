"""Whether the tests pass on a busy machine: `make test` several times in a row, with loops beside it that only compute.

Run as `python -m tests.kit.steady`. Each run's output goes by as it comes; after each run, and for all of them at the
end, it prints what they took and found, and whether that is within the bars. Ends with 0 only where all runs are.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

BAR: Final = 25.0
"""Minutes that a run may take on two cores with two loops beside it."""
TEARDOWN: Final = 120.0
"""Seconds for an interrupted run to end."""
COUNTED: Final = ("passed", "failed", "error", "skipped")
SUMMARY: Final = re.compile(r"\d+ (?:passed|failed|errors?|skipped)\b.* in \d")
"""The last line of pytest."""
NOT_JUDGED: Final = "not judged: the machine is busy"


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its seconds, its exit status, and what pytest counted."""

    seconds: float
    status: int
    counts: dict[str, int]
    not_judged: int = 0
    """Lines that tell of a time which was not judged."""

    def verdict(self, bar: float) -> str:
        """Empty where it is within the bars; `bar`: in minutes."""
        if not any(self.counts.values()):
            return f"it ran no tests, and ended with {self.status}"
        if bad := self.counts["failed"] + self.counts["error"]:
            return f"{bad} failed"
        if self.status:
            return f"it ended with {self.status}"
        return f"more than {bar:g} min" if self.seconds > 60 * bar else ""

    def line(self, bar: float) -> str:
        """All of it, for a person."""
        counts = ", ".join(f"{self.counts[word]} {word}" for word in COUNTED if word != "error" or self.counts[word])
        minutes, seconds = divmod(round(self.seconds), 60)
        unjudged = f", {self.not_judged} not judged by their time" if self.not_judged else ""
        return f"{minutes} min {seconds:02} s, {counts}{unjudged}: {self.verdict(bar) or 'passed'}"


@contextmanager
def beside(loops: int) -> Iterator[None]:
    """So many processes that only compute, until the end, however that comes."""
    started = []
    try:
        for _ in range(loops):
            with unbroken():
                started.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


@contextmanager
def unbroken() -> Iterator[None]:
    """Signals that come meanwhile count at its end: what has just been started is known by then, and ended with us."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda which, _: came.append(which)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for found in came:
            signal.raise_signal(found)


def run(command: Sequence[str]) -> Run:
    """Run it once, and show what it says."""
    began, counts, not_judged = time.monotonic(), dict.fromkeys(COUNTED, 0), 0
    process: subprocess.Popen[str] | None = None
    try:
        with unbroken():
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
            )
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            not_judged += NOT_JUDGED in line
            if SUMMARY.search(line):
                counts = {word: _count(line, word) for word in COUNTED}
        process.communicate()
    except BaseException:
        if process is not None:
            _interrupt(process)
        raise
    return Run(time.monotonic() - began, process.returncode, counts, not_judged)


def _interrupt(process: subprocess.Popen[str]) -> None:
    """End it with all that it started, as Ctrl-C does: tests take their control planes down."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.communicate(timeout=TEARDOWN)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def _count(line: str, word: str) -> int:
    found = re.search(rf"(\d+) {word}", line)
    return int(found[1]) if found else 0


def _ended(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def main(argv: Sequence[str] | None = None) -> int:
    """Run them; returns the exit status."""
    parser = argparse.ArgumentParser(
        "python -m tests.kit.steady",
        description="Run the tests several times on a machine that is kept busy, and judge each run: nothing failed,"
        " and not longer than the bar. Takes an hour and more as it stands.",
        epilog="Exit status: 0 where every run passed, 1 where one did not, 130 after an interrupt. The loops end with"
        " the command, also when it is interrupted.",
    )
    parser.add_argument("--runs", type=int, default=3, help="how often, one after another (%(default)s)")
    parser.add_argument("--loops", type=int, default=2, help="processes beside it that only compute (%(default)s)")
    parser.add_argument("--minutes", type=float, default=BAR, help="the bar of one run (%(default)g)")
    parser.add_argument(
        "--command", type=shlex.split, default=["make", "test"], help="what is run, in quotes (make test)"
    )
    args = parser.parse_args(argv)
    if args.runs < 1 or args.loops < 0:
        parser.error("--runs is at least 1, and --loops at least 0")
    runs: list[Run] = []
    try:
        with beside(args.loops):
            for number in range(1, args.runs + 1):
                runs.append(run(args.command))
                _say(f"run {number} of {args.runs}, {args.loops} loops beside: {runs[-1].line(args.minutes)}")
    except KeyboardInterrupt:
        _say(f"interrupted after {len(runs)} of {args.runs} runs")
        return 130
    good = sum(not each.verdict(args.minutes) for each in runs)
    for number, each in enumerate(runs, 1):
        _say(f"run {number}: {each.line(args.minutes)}")
    _say(f"{good} of {args.runs} runs passed; the bar: nothing failed, {args.minutes:g} min each")
    return 0 if good == args.runs else 1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _ended)  # else the loops would go on
    sys.exit(main())
