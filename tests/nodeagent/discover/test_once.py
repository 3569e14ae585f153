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

from controllers.api import names
from sim.hardware import load
from sim.nvml import Config, build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.discover.machine import BOOT, Machine

if TYPE_CHECKING:
    from subprocess import CompletedProcess

ROOT = Path(__file__).resolve().parents[3]
UNKNOWN = "System:  of unknown name, kernel unknown, Secure Boot unknown, lockdown unknown, runtime unknown"
NOTHING = {key: value for key, value in os.environ.items() if not key.startswith(("HOST_", "NODE_NAME", "KUBERNETES_"))}


def run(*flags: str, **more: str) -> CompletedProcess[str]:
    command = [sys.executable, "-m", "nodeagent.discover", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=ROOT, env={**NOTHING, **more}
    )


def test_it_shows_a_node_to_a_person(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "h100-8")
    machine.load("580.105.08")
    machine.write("usr/bin/nvidia-ctk")
    machine.write("usr/lib64/libnvidia-container.so.1.17.8")
    config = Config.of(load().shape("h100-sxm-8")).write(tmp_path / "driver")
    done = run("--once", **machine.environment, **environment(build(), config))
    assert done.returncode == 0, done.stderr
    head, first, *rest = done.stdout.splitlines()
    assert head.split() == ["ADDRESS", "IDS", "CLASS", "NUMA", "DRIVER", "MEMORY", "MIG", "PRODUCT", "UUID"]
    assert first.startswith(
        "0000:19:00.0  10de:2330  0302   0     nvidia  81559 MiB  disabled  NVIDIA H100 80GB HBM3  GPU-"
    )
    assert len([line for line in rest if "10de:2330" in line]) == 7
    assert rest[-5:] == [
        "",
        "Driver:  580.105.08, CUDA 13.0 (NVML)",
        "Toolkit: 1.17.8, no runtime handler in containerd's or CRI-O's configuration",
        "No cards, though displays or accelerators: 0000:03:00.0 (102b:0536 class 0300)",
        UNKNOWN,
    ]


def test_it_says_where_the_driver_is_if_not_on_the_host(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "t4")
    machine.load("595.91.07", ("0000:00:1e.0", "Tesla T4", "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584"))
    config = environment(build(), Config.of(load().shape("t4-4")).write(tmp_path / "driver"))
    found = []
    for library in ("usr/lib64", "run/nvidia/driver/usr/lib64"):
        machine.write(f"{library}/libnvidia-ml.so.1")
        told = yaml.safe_load(run("--once", "--output=yaml", **machine.environment, **config).stdout)
        found.append(told["attributes"]["gpu.driver"]["elements"].get("root"))
    assert found == [None, "/run/nvidia/driver"]
    assert " in /run/nvidia/driver (NVML" in run("--once", **machine.environment, **config).stdout


def test_it_says_why_nvml_does_not_answer(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "t4")
    machine.load("595.91.07", ("0000:00:1e.0", "Tesla T4", "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584"))
    config = Config.of(load().shape("t4-4")).also("version_mismatch").write(tmp_path / "driver")
    done = run("--once", **machine.environment, **environment(build(), config))
    assert "Tesla T4" in done.stdout
    assert (
        "Driver:  595.91.07 (/proc alone, since NVML does not answer; RM has detected an NVML/RM version mismatch.)"
        in done.stdout
    )


def test_a_node_without_cards_says_so(tmp_path: Path) -> None:
    done = run("--once", **Machine(tmp_path).environment)
    assert done.stdout.splitlines() == [
        "No cards.",
        "",
        "Driver:  not loaded",
        "Toolkit: not installed",
        "No cards, though displays or accelerators: 0000:01:00.1 (102b:0533 class 0300)",
        UNKNOWN,
    ]


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_report_itself(tmp_path: Path, form: str, parse) -> None:
    machine = Machine(tmp_path, "a10-vfio")
    made = parse(run("--once", "-o", form, **machine.environment).stdout)
    (card,) = made["instances"][names.FEATURE_DEVICE]["elements"]
    assert card["attributes"]["driver"] == "vfio-pci"
    assert made["attributes"][names.FEATURE_AGENT]["elements"]["boot_id"] == BOOT


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--once", "--sys", "/nowhere"), "cannot list /nowhere/bus/pci/devices: No such file or directory. Is --sys"),
        (("--scan-period", "0"), "argument --scan-period: invalid seconds value: '0'"),
        (("--scan-period", "soon"), "argument --scan-period: invalid seconds value: 'soon'"),
        (("--once", "-o", "xml"), "invalid choice: 'xml'"),
        (("--node", "a", "--kubeconfig", "/nowhere"), "/nowhere"),
        ((), "the pod's own credentials"),
    ],
)
def test_a_persons_mistake_is_a_sentence_and_status_2(flags: tuple[str, ...], says: str) -> None:
    done = run(*flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
