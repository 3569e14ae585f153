"""The second run of what failed: `make test AGAIN=1`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.tools import again

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

UNSTEADY = """
from pathlib import Path

def test_fails_once():
    seen = Path(__file__).with_name("seen")
    assert seen.exists() or seen.touch()

def test_passes():
    Path(__file__).with_name("runs").open("a").write("x")
"""
BROKEN = """
def test_fails_always():
    assert False
"""


def whole(folder: Path, text: str) -> None:
    """The whole run, with a failure."""
    (folder / "pytest.ini").touch()
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "test_it.py"]
    assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 1


def test_what_fails_once_is_unsteady_and_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole(tmp_path, UNSTEADY)
    assert again.again(tmp_path) == 0
    told = capfd.readouterr().err
    assert told.endswith("to be looked into:\n  test_it.py::test_fails_once\n")
    assert (tmp_path / "runs").read_text() == "x", "what passed does not run again"


def test_what_a_usual_run_leaves_out_runs_again_too(tmp_path: Path) -> None:
    whole(tmp_path, f"import pytest\npytestmark = pytest.mark.more('it takes long')\n{UNSTEADY}")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -m 'not more'\nmarkers = more(why)\n")
    assert again.again(tmp_path) == 0
    assert (tmp_path / "seen").exists()


def test_what_fails_twice_has_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole(tmp_path, BROKEN)
    assert again.again(tmp_path) == 1
    assert "unsteady" not in capfd.readouterr().err


def test_many_failures_are_no_accident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = tmp_path / again.CACHE
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({f"test_{n}.py::test_it": True for n in range(again.MOST + 1)}))
    assert again.again(tmp_path) == 1
    assert "tests of 6 files failed, of at most 5 they get a second run" in capsys.readouterr().err


def test_a_file_whose_cluster_could_not_be_had_once_is_one_failure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = 'import pytest\n@pytest.fixture(scope="module")\ndef cluster(): test_fails_once()\n'
    tests = "".join(f"def test_{n}(cluster): pass\n" for n in range(again.MOST + 1))
    whole(tmp_path, made + tests + UNSTEADY)
    assert again.again(tmp_path) == 0
    assert f"{again.MOST + 1} tests failed in the whole run" in capfd.readouterr().err


def test_a_run_that_ended_early_gets_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert again.again(tmp_path) == 1
    assert "no test is recorded as failed" in capsys.readouterr().err
