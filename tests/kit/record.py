"""How long each test took: printed by room at the end, and written down with `--times=FILE`.

Seconds are wall time of setup, call and teardown together; a room is a folder of `tests`. Nothing is judged by them:
what a busy machine makes slow is not wrong.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.rooms import path_of

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

LONG = 30.0
"""Seconds above which a test of `make test` is marked `slow`, with the reason."""
SLOWEST = 10
NAME = "times of tests"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=Path, help="write what each test took into this file, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker's reports reach the one who started it
        config.pluginmanager.register(Record(), NAME)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What the reports of a test are to tell of it."""
    worker_plane = getattr(item, "funcargs", {}).get("worker_plane")
    if worker_plane is not None and worker_plane.name:
        item.user_properties.append(("plane", worker_plane.name))
    if (slow := item.get_closest_marker("slow")) is not None:
        item.user_properties.append(("slow", slow.args[0]))


class Record:
    """The run's; lives in the process that prints."""

    def __init__(self) -> None:
        """Nothing has run yet."""
        self.began = time.time()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.planes: dict[str, str] = {}
        self.allowed: dict[str, str] = {}
        self.workers: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One of three phases of a test is over."""
        self.seconds[report.nodeid] += report.duration
        self.workers.add(getattr(report, "worker_id", "master"))
        said = dict(report.user_properties)
        if "plane" in said:
            self.planes[path_of(report.nodeid)] = str(said["plane"])
        if "slow" in said:
            self.allowed[report.nodeid] = str(said["slow"])

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter, config: pytest.Config) -> None:
        """Print, and write where a file was named."""
        if not self.seconds:
            return
        terminalreporter.section("times")
        for line in self.lines():
            terminalreporter.write_line(line)
        if (path := config.getoption("--times")) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.facts(), indent=1) + "\n")
            terminalreporter.write_line(f"every test: {path}")

    def lines(self) -> list[str]:
        """Rooms, the slowest, and who is long without saying why."""
        slowest = sorted(self.seconds, key=self.seconds.__getitem__, reverse=True)
        rooms = sorted(self.rooms().items(), key=lambda room: -room[1])
        unmarked = [name for name in slowest if self.seconds[name] > LONG and name not in self.allowed]
        return [
            "  ".join(f"{name} {seconds:.0f} s" for name, seconds in rooms if seconds >= 1),
            *(f"{self.seconds[name]:7.1f} s  {name}" for name in slowest[:SLOWEST]),
            *(f"above {LONG:.0f} s and not marked slow: {name}" for name in unmarked),
        ]

    def rooms(self) -> dict[str, float]:
        """Seconds by room."""
        found: defaultdict[str, float] = defaultdict(float)
        for name, seconds in self.seconds.items():
            parts = Path(path_of(name)).parts
            found[parts[1] if len(parts) > 2 else parts[-1]] += seconds
        return dict(found)

    def facts(self) -> dict[str, Any]:
        """What is written down."""
        files: defaultdict[str, float] = defaultdict(float)
        for name, seconds in self.seconds.items():
            files[path_of(name)] += seconds
        return {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began)),
            "seconds": round(time.time() - self.began, 1),
            "cores": os.cpu_count(),
            "workers": len(self.workers),
            "rooms": {name: round(seconds, 2) for name, seconds in sorted(self.rooms().items())},
            "files": {
                path: {"seconds": round(seconds, 2), "plane": self.planes.get(path, "")}
                for path, seconds in sorted(files.items())
            },
            "tests": {name: round(seconds, 3) for name, seconds in sorted(self.seconds.items())},
        }
