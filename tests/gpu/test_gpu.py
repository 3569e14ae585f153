"""`make gpu` on a simulated machine, without one, and on the machines whose recordings are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sim.nvml import build, environment
from tests.gpu import recording
from tests.kit.waiting import PATIENCE
from tests.nodeagent.validate.machine import machine

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tests.nodeagent.validate.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
RECORD = "make gpu && cp .run/gpu/recording.json tests/data/gpu/<machine>.json"
RECORDINGS = sorted((ROOT / "tests" / "data" / "gpu").glob("*.json"))


def run(at: Machine) -> CompletedProcess[str]:
    flags = [f"--sys={at.sys}", f"--proc={at.proc}", f"--root={at.root}", f"--own-root={at.own}"]
    flags += [f"--dev={at.own / 'dev'}", f"--keep={at.folder / 'recording.json'}"]
    variables = {**os.environ, **environment(build(), at.nvml), "PATH": str(Path(sys.executable).parent)}
    command = [sys.executable, "-m", "tests.gpu", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=ROOT, env=variables
    )


def results(done: CompletedProcess[str]) -> dict[str, str]:
    """What came of each step, by its name."""
    lines = done.stdout.partition("\n\n")[0].splitlines()
    return {line[9:28].strip(): line[:8].strip() for line in lines}


def test_every_step_on_a_machine_with_cards(tmp_path: Path) -> None:
    at = machine(tmp_path, shape="mixed-2")
    at.config.partitioned("0000:d8:00.0", ("1g.5gb", 0), ("2g.10gb", 2)).write(at.nvml)
    done = run(at)
    assert results(done) == {
        "discover": "ok", "validate driver": "ok", "validate container": "ok", "health": "ok", "CDI": "not run",
        "device plugin": "ok",
    }, done.stdout + done.stderr  # fmt: skip
    assert done.returncode == 0
    assert "3 devices, each given to a pod" in done.stdout
    kept = json.loads((at.folder / "recording.json").read_text())
    assert kept["steps"]["validate container"]["kept"]["container.cards"] == "2"
    made, now = recording.features(at.folder / "recording.json")
    assert made == now


def test_what_fails_fails_it(tmp_path: Path) -> None:
    at = machine(tmp_path, shape="mixed-2")
    at.config.also("cuda cuInit 803").write(at.nvml)
    done = run(at)
    assert done.returncode == 1
    assert results(done)["validate container"] == "failed"
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in done.stdout


@pytest.mark.parametrize(("shape", "driver"), [("no-gpu", False), ("mixed-2", False)])
def test_without_a_card_or_a_driver_it_is_not_run(tmp_path: Path, shape: str, driver: bool) -> None:
    at = machine(tmp_path, shape="mixed-2", driver=driver)
    if shape == "no-gpu":
        for link in (at.sys / "bus" / "pci" / "devices").iterdir():
            link.unlink()
    done = run(at)
    assert (done.returncode, done.stdout[:7]) == (0, "not run"), done.stderr
    assert not (at.folder / "recording.json").exists()


@pytest.mark.skipif(not RECORDINGS, reason=f"no real card is recorded; on a machine with one: {RECORD}")
@pytest.mark.parametrize("path", RECORDINGS or [Path("none")], ids=lambda path: path.stem)
def test_a_recorded_machine_is_reported_as_it_was(path: Path) -> None:
    made, now = recording.features(path)
    assert made == now
