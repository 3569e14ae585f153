"""What the driver's own files and the host's folders tell."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nodeagent.discover.feature import report
from nodeagent.host import library, procfs, toolkit
from nodeagent.host.facts.bridge import Observation
from nodeagent.host.facts.records import Bus, Driver, DriverCard, Toolkit
from nodeagent.host.hostfiles import inside
from tests.nodeagent.discover.machine import BOOT, OPEN, PROPRIETARY, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

UUID = "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584"


@pytest.mark.parametrize(
    ("form", "version"),
    [(PROPRIETARY, "535.129.03"), (PROPRIETARY, "384.81"), (OPEN, "580.65.06"), (OPEN, "595.91.07")],
)
def test_both_kinds_of_kernel_module_tell_their_version(tmp_path: Path, form: str, version: str) -> None:
    machine = Machine(tmp_path)
    machine.load(version, ("0000:01:00.0", "NVIDIA GeForce RTX 3090", UUID), form=form)
    assert procfs.read(machine.proc, machine.sys) == Driver(
        version,
        cards={"0000:01:00.0": DriverCard("0000:01:00.0", uuid=UUID, product="NVIDIA GeForce RTX 3090")},
        source="procfs",
        load=procfs.load(machine.sys),
    )


def test_a_driver_that_is_not_loaded_is_no_driver(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert procfs.read(machine.proc, machine.sys) is None
    machine.load("580.65.06")
    assert procfs.read(machine.proc, machine.sys) is not None
    machine.unload()
    assert procfs.read(machine.proc, machine.sys) is None


def test_sysfs_tells_of_the_module_where_its_proc_files_are_hidden(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    module = machine.module
    module.mkdir()
    load = procfs.load(machine.sys)
    assert load
    assert procfs.read(machine.proc, machine.sys) == Driver("", source="procfs", load=load, failed=("version",))
    (module / "version").write_text("550.54.15\n")
    assert procfs.read(machine.proc, machine.sys) == Driver("550.54.15", source="procfs", load=load)


def test_a_copy_in_proc_outlives_neither_the_module_nor_its_version(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    card = ("0000:01:00.0", "Tesla T4", UUID)
    machine.load("535.129.03", card)
    assert procfs.believed(machine.proc, machine.sys)
    (machine.module / "version").write_text("580.65.06\n")
    load = procfs.load(machine.sys)
    assert procfs.read(machine.proc, machine.sys) == Driver("580.65.06", source="procfs", load=load)
    assert not procfs.believed(machine.proc, machine.sys)
    machine.unload_behind_a_copy()
    assert procfs.information(machine.proc)
    assert procfs.read(machine.proc, machine.sys) is None
    assert not procfs.believed(machine.proc, machine.sys)


def test_proc_is_asked_alone_where_modules_cannot_be_seen(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.load("580.65.06", ("0000:01:00.0", "Tesla T4", UUID))
    shutil.rmtree(machine.module.parent)
    found = procfs.read(machine.proc, machine.sys)
    assert found is not None
    assert (found.version, list(found.cards)) == ("580.65.06", ["0000:01:00.0"])
    shutil.rmtree(machine.proc / "driver")
    assert procfs.read(machine.proc, machine.sys) is None


def test_what_the_driver_has_not_read_from_a_card_is_unknown(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    blank = ("0000:02:00.0", "Unknown", "GPU-????????-????-????-????-????????????")
    machine.load("580.65.06", ("0000:01:00.0", "Tesla T4", UUID), blank)
    (tmp_path / "proc/driver/nvidia/gpus/0000:03:00.0").mkdir()
    (tmp_path / "proc/driver/nvidia/gpus/junk").mkdir()
    found = procfs.read(machine.proc, machine.sys)
    assert found is not None
    assert found.cards["0000:02:00.0"] == DriverCard("0000:02:00.0")
    assert found.cards["0000:03:00.0"] == DriverCard("0000:03:00.0")
    assert sorted(found.cards) == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]


def test_the_boot_has_an_id(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert procfs.boot_id(machine.proc) == BOOT
    (machine.proc / "sys/kernel/random/boot_id").write_text("no id\n")
    assert procfs.boot_id(machine.proc) == ""


def test_mig_instances_show_in_proc(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert procfs.layout(machine.proc) == ()
    (machine.proc / "driver/nvidia/capabilities/gpu0/mig/gi1/ci0").mkdir(parents=True)
    assert procfs.layout(machine.proc) == ("gpu0/mig/gi1",)


def test_links_of_the_host_stay_inside_its_root(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.129.03", "it")
    folder = machine.root / "usr/lib/x86_64-linux-gnu"
    (machine.root / "etc/alternatives").mkdir(parents=True)
    (folder / "libnvidia-ml.so.1").symlink_to("/etc/alternatives/ml")
    (machine.root / "etc/alternatives/ml").symlink_to("/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1")
    (folder / "nvidia/current/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.535.129.03")
    (machine.root / "usr/lib64").symlink_to("lib/x86_64-linux-gnu")
    (machine.root / "up").symlink_to("../../../../../../../etc/hostname")
    (machine.root / "round").symlink_to("round")
    real = folder / "nvidia/current/libnvidia-ml.so.535.129.03"
    assert library.candidates([machine.root], "535.129.03") == [real]
    assert inside(machine.root, "up") is None
    assert inside(machine.root, "round") is None
    assert inside(machine.root, "../../etc") == machine.root / "etc"


def test_the_library_of_the_loaded_module_is_tried_first(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for folder, version in (("usr/lib/x86_64-linux-gnu", "535.1"), ("usr/lib64", "580.2")):
        machine.write(f"{folder}/libnvidia-ml.so.{version}")
        (machine.root / folder / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{version}")
    found = [path.name for path in library.candidates([machine.root], "580.2")]
    assert found == ["libnvidia-ml.so.580.2", "libnvidia-ml.so.535.1"]
    assert [path.name for path in library.candidates([machine.root], "")] == found[::-1]


V2 = """
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}.options]
      BinaryName = "{program}"
"""
V3 = """
version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}.options]
BinaryName = '{program}'
"""
CRIO = '[crio.runtime.runtimes.{name}]\nruntime_path = "{program}"\nruntime_type = "oci"\n'
PROGRAM = "/usr/bin/nvidia-container-runtime"


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("etc/containerd/config.toml", V2),
        ("etc/containerd/config.toml", V3),
        ("etc/containerd/conf.d/99-nvidia.toml", V3),
        ("etc/crio/crio.conf.d/99-nvidia.toml", CRIO),
        ("var/lib/rancher/k3s/agent/etc/containerd/config.toml", V2),
    ],
)
def test_the_handler_is_found_in_every_runtimes_configuration(tmp_path: Path, path: str, form: str) -> None:
    machine = Machine(tmp_path)
    machine.write("usr/bin/nvidia-container-runtime")
    machine.write(path, form.format(name="nvidia", program=PROGRAM))
    assert toolkit.read(machine.root) == Toolkit(installed=True, runtime_handler="nvidia")


def test_other_runtimes_are_no_handler_and_the_usual_name_wins(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("usr/local/nvidia/toolkit/nvidia-container-runtime")
    for name, program in (("runc", "/usr/bin/runc"), ("nvidia-cdi", f"{PROGRAM}.cdi")):
        machine.write(f"etc/containerd/conf.d/{name}.toml", V3.format(name=name, program=program))
    assert toolkit.read(machine.root) == Toolkit(installed=True)
    machine.write("etc/containerd/conf.d/a.toml", V3.format(name="gpu", program=PROGRAM))
    assert toolkit.read(machine.root) == Toolkit(installed=True, runtime_handler="gpu")
    machine.write("etc/containerd/conf.d/z.toml", V3.format(name="nvidia", program=PROGRAM))
    assert toolkit.read(machine.root) == Toolkit(installed=True, runtime_handler="nvidia")


@pytest.mark.parametrize("garbage", ["= = =", "version = 2\n[plugins]\nruntimes = 7", "runtimes = [1]", "\x00\xff", ""])
def test_a_configuration_that_is_garbage_costs_the_handler_only(tmp_path: Path, garbage: str) -> None:
    machine = Machine(tmp_path)
    machine.write("usr/bin/nvidia-ctk")
    machine.write("etc/containerd/config.toml", garbage)
    machine.write("usr/lib64/libnvidia-container.so.1.17.8")
    assert toolkit.read(machine.root) == Toolkit(installed=True, version="1.17.8")


STATUS = """Package: nvidia-container-runtime-hook
Status: install ok installed
Version: 9.9.9-1

Package: nvidia-container-toolkit-base
Status: deinstall ok config-files
Version: 1.13.5-1

Package: nvidia-container-toolkit
Status: install ok installed
Priority: optional
Architecture: amd64
Version: 1.17.4-1
Depends: nvidia-container-toolkit-base (= 1.17.4-1)

Package: zlib1g
Status: install ok installed
Version: 1:1.2.13
"""


def test_the_version_is_dpkgs_where_there_is_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("usr/bin/nvidia-ctk")
    machine.write("usr/lib/x86_64-linux-gnu/libnvidia-container.so.1.16.2")
    machine.write("var/lib/dpkg/status", STATUS)
    assert toolkit.read(machine.root) == Toolkit(installed=True, version="1.17.4")
    machine.write("var/lib/dpkg/status", STATUS.replace("install ok installed", "deinstall ok config-files"))
    assert toolkit.read(machine.root) == Toolkit(installed=True, version="1.16.2")


def test_a_host_without_the_toolkit_says_so_and_one_that_cannot_be_seen_says_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert toolkit.read(machine.root) == Toolkit(installed=False)
    assert toolkit.read(tmp_path / "nowhere") is None


@pytest.fixture
def visible() -> Iterator[Machine]:
    """A machine in a folder that every user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Machine(Path(folder))


@contextmanager
def ordinary() -> Iterator[None]:
    """As an ordinary user, whom closed files are closed to."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(64535)
    try:
        yield
    finally:
        if me == 0:
            os.seteuid(me)


def toolkit_told(machine: Machine) -> Observation:
    with ordinary():
        return report.observe(Bus(), None, toolkit.read(machine.root)).toolkit


def test_a_configuration_that_is_closed_to_us_is_not_one_without_a_handler(visible: Machine) -> None:
    visible.write("usr/bin/nvidia-ctk")
    visible.write("usr/lib64/libnvidia-container.so.1.17.8")
    file = visible.write("etc/containerd/config.toml", V2.format(name="nvidia", program=PROGRAM))
    file.chmod(0)
    installed = {"installed": "true", "version": "1.17.8"}
    assert toolkit_told(visible) == Observation(installed, frozenset({"runtime_handler"}))
    visible.write("etc/containerd/conf.d/99.toml", V3.format(name="nvidia", program=PROGRAM))
    assert toolkit_told(visible) == Observation({**installed, "runtime_handler": "nvidia"})
    (visible.root / "etc/containerd/conf.d").chmod(0)
    file.chmod(0o644)
    assert toolkit_told(visible) == Observation({**installed, "runtime_handler": "nvidia"})
    file.unlink()
    assert toolkit_told(visible) == Observation(installed, frozenset({"runtime_handler"}))


def test_a_folder_of_libraries_that_is_closed_to_us_leaves_the_version_untold(visible: Machine) -> None:
    visible.write("usr/bin/nvidia-ctk")
    visible.write("usr/lib64/libnvidia-container.so.1.17.8")
    (visible.root / "usr/lib64").chmod(0)
    assert toolkit_told(visible) == Observation({"installed": "true"}, frozenset({"version"}))
    visible.write("var/lib/dpkg/status", STATUS)
    assert toolkit_told(visible) == Observation({"installed": "true", "version": "1.17.4"})


def test_programs_that_are_closed_to_us_are_no_claim_that_there_is_no_toolkit(visible: Machine) -> None:
    visible.write("usr/bin/nvidia-ctk")
    (visible.root / "usr/bin").chmod(0)
    assert toolkit_told(visible) == Observation(unknown_fields=report.TOOLKIT_ATTRIBUTES)
    (visible.root / "usr/bin").chmod(0o755)
    (visible.root / "usr/bin/nvidia-ctk").unlink()
    assert toolkit_told(visible) == Observation({"installed": "false"})
