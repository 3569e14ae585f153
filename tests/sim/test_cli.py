"""The command line behind the Makefile: what a person types, and types wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from controllers.api import names
from sim.__main__ import main

ROOT = Path(__file__).resolve().parents[2]


def run(*argv: str, timeout: float = 180) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sim", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["up", "--nodes", "many"], 2, "0 or more, got 'many'"),
        (["up", "--profile", "h200"], 1, "one of a100-sxm-8"),
        (["up", "--profile", "t4-4=two"], 1, "cannot read the profile"),
        (["fly"], 2, "invalid choice"),
        ([], 2, "COMMAND"),
    ],
)
def test_a_mistake_is_answered_in_a_sentence(tmp_path: Path, argv: list[str], status: int, words: str) -> None:
    done = run("--dir", str(tmp_path), *argv)

    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_down_and_status_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dir", str(tmp_path), "down"]) == 0
    assert main(["--dir", str(tmp_path), "status"]) == 3
    assert "nothing is up" in capsys.readouterr().out


@pytest.mark.cluster
def test_the_demo_tells_the_story_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("--dir", str(tmp_path / "run"), "demo")

    assert done.returncode == 0, done.stdout + done.stderr
    for word in (names.INSUFFICIENT_CAPACITY, names.ACCESS_DENIED, f"{names.ASSIGNMENT}=training", "kube-scheduler"):
        assert word in done.stdout
    left = [p.pid for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]
    assert left == []
    assert not (tmp_path / "run").exists()
