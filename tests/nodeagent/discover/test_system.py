"""What the host's files tell of its system, kernels, Secure Boot and runtime, and what they leave unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names, system_facts
from controllers.api.system_facts import SystemFacts
from nodeagent.discover.feature import confirm, report
from nodeagent.host import sysfs, system
from nodeagent.host.facts.records import Bus, System
from nodeagent.host.hostfiles import Reader
from nodeagent.host.paths import HostPaths
from tests.nodeagent.discover.machine import BOOT, Machine

if TYPE_CHECKING:
    from pathlib import Path

UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.2 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n'
RUNNING, NEWER = "6.8.0-71-generic", "6.8.0-100-generic"


def look(machine: Machine) -> System:
    where = HostPaths(machine.sys, machine.proc, machine.root)
    return system.read(where, where.driver())


def install(machine: Machine, *releases: str, folder: str = "usr/lib/modules") -> None:
    for release in releases:
        machine.write(f"{folder}/{release}/modules.builtin")


def run_kernel(machine: Machine, release: str = RUNNING) -> None:
    (machine.proc / "sys" / "kernel" / "osrelease").write_text(f"{release}\n")


def variable(machine: Machine, value: bytes | None, name: str = system.SECURE_BOOT) -> None:
    folder = machine.sys / "firmware" / "efi" / "efivars"
    folder.mkdir(parents=True, exist_ok=True)
    if value is not None:
        (folder / name).write_bytes(b"\x06\0\0\0" + value)


def mounted(machine: Machine, kept: str, point: str = "/etc/hostname") -> None:
    folder = machine.proc / "self"
    folder.mkdir(exist_ok=True)
    lines = [
        "1 0 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/a",
        f"2 1 8:1 {kept} {point} rw,relatime - ext4 /dev/sda1 rw",
        "3 1 8:1 / /host/root/etc ro,relatime - ext4 /dev/sda1 rw",
    ]
    (folder / "mountinfo").write_text("\n".join(lines) + "\n")


def test_a_usual_node_tells_all_of_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("usr/lib/os-release", UBUNTU)
    machine.write("etc/containerd/config.toml", "version = 3\n")
    (machine.root / "etc" / "os-release").symlink_to("../usr/lib/os-release")
    run_kernel(machine)
    install(machine, "6.8.0-60-generic", RUNNING, NEWER)
    variable(machine, b"\1")
    (machine.sys / "kernel" / "security").mkdir(parents=True)
    (machine.sys / "kernel" / "security" / "lockdown").write_text("none [integrity] confidentiality\n")
    mounted(machine, "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/0a30/hostname")
    machine.write("usr/lib64/libnvidia-ml.so.1")
    told = look(machine)
    assert told == System(
        SystemFacts(
            os_id="ubuntu", os_version="24.04", system="ubuntu24.04", kernel=RUNNING, next_kernel=NEWER,
            secure_boot=True, lockdown="integrity", runtime="containerd",
            runtime_config="/etc/containerd/config.toml", driver_source="host",
        )
    )  # fmt: skip
    assert system_facts.read(system_facts.write(told.facts)) == told.facts


def test_on_a_node_that_shows_nothing_nothing_is_said(tmp_path: Path) -> None:
    told = look(Machine(tmp_path))
    assert told.facts == SystemFacts()
    assert set(told.failed) == {system_facts.OS_ID, system_facts.OS_VERSION, system_facts.SYSTEM}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('ID="rhel"\nVERSION_ID="9.6"\n', ("rhel", "9.6", "rhel9")),
        ("ID=rocky\nVERSION_ID='8.10'\n", ("rocky", "8.10", "rocky8")),
        ("# a comment\nID=debian\nVERSION_ID=13\nEXTRA\n", ("debian", "13", "debian13")),
        ("ID=arch\n", ("arch", "", "arch")),
        ('ID="unclosed\nVERSION_ID=1\n', ("", "1", "")),
    ],
)
def test_a_system_is_named_as_images_name_it(tmp_path: Path, text: str, told: tuple[str, str, str]) -> None:
    machine = Machine(tmp_path)
    machine.write("etc/os-release", text)
    found = look(machine).facts
    assert (found.os_id, found.os_version, found.system) == told


@pytest.mark.parametrize(
    ("installed", "following"),
    [
        ((RUNNING,), ""),
        ((RUNNING, "6.8.0-70-generic"), ""),
        ((RUNNING, NEWER), NEWER),
        ((RUNNING, "6.11.0-9-generic", NEWER), "6.11.0-9-generic"),
        ((RUNNING, "6.8.0-71-generic-64k"), "6.8.0-71-generic-64k"),
        ((RUNNING, "6.8.0-rc7"), ""),
        ((), None),
        ((NEWER,), None),
    ],
)
def test_the_next_kernel_is_the_newest_where_the_running_one_is_installed(
    tmp_path: Path, installed: tuple[str, ...], following: str | None
) -> None:
    machine = Machine(tmp_path)
    install(machine, *installed)
    assert system.next_kernel(Reader(machine.root), RUNNING) == following


def test_a_candidate_is_older_than_what_it_became(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    install(machine, "6.12.0-rc3", "6.12.0")
    assert system.next_kernel(Reader(machine.root), "6.12.0-rc3") == "6.12.0"
    assert system.next_kernel(Reader(machine.root), "6.12.0") == ""


def test_what_a_removed_kernel_left_behind_is_none(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    install(machine, RUNNING)
    machine.write(f"usr/lib/modules/{NEWER}/updates/dkms/nvidia.ko")
    assert system.next_kernel(Reader(machine.root), RUNNING) == ""


def test_a_host_that_has_modules_beside_usr_is_looked_at_there(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    install(machine, RUNNING, NEWER, folder="lib/modules")
    assert system.next_kernel(Reader(machine.root), RUNNING) == NEWER


def test_without_uefi_nobody_checks_signatures(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert system.secure_boot(machine.sys) is None
    (machine.sys / "firmware").mkdir()
    assert system.secure_boot(machine.sys) is False


@pytest.mark.parametrize(("value", "told"), [(b"\1", True), (b"\0", False), (b"", None), (None, None)])
def test_secure_boot_is_what_the_firmware_says(tmp_path: Path, value: bytes | None, *, told: bool | None) -> None:
    machine = Machine(tmp_path)
    variable(machine, value)
    assert system.secure_boot(machine.sys) is told


def test_a_firmware_that_has_other_variables_only_does_not_know_secure_boot(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    variable(machine, b"\1", "BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c")
    assert system.secure_boot(machine.sys) is False


@pytest.mark.parametrize(
    ("kept", "kind"),
    [
        ("/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/0a30/hostname", "containerd"),
        # /var is a file system of its own
        ("/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/0a30/hostname", "containerd"),
        ("/var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri/sandboxes/0a30/hostname", "k3s"),
        ("/var/lib/rancher/rke2/agent/containerd/io.containerd.grpc.v1.cri/sandboxes/0a30/hostname", "rke2"),
        ("/var/lib/k0s/containerd/io.containerd.grpc.v1.cri/sandboxes/0a30/hostname", "k0s"),
        ("/var/snap/microk8s/common/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/0a30/hostname", "microk8s"),
        ("/containers/storage/overlay-containers/0a30/userdata/hostname", "cri-o"),
        ("/containers/storage/vfs-containers/0a30/userdata/hostname", "cri-o"),
        ("/var/lib/docker/containers/0a30/hostname", "docker"),
        ("/srv/my-containers/containers/0a30/hostname", ""),
        ("/home/somebody/hostname", ""),
    ],
)
def test_the_runtime_is_the_one_that_made_this_container(tmp_path: Path, kept: str, kind: str) -> None:
    machine = Machine(tmp_path)
    mounted(machine, kept)
    assert system.container_runtime(machine.proc) == kind
    mounted(machine, kept, "/host/root/usr")
    assert system.container_runtime(machine.proc) == ""


def test_only_a_configuration_of_the_runtime_that_is_there_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("etc/containerd/config.toml")
    machine.write("etc/crio/crio.conf.d/10-crio.conf")
    host = Reader(machine.root)
    assert system.configuration(host, "containerd") == "/etc/containerd/config.toml"
    assert system.configuration(host, "cri-o") == "/etc/crio/crio.conf.d"
    assert system.configuration(host, "k3s") == system.configuration(host, "") == ""


def test_the_driver_is_the_hosts_or_a_containers_as_its_library_lies(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("run/nvidia/driver/usr/lib64/libnvidia-ml.so.1")
    assert look(machine).facts.driver_source == "container"


def test_a_file_that_is_away_for_a_moment_changes_no_report_and_the_third_time_it_does(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    file = machine.write("etc/os-release", UBUNTU)
    state = confirm.step(confirm.State(), report.observe(Bus(), None, None, look(machine)))
    before = state.system
    assert before is not None
    assert before.values["system"] == "ubuntu24.04"
    file.unlink()
    told = []
    for _ in range(confirm.SCANS):
        state = confirm.step(state, report.observe(Bus(), None, None, look(machine)))
        assert state.system is not None
        told.append(state.system.values.get("system"))
    assert told == ["ubuntu24.04", "ubuntu24.04", None]


def test_the_report_has_it_as_a_feature_of_its_own(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("etc/os-release", UBUNTU)
    made = report.alone(report.observe(Bus(), None, None, look(machine)), BOOT)
    assert made["attributes"][names.FEATURE_SYSTEM]["elements"]["system"] == "ubuntu24.04"


@pytest.mark.parametrize(("tree", "told"), [("h100-8", "true"), ("t4", "false"), ("none", "false")])
def test_nvswitches_are_seen_on_the_bus_without_a_driver(tmp_path: Path, tree: str, told: str) -> None:
    machine = Machine(tmp_path, tree)
    found = report.observe(sysfs.scan(machine.sys), None, None, look(machine)).system
    assert found.values[system_facts.NVSWITCH] == told


def test_where_a_function_cannot_be_read_nobody_knows_that_there_is_no_nvswitch(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for bus, told in ((Bus(unclear=frozenset({"0000:01:00.0"})), None), (sysfs.scan(machine.sys), "false")):
        found = report.observe(bus, None, None, look(machine)).system
        assert found.values.get(system_facts.NVSWITCH) == told
        assert (system_facts.NVSWITCH in found.unknown_fields) is (told is None)
