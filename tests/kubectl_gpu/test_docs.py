"""docs/kubectl-gpu.md: its commands are commands, and what it says of rights and statuses is what there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from controllers.api.gpudevice import DeviceState
from kubectl_gpu.parser import KINDS, STATES, WORKLOADS, build

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "kubectl-gpu.md").read_text(encoding="utf-8")
TYPED = re.findall(r"^\$ kubectl gpu (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", TYPED)
def test_each_command_is_one(line: str) -> None:
    assert build().parse_args(shlex.split(line)).command in line


def test_the_states_are_those_of_cards() -> None:
    assert get_args(DeviceState) == STATES


def test_each_kind_of_command_is_shown() -> None:
    assert {line.split()[0] for line in TYPED} == {
        "nodes", "cards", "pools", "queue", "release", "assign", "unassign", "explain", "export", "apply", "kueue",
        "versions", "driver", "timeline", "backup", "restore", "import", "images",
    }  # fmt: skip
    shown = {line.split()[1] for line in TYPED if line.startswith("explain")}
    assert {"pod", "card", "pool", "deployment"} <= shown <= {*KINDS, *WORKLOADS}
