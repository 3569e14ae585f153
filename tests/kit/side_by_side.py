"""Tests side by side: how many workers, which files each is given, and what is printed meanwhile.

A worker is given whole files, and goes on with those that ask for the control plane that it has; where none is left
it takes up the plane with most left to do. One worker begins with the files that need none: tests that wait for a
cluster leave the processor to those that compute.

`pytest -n N` says how many; `make test` says `-n auto`. All of this is pytest-xdist's, but the choice of the next file
and the lines printed.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, cast

import psutil
import pytest
from xdist.scheduler import LoadScopeScheduling

from sim.controlplane import ports, supervisor
from tests.kit import usual
from tests.kit.rooms import path_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from _pytest.terminal import TerminalReporter

WORKERS_PER_CORE: Final = 2
MEMORY_PER_WORKER: Final = 2.5
"""GiB: a control plane with the module, its webhooks and the worker take 1.5, the largest of tests one more."""
BRING_UP: Final = 20.0
"""Seconds that a plane must save before another worker takes part in its files."""
LEAST_PORTS: Final = 200
CRASHED: Final = 3
"""Exit status of a run that a worker's end broke off; `make test AGAIN=1` repeats what ends with 1 alone."""
GIB: Final = 1 << 30
GOGC: Final = "400"
"""How much garbage Go's programs let come together, in per cent: a fifth of an API server's start, for 100 MB."""
PR_SET_PDEATHSIG: Final = 1
"""Of prctl(2): the signal that a process gets when the thread that started it ends."""
WHY_MAX: Final = 400
"""Characters of what is said of a test that failed."""


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers() -> int:
    """As many as cores and memory bear."""
    by_memory = psutil.virtual_memory().available / GIB / MEMORY_PER_WORKER
    return max(1, min(WORKERS_PER_CORE * (os.cpu_count() or 1), int(by_memory)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return ByPlane(config, log)


def pytest_configure(config: pytest.Config) -> None:
    os.environ[supervisor.OWNER] = str(os.getpid())  # what is up ends with us, however we end
    if (worker := getattr(config, "workerinput", None)) is not None:
        # A run that was killed leaves no workers that go on with what they were given.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.environ.setdefault("GOGC", GOGC)
        os.environ[ports.VARIABLE] = share(ports.usable(), int(worker["workerid"][2:]), worker["workercount"])
    if config.getoption("numprocesses", None) and not config.option.verbose:
        config.pluginmanager.register(Lines(config), "files as they end")


def pytest_handlecrashitem(crashitem: str) -> None:
    """End the run: a worker that goes without a word says nothing of the tests that it was given, nor of why."""
    pytest.exit(f"a worker ended while it ran {crashitem}; the rest of its tests did not run", returncode=CRASHED)


def share(among: range, number: int, count: int) -> str:
    """The ports of one of so many workers; empty where there are too few to share.

    A number beyond them is that of a worker that came for one that ended with nothing left to do.
    """
    size, number = len(among) // count, number % count
    return f"{among[number * size]}-{among[number * size] + size}" if size >= LEAST_PORTS else ""


def the_next(queue: Iterable[str], mine: str, others: Iterable[str]) -> str:
    """The file that a worker is given: `mine`, `others`: the planes that it and the others have; "" for none."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for path in queue:
        files[usual.of(path).plane].append(path)
    if mine not in files:
        at = Counter(others)
        share = {plane: sum(map(_seconds, paths)) / (1 + at[plane]) for plane, paths in files.items()}
        share |= {"": BRING_UP} if "" in files else {}
        mine = max(share, key=share.__getitem__)
    return max(files[mine], key=_seconds)


def _seconds(path: str) -> float:
    return usual.of(path).seconds


class ByPlane(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out files; lives in the process that started the workers."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        """No worker has anything."""
        super().__init__(config, log)
        self._plane: dict[Any, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        return path_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        if node not in self._plane:
            self._plane[node] = "none yet" if self._plane else ""
        others = [plane for other, plane in self._plane.items() if other is not node]
        path = the_next(self.workqueue, self._plane[node], others)
        self._plane[node] = usual.of(path).plane
        self.workqueue.move_to_end(path, last=False)
        super()._assign_work_unit(node)


class Lines:
    """One line for a file when all of it has run, and one for a test that fails, in place of a letter for each test."""

    def __init__(self, config: pytest.Config) -> None:
        """Nothing has run."""
        self._config = config
        self._left: Counter[str] = Counter()
        self._found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._all = 0

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Every worker finds the same tests."""
        self._left = Counter(map(path_of, ids))
        self._all = len(ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, tuple[str, str, Any], tuple[str, str, Any]]:
        """As ever, but for the letter; the summary at the end asks once more, for the word."""
        category, _, word = yield
        return category, "", word

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test is over."""
        path = path_of(report.nodeid)
        self._seconds[path] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._found[path][report.outcome] += 1
        if report.failed:
            self._print(f"FAILED {report.nodeid} ({report.when}): {_why(report)}", red=True)
        if report.when == "teardown":
            self._left[path] -= 1
            if self._left[path] == 0:
                del self._left[path]
                done = 100 * (self._all - self._left.total()) // self._all
                found = ", ".join(f"{count} {word}" for word, count in self._found[path].items())
                self._print(f"{done:3} %  {path}  {found}  {self._seconds[path]:.1f} s")

    def _print(self, line: str, **markup: bool) -> None:
        reporter = cast("TerminalReporter", self._config.pluginmanager.get_plugin("terminalreporter"))
        reporter.ensure_newline()
        reporter.write_line(line, **markup)


def _why(report: pytest.TestReport) -> str:
    """What went wrong, in a line: of a test that passes when it runs once more nothing else is printed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join((crash.message if crash is not None else report.longreprtext).split())[:WHY_MAX]
