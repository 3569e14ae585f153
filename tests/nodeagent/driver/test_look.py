"""`nodeagent driver look`: what is on a node."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from controllers.api.driver_look import HOLDERS_MAX, Holder, Look, Module, Prepared
from controllers.api.record import adapter
from controllers.domain.driver import files
from controllers.domain.driver.variant import Variant
from controllers.driver.pods import build
from nodeagent.driver import looking, message
from nodeagent.driver.__main__ import run
from nodeagent.host import openfiles
from tests.driver.pods.make import AGENT, COMPILED, EVERYTHING
from tests.nodeagent.driver.node import DRIVER, KERNEL, POD, VERSION, Node

EVERYTHING_BUILT = build.daemonset(EVERYTHING, COMPILED, AGENT)["spec"]["template"]["spec"]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_bare_node_is_told_as_it_is(node: Node) -> None:
    found = looking.observe(node.where)
    assert (found.system, found.kernel, found.next_kernel) == ("ubuntu24.04", KERNEL, "")
    assert (found.modules, found.holders, found.host_driver, found.mofed) == ((), (), "", "")
    assert found.gpus == 1
    assert found.boot_id


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ('NAME="Astra Linux"\nID=astra\nID_LIKE=debian\nVERSION_ID="1.8_x86-64"\n', "astra1.8"),
        ('NAME="Astra Linux"\nID=astra\nVERSION_ID=1.7_x86-64\n', "astra1.7"),
        ('NAME="ALT SP Server"\nVERSION="10.2"\nID=altlinux\nVERSION_ID=10.2\n', "altlinux10.2"),
        ('NAME="ALT"\nID=altlinux\nVERSION_ID=p11\n', "altlinuxp11"),
        ('NAME="RED OS"\nID="redos"\nID_LIKE="rhel centos fedora"\nVERSION_ID="7.3"\n', "redos7.3"),
        ('NAME="RED OS"\nID="redos"\nVERSION_ID="8.0"\n', "redos8.0"),
        ('NAME="SLES"\nID="sles"\nID_LIKE="suse"\nVERSION_ID="15.6"\n', "sles15.6"),
        ('NAME="SL-Micro"\nID="sl-micro"\nVERSION_ID="6.1"\n', "sl-micro6.1"),
        ('NAME="Oracle Linux Server"\nID="ol"\nID_LIKE="fedora"\nVERSION_ID="9.6"\n', "ol9"),
        ('NAME="Flatcar Container Linux by Kinvolk"\nID=flatcar\nVERSION_ID=4230.2.1\n', "flatcar4230.2.1"),
        ('NAME="Talos"\nID=talos\nVERSION_ID=v1.10.3\n', "talosv1.10.3"),
        ('NAME="Arch Linux"\nID=arch\nBUILD_ID=rolling\n', "arch"),
    ],
)
def test_a_system_is_named_as_images_and_overrides_name_it(node: Node, text: str, system: str) -> None:
    node.machine.write("etc/os-release", text)
    assert looking.observe(node.where).system == system
    assert Variant("0123456789", system).object_name == f"gpu-driver-0123456789-{system}-any", "it is read as it is"


def test_modules_are_told_in_the_order_in_which_they_can_be_unloaded(node: Node) -> None:
    node.load(*DRIVER)
    node.load("nouveau")
    node.use("nvidia_uvm", 2)
    assert [(one.name, one.version, one.state, one.users) for one in looking.observe(node.where).modules] == [
        ("nvidia_modeset", VERSION, "live", 0),
        ("nvidia_uvm", VERSION, "live", 2),
        ("nvidia", VERSION, "live", 2),
        ("nouveau", "", "live", 0),
    ]


def test_who_has_a_card_open_is_told_with_its_pod(node: Node) -> None:
    node.process(100, "python3", "/dev/null", "/dev/nvidia0", pod=POD)
    node.process(101, "nvtop", "/dev/nvidiactl")
    node.process(102, "sshd", "/dev/null", "socket:[1]")
    assert looking.observe(node.where).holders == (
        Holder(pid=100, command="python3", pod_uid=POD),
        Holder(pid=101, command="nvtop"),
    )


@pytest.mark.parametrize(
    ("path", "held"),
    [
        ("/dev/nvidia0", True),
        ("/dev/nvidia-uvm", True),
        ("/dev/nvidia-caps/nvidia-cap2", True),
        ("/dev/nvidia-caps-imex-channels/channel0", True),
        ("/srv/x/dev/nvidia0", True),
        ("/var/lib/machines/a/dev/nvidiactl", True),
        ("/dev/nvidia0 (deleted)", True),
        ("/home/dev/nvidia.txt", False),
        ("/home/dev/nvidia-docs/a/b", False),
        ("/usr/lib/nvidia0", False),
    ],
)
def test_a_card_is_open_wherever_the_process_has_its_root(node: Node, path: str, held: bool) -> None:
    node.process(100, "python3", path)
    assert bool(looking.observe(node.where).holders) is held


def test_daemons_are_the_drivers_own_only_in_its_pod(node: Node) -> None:
    """The driver's container ends those, and no others."""
    node.process(90, "nvidia-driver", pod=POD)
    node.note(files.LOCK, "90")
    node.process(100, "nvidia-persistenced", "/dev/nvidia0", pod=POD)
    node.process(101, "nv-fabricmanager", "/dev/nvidia-nvswitchctl", pod=POD)
    node.process(102, "nvidia-imex", "/dev/nvidia0", pod=POD)
    node.process(103, "nvidia-persistenced", "/dev/nvidia0")
    node.process(104, "python3", "/dev/nvidia0", pod=POD)
    assert [one.pid for one in looking.observe(node.where).holders] == [102, 103, 104]
    node.ends(90)
    assert [one.pid for one in looking.observe(node.where).holders] == [100, 101, 102, 103, 104]


@pytest.mark.parametrize(
    ("cgroup", "pod"),
    [
        (f"0::/kubepods/burstable/pod{POD}/abc", POD),
        (f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/crio-abc.scope", POD),
        (f"4:memory:/kubepods/pod{POD}/abc\n0::/", POD),
        ("0::/kubepods/podd41d8cd98f00b204e9800998ecf8427e/abc", "d41d8cd98f00b204e9800998ecf8427e"),
        ("0::/user.slice/podman-1.scope", ""),
        ("", ""),
    ],
)
def test_a_pod_is_known_by_the_control_group_of_its_processes(cgroup: str, pod: str) -> None:
    assert openfiles.pod_uid(cgroup) == pod


def test_a_driver_of_the_hosts_own_is_known_by_its_library_or_by_its_module(node: Node) -> None:
    folder = "usr/lib/x86_64-linux-gnu"
    node.machine.write(f"{folder}/libnvidia-ml.so.535.1.2")
    (node.root / folder / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.535.1.2")
    assert looking.observe(node.where).host_driver == "535.1.2"
    (node.root / folder / "libnvidia-ml.so.1").unlink()
    assert looking.observe(node.where).host_driver == ""
    node.machine.write(f"lib/modules/{KERNEL}/modules.dep", "updates/dkms/nvidia.ko.zst: kernel/drm.ko.zst\n")
    assert looking.observe(node.where).host_driver == "unknown"


def test_a_driver_in_a_container_is_not_the_hosts(node: Node) -> None:
    node.machine.write("run/nvidia/driver/usr/lib64/libnvidia-ml.so.1")
    assert looking.observe(node.where).host_driver == ""


def test_other_modules_with_nvidia_in_their_name_are_no_driver(node: Node) -> None:
    text = "kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko: \nkernel/i2c/i2c-nvidia-gpu.ko:\n"
    node.machine.write(f"lib/modules/{KERNEL}/modules.dep", text)
    assert looking.observe(node.where).host_driver == ""


def test_whose_mofed_is_loaded(node: Node) -> None:
    (node.sys / "module" / "mlx5_core").mkdir()
    assert looking.observe(node.where).mofed == "", "the kernel has a driver of that name"
    (node.sys / "module" / "mlx_compat").mkdir()
    assert looking.observe(node.where).mofed == "Host"
    node.machine.write("run/mellanox/drivers/.driver-ready")
    assert looking.observe(node.where).mofed == "Container"


def test_room_is_measured_where_the_containers_own_files_are(node: Node) -> None:
    assert looking.observe(node.where).free_mib is None
    node.mounts(upper="/data/containerd/snapshots/7/fs")
    assert looking.observe(node.where).free_mib is None, "what is not seen is not guessed"
    (node.root / "data/containerd/snapshots/7/fs").mkdir(parents=True)
    assert looking.observe(node.where).free_mib == pytest.approx(free(node.root), abs=2048)
    node.mounts()
    (node.root / "var/lib/containerd").mkdir(parents=True)
    assert looking.observe(node.where).free_mib == pytest.approx(free(node.root), abs=2048)


def free(path: Path) -> int:
    return shutil.disk_usage(path).free >> 20


def test_a_module_that_is_built_in_or_says_nonsense_breaks_nothing(node: Node) -> None:
    node.load("nvidia")
    (node.sys / "module" / "nvidia" / "refcnt").write_text("many\n")
    (node.sys / "module" / "gdrdrv").mkdir()
    assert [(one.name, one.users) for one in looking.observe(node.where).modules] == [("nvidia", 0)]


KUBELETS_BYTES = 12 << 10
"""Of the termination messages of all containers of a pod together (kubelet: MaxPodTerminationMessageLogLength)."""
PODS_CONTAINERS = len(EVERYTHING_BUILT["initContainers"]) + len(EVERYTHING_BUILT["containers"])


def test_a_line_is_never_longer_than_kubelet_takes() -> None:
    holders = tuple(Holder(pid=4194304, command="ж" * 64, pod_uid="0" * 63) for _ in range(HOLDERS_MAX))
    modules = tuple(Module(name="ж" * 63, version="ж" * 64, state="ж" * 16, users=10**9) for _ in range(16))
    full = Look(system="s" * 63, kernel="k" * 253, next_kernel="n" * 253, modules=modules, holders=holders)
    for said in (full, Prepared(result="Refused", reason="DevicesHeld", message='"\x00' * 128)):
        line = message.line(said)
        assert len(line.encode()) * PODS_CONTAINERS <= KUBELETS_BYTES
        assert adapter(type(said)).validate_json(line)
    assert json.loads(message.line(full))["kernel"] == "k" * 253
    small = replace(full, holders=holders[:2], modules=())
    assert adapter(Look).validate_json(message.line(small)) == small


def test_the_line_goes_to_the_log_and_into_the_termination_message(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = tmp_path / "message"
    told.touch()
    flags = [f"--{key}={path}" for key, path in (("sys", node.sys), ("proc", node.proc), ("root", node.root))]
    assert run(["look", *flags, f"--message={told}"]) == 0
    assert capsys.readouterr().out == f"{told.read_text()}\n"
    assert adapter(Look).validate_json(told.read_text()).kernel == KERNEL
