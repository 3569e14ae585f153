"""The tool for a person on a node, its flags and its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from sim.nvml import build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.validate.machine import Machine, machine

if TYPE_CHECKING:
    from subprocess import CompletedProcess

ROOT = Path(__file__).resolve().parents[3]
DROPPED = ("HOST_", "NODE_NAME", "KUBERNETES_", "NVIDIA_")
NOTHING = {key: value for key, value in os.environ.items() if not key.startswith(DROPPED)}


def run(at: Machine, *flags: str) -> CompletedProcess[str]:
    command = [sys.executable, "-m", "nodeagent.validate", *flags]
    env = {**NOTHING, **at.environment, **environment(build(), at.nvml)}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=ROOT, env=env)


def test_it_shows_each_check_to_a_person(tmp_path: Path) -> None:
    done = run(machine(tmp_path), "driver", "--once")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines[:-2]] == [
        "cards", "nouveau", "module", "serves", "library", "firmware", "bound", "taken", "devices", "nvml",
    ]  # fmt: skip
    assert lines[-1] == "driver: ok, 8 of 8 cards pass"
    assert all(len(line.split(None, 2)) == 3 for line in lines[:-2])


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_attributes_themselves(tmp_path: Path, form: str, parse) -> None:
    at = machine(tmp_path)
    at.unload()
    done = run(at, "container", "--once", "-o", form)
    assert done.returncode == 1
    made = parse(done.stdout)
    assert (made["container"], made["container.reason"]) == ("failed", "ModuleNotLoaded")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "the following arguments are required: role"),
        (("kernel",), "invalid choice: 'kernel'"),
        (("driver", "--period", "0"), "argument --period: invalid seconds value: '0'"),
        (("driver", "--node", "a", "--kubeconfig", "/nowhere"), "/nowhere"),
    ],
)
def test_a_persons_mistake_is_a_sentence_and_status_2(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    done = run(machine(tmp_path), *flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
