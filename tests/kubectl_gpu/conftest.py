"""`kubectl gpu` as people have it: two programs on PATH, beside the real kubectl."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from kubectl_gpu.main import main
from sim.controlplane import ControlPlane
from sim.view import View
from tests.kit.waiting import PATIENCE
from tests.slice.people import People

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "kubectl-gpu": '-m kubectl_gpu "$@"',
    "kubectl_complete-gpu": "-c 'from kubectl_gpu.completion import run; run()' \"$@\"",
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the console scripts, as pip would lay them."""
    folder = tmp_path_factory.mktemp("bin")
    for name, arguments in PROGRAMS.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" {arguments}\n')
        path.chmod(0o755)
    return folder


@dataclass(frozen=True)
class Kubectl:
    """The real kubectl in one cluster, with our plugin on PATH."""

    plane: ControlPlane
    programs: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.programs), str(Path(self.plane.kubectl).parent), os.environ["PATH"]])
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "NO_COLOR", "_ARGCOMPLETE"))}
        return {**bare, "PATH": path, "KUBECONFIG": str(self.plane.kubeconfig), "LC_ALL": "C.UTF-8", **self.env}

    def run(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """`kubectl <args>`, whatever comes of it."""
        command = [str(self.plane.kubectl), *args]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, check=False, **more
        )

    def gpu(self, *args: str) -> str:
        """The output of a `kubectl gpu` that succeeds."""
        done = self.run("gpu", *args)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stdout + done.stderr
        return done.stdout

    def json(self, *args: str) -> Any:
        return orjson.loads(self.gpu(*args, "-o", "json"))

    def fails(self, *args: str, status: int = 1) -> str:
        """The sentence of a `kubectl gpu` that fails."""
        done = self.run("gpu", *args)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr.removesuffix(f"error: exit status {status}\n").strip()


@pytest.fixture
def kubectl(cluster: ControlPlane, programs: Path) -> Kubectl:
    return Kubectl(cluster, programs)


class Printed(NamedTuple):
    """What a command printed, and how it ended."""

    status: int
    out: str
    err: str


Here = Callable[..., Awaitable[Printed]]
"""A command in this process: a story of several needs no other program's start for each."""


@pytest.fixture
def here(cluster: ControlPlane, capsys: pytest.CaptureFixture[str]) -> Here:
    """Runs `kubectl-gpu <words>` in that cluster."""

    async def run(*words: str) -> Printed:
        capsys.readouterr()
        status = await asyncio.to_thread(main, ["--kubeconfig", str(cluster.kubeconfig), *words])
        return Printed(status, *capsys.readouterr())

    return run


@pytest.fixture
async def people(cluster: ControlPlane, view: View) -> People:
    """Verbs over the shared cluster, whose nodes are ready."""
    made = People(cluster, view)
    await made.ready_nodes()
    return made
