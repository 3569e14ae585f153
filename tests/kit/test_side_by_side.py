"""Which file a worker is given next, how many workers there are, and what is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.kit import record, rooms, side_by_side, usual
from tests.kit.side_by_side import the_next
from tests.kit.usual import File
from tests.kit.waiting import eventually

pytest_plugins = ("pytester",)
USUAL = {
    "big-1.py": File(100, "big"),
    "big-2.py": File(120, "big"),
    "small.py": File(30, "small"),
    "pure-1.py": File(5),
    "pure-2.py": File(60),
}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def usual_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual, "usual", lambda: USUAL)


def test_a_worker_goes_on_with_its_plane_and_takes_the_longest_first() -> None:
    assert the_next(USUAL, "small", ["big"]) == "small.py"
    assert the_next(USUAL, "big", ["big"]) == "big-2.py"
    assert the_next(USUAL, "", ["big"]) == "pure-2.py"


@pytest.mark.parametrize(
    ("others", "queue", "given"),
    [
        (["small"], list(USUAL), "big-2.py"),
        (["big"], list(USUAL), "big-2.py"),  # 110 s for each of two: above the 30 s of the small one
        (["big"] * 9, list(USUAL), "small.py"),
        (["big"] * 11, ["big-1.py", "big-2.py", "pure-1.py"], "pure-1.py"),  # no plane that saves less than it costs
        (["big"] * 11, ["big-1.py", "big-2.py"], "big-2.py"),
        ([], ["unheard-of.py"], "unheard-of.py"),
    ],
)
def test_where_its_plane_has_no_more_files_it_takes_up_the_one_with_most_to_do(
    others: list[str], queue: list[str], given: str
) -> None:
    assert the_next(queue, "none yet", others) == given


def test_files_that_share_a_plane_stand_together_for_one_worker_too() -> None:
    paths = ["pure-1.py", "big-1.py", "small.py", "unheard-of.py", "big-2.py", "pure-2.py"]
    first = rooms.places([path for path in paths for _ in range(2)])
    assert sorted(paths, key=first.__getitem__) == [
        "pure-1.py", "big-1.py", "big-2.py", "small.py", "unheard-of.py", "pure-2.py",
    ]  # fmt: skip


@pytest.mark.parametrize(("cores", "gib", "workers"), [(2, 20, 4), (2, 6, 2), (16, 20, 8), (1, 0.5, 1)])
def test_workers_are_as_many_as_cores_and_memory_bear(
    monkeypatch: pytest.MonkeyPatch, cores: int, gib: float, workers: int
) -> None:
    memory = psutil.virtual_memory()._replace(available=int(gib * side_by_side.GIB))
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert side_by_side.pytest_xdist_auto_num_workers() == workers


def test_workers_have_ports_of_their_own() -> None:
    shares = [side_by_side.share(range(10_000, 32_768), number, 3).split("-") for number in range(3)]
    assert shares == [["10000", "17589"], ["17589", "25178"], ["25178", "32767"]]
    assert side_by_side.share(range(10_000, 10_000), 0, 3) == ""
    assert side_by_side.share(range(10_000, 32_768), 3, 3) == "-".join(shares[0]), "one that came for the first"


CONFTEST = """
import pytest
pytest_plugins = ("tests.kit.rooms", "tests.kit.record", "tests.kit.side_by_side")

class WorkerPlane:
    name = "played"

@pytest.fixture(scope="session")
def worker_plane():
    return WorkerPlane()
"""
ONE = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_good(number):
    pass

def test_bad():
    assert False

@pytest.mark.skip(reason="no tool")
def test_none():
    pass
"""
LONG = """
import os, pathlib, time

def test_it():
    pathlib.Path("pid").write_text(str(os.getpid()))
    time.sleep(600)
"""
TWO = """
def test_asks(worker_plane, request):
    assert request.node.get_closest_marker("cluster")
"""


CRASHES = """
import os

def test_good():
    pass

def test_it():
    os._exit(1)
"""


@pytest.fixture
def played(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\nmarkers =\n    cluster: a plane\n    slow: long\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_one=ONE, test_two=TWO)
    return pytester


def test_a_line_for_each_file_that_is_over_and_for_each_failure(played: pytest.Pytester) -> None:
    done = played.runpytest_subprocess("-n2", "-ra", "-p", "no:asyncio")
    done.assert_outcomes(passed=4, failed=1, skipped=1)
    done.stdout.fnmatch_lines(["FAILED test_one.py::test_bad (call): assert False"])
    done.stdout.fnmatch_lines(["*%  test_one.py  3 passed, 1 failed, 1 skipped  0.* s"])
    done.stdout.fnmatch_lines(["*%  test_two.py  1 passed  0.* s"])
    done.stdout.fnmatch_lines(["SKIPPED * no tool"])


@pytest.mark.parametrize("workers", ["-n2", "-n0"])
def test_what_each_test_took_is_written_down(played: pytest.Pytester, workers: str) -> None:
    done = played.runpytest_subprocess(workers, "-p", "no:asyncio", "--times=below/times.json")
    done.stdout.fnmatch_lines(["*= times =*", "*test_two.py::test_asks"])
    found = json.loads((played.path / "below" / "times.json").read_text())
    assert set(found["tests"]) == {
        *(f"test_one.py::test_good[{number}]" for number in range(3)), "test_one.py::test_bad",
        "test_one.py::test_none", "test_two.py::test_asks",
    }  # fmt: skip
    assert {path: facts["plane"] for path, facts in found["files"].items()} == {
        "test_one.py": "",
        "test_two.py": "played",
    }
    assert set(found["rooms"]) == {"test_one.py", "test_two.py"}
    assert found["workers"] == (2 if workers == "-n2" else 1)


def test_no_worker_outlives_a_run_that_is_killed(played: pytest.Pytester) -> None:
    played.makepyfile(test_long=LONG)
    command = [sys.executable, "-m", "pytest", "-n1", "-p", "no:asyncio", "test_long.py"]
    run = subprocess.Popen(command, cwd=played.path, stdout=subprocess.DEVNULL)
    pid = int(eventually(lambda: (path := played.path / "pid").exists() and path.read_text(), "the test to run"))
    run.kill()
    run.wait()
    eventually(lambda: not psutil.pid_exists(pid), "the worker to end")


def test_a_worker_that_crashes_ends_the_run_and_names_the_test(played: pytest.Pytester) -> None:
    played.makepyfile(test_crash=CRASHES)
    done = played.runpytest_subprocess("-n2", "-p", "no:asyncio")
    assert done.ret == side_by_side.CRASHED
    done.stdout.fnmatch_lines(
        ["*a worker ended while it ran test_crash.py::test_it; the rest of its tests did not run*"]
    )


def test_what_is_long_says_why() -> None:
    told = record.Record()
    told.seconds |= {"tests/a/test_x.py::one": 31.0, "tests/a/test_x.py::two": 32.0, "tests/b/test_y.py::three": 2.0}
    told.allowed["tests/a/test_x.py::two"] = "the real thing takes that long"
    assert told.lines() == [
        "a 63 s  b 2 s",
        "   32.0 s  tests/a/test_x.py::two",
        "   31.0 s  tests/a/test_x.py::one",
        "    2.0 s  tests/b/test_y.py::three",
        "above 30 s and not marked slow: tests/a/test_x.py::one",
    ]
