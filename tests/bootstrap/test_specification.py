"""The CDI specification of a node's cards: when the toolkit's pod makes it anew, and that NVIDIA's program makes it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from controllers.api.settings import parse_settings
from controllers.components import build
from nodeagent.deviceplugin.devices import allocate, cdi
from nodeagent.deviceplugin.devices.records import Listed, NodeScan
from nodeagent.validate.checks import cdi as validate_cdi
from sim.hardware import load
from sim.nvml import Config
from tests.bootstrap.cdihost import LIBRARIES, PLACES, POD, Host, furnish, nvidia_ctk
from tests.tools.lacking import lacking, root

SHAPE = load().shape("h100-sxm-8")
MACHINE = Config.of(SHAPE)
CARDS = sorted(line.split()[1] for lines in MACHINE.cards.values() for line in lines if line.startswith("uuid"))


# --- the script, with a program in the place of NVIDIA's -----------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Whose nvidia-ctk prints the file `answer`, counts its calls, and fails with the file `error` where that is.

    For the module's own pods it prints the file `managed`, and fails with `unmanaged`.
    """
    made = Host.at(tmp_path / "host")
    programs = tmp_path / "bin"
    programs.mkdir()
    ask = 'echo >>calls\necho "$@" >asked\n! cat error >&2 && cat answer\n'
    ask = f'case "$*" in\n*--mode=management*) ! cat unmanaged >&2 && cat managed;;\n*) {ask};;\nesac\n'
    (programs / "chroot").write_text(f"#!/bin/sh\ncd {tmp_path}\n{ask}")
    (programs / "chroot").chmod(0o755)
    answer(made, "GPU-a", "GPU-b")
    manage(made, "/dev/nvidia0")
    return Host(made.root, {"PATH": f"{programs}:{os.environ['PATH']}"})


def answer(host: Host, *names: str) -> None:
    (host.root.parent / "answer").write_text(specification(*names))


def manage(host: Host, *nodes: str) -> None:
    device = {"name": "all", "containerEdits": {"deviceNodes": [{"path": path} for path in nodes]}}
    made = {"cdiVersion": "0.5.0", "kind": "management.nvidia.com/gpu", "devices": [device]}
    (host.root.parent / "managed").write_text(yaml.safe_dump(made))


def specification(*names: str, kind: str = "nvidia.com/gpu", libraries: tuple[str, ...] = ()) -> str:
    devices = [{"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}} for name in names]
    mounts = [{"hostPath": path, "containerPath": f"/usr/lib/{path}"} for path in libraries]
    edits = {"containerEdits": {"mounts": mounts}} if mounts else {}
    return yaml.safe_dump({"cdiVersion": "0.5.0", "kind": kind, "devices": devices, **edits})


def calls(host: Host) -> int:
    file = host.root.parent / "calls"
    return len(file.read_text()) if file.exists() else 0


def test_it_is_made_at_once_and_not_again_without_a_reason(host: Host) -> None:
    assert not host.passes("readinessProbe")
    with host.keeper() as keeper:
        keeper.settle()
        assert host.named == ["GPU-a", "GPU-b"]
        assert host.passes("readinessProbe")
        assert host.passes("livenessProbe")
        made, asked = host.specification.stat(), calls(host)
        for _ in range(20):
            keeper.next()

        assert calls(host) == asked
        assert host.specification.stat() == made
    assert made.st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "path",
    [
        "proc/driver/nvidia/version",
        "proc/driver/nvidia/gpus/0000:19:00.0/information",
        "proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access",
        f"{PLACES['TOOLKIT'][1:]}/nvidia-ctk",
        "run/cdi/gpu-control-plane.yaml",
    ],
)
def test_it_is_made_anew_when_what_it_depends_on_changes(host: Host, path: str) -> None:
    with host.keeper() as keeper:
        keeper.settle()
        before = calls(host)
        answer(host, "GPU-a", "MIG-1")
        (host.root / path).parent.mkdir(parents=True, exist_ok=True)
        (host.root / path).write_text("Bus Location: 1\nDeviceFileMinor: 12\n")
        keeper.next()

        assert calls(host) == before + 1
        assert host.named == ["GPU-a", "MIG-1"]


def test_a_cards_use_is_no_reason_to_ask_the_driver(host: Host) -> None:
    file = host.root / "proc/driver/nvidia/gpus/0000:19:00.0/information"
    file.parent.mkdir(parents=True)
    file.write_text("Bus Location: \t 0000:19:00.0\nVideo BIOS: \t ??.??.??.??.??\n")
    with host.keeper() as keeper:
        keeper.settle()
        before = calls(host)
        file.write_text("Bus Location: \t 0000:19:00.0\nVideo BIOS: \t 96.00.99.00.01\n")
        keeper.next()

        assert calls(host) == before


def test_what_gives_no_sign_is_found_in_time(host: Host) -> None:
    with host.keeper() as keeper:
        keeper.settle()
        answer(host, "GPU-a")
        for _ in range(60):
            keeper.next()

        assert host.named == ["GPU-a"]


def test_the_same_content_is_not_written_again(host: Host) -> None:
    with host.keeper() as keeper:
        assert f"wrote {host.specification}" in keeper.settle()
        made = host.specification.stat()
        (host.root / "proc/driver/nvidia/version").write_text("NVRM version: 581\n")
        assert keeper.next() == []

        assert host.specification.stat() == made
    assert {path.name for path in host.specification.parent.iterdir()} == {
        "gpu-control-plane.yaml",
        "management.nvidia.com-gpu.yaml",
    }


def test_a_failure_leaves_what_is_there_and_is_told_and_tried_again(host: Host) -> None:
    error = host.root.parent / "error"
    with host.keeper() as keeper:
        keeper.settle()
        error.write_text("GPU is lost\n")
        (host.root / "proc/driver/nvidia/version").write_text("NVRM version: 581\n")
        assert keeper.next() == ["no new specification: GPU is lost"]
        assert host.named == ["GPU-a", "GPU-b"]
        assert host.passes("readinessProbe")
        error.unlink()
        answer(host, "GPU-a")
        for _ in range(6):
            keeper.next()

        assert host.named == ["GPU-a"]


@pytest.mark.parametrize(
    "path", ["proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "run/cdi/management.nvidia.com-gpu.yaml"]
)
def test_that_of_the_modules_own_pods_is_made_anew_after_a_division_or_when_somebody_writes_it(
    host: Host, path: str
) -> None:
    host.management.write_text("kind: management.nvidia.com/gpu\n")  # an installer's, of an earlier version
    with host.keeper() as keeper:
        said = keeper.settle()
        assert f"wrote {host.management}" in said
        assert host.managed == ["/dev/nvidia0"]
        made = host.management.stat()
        manage(host, "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3")
        for _ in range(3):
            keeper.next()
        assert host.management.stat() == made, "nothing says that there is more"
        (host.root / path).parent.mkdir(parents=True, exist_ok=True)
        (host.root / path).write_text("DeviceFileMinor: 3\n")
        keeper.next()

        assert host.managed == ["/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia0"]
    assert host.management.stat().st_mode & 0o777 == 0o644


def test_a_failure_for_the_modules_own_pods_is_told_and_leaves_both_as_they_are(host: Host) -> None:
    error = host.root.parent / "unmanaged"
    error.write_text("no NVIDIA device nodes found\n")
    with host.keeper() as keeper:
        said = keeper.settle()
        assert "no new specification for the module's own pods: no NVIDIA device nodes found" in said
        assert host.named == ["GPU-a", "GPU-b"]
        assert not host.passes("readinessProbe"), "its own pods would not start"
        error.unlink()
        for _ in range(6):
            keeper.next()

        assert host.managed == ["/dev/nvidia0"]
        assert host.passes("readinessProbe")
        error.write_text("gone\n")
        (host.root / "proc/driver/nvidia/version").write_text("NVRM version: 581\n")
        keeper.next()
        assert host.managed == ["/dev/nvidia0"]
        assert host.passes("readinessProbe")


def test_a_node_whose_first_specification_fails_is_not_ready(host: Host) -> None:
    (host.root.parent / "error").write_text("Driver Not Loaded\n")
    with host.keeper() as keeper:
        keeper.settle()
        assert not host.passes("readinessProbe")
        assert not host.specification.exists()


def test_where_every_card_is_in_mig_mode_and_undivided_there_is_none_and_the_node_is_ready(host: Host) -> None:
    with host.keeper() as keeper:
        keeper.settle()
        error = host.root.parent / "error"
        error.write_text("failed to write spec: invalid CDI Spec: invalid spec, no devices\n")
        (host.root / "proc/driver/nvidia/version").write_text("NVRM version: 581\n")
        keeper.next()
        assert not host.specification.exists()
        assert host.passes("readinessProbe")
        error.unlink()
        keeper.next()
        keeper.next()
        assert host.specification.exists()


@pytest.mark.parametrize("form", ["yaml", "json", "lines.json"])
def test_another_file_with_the_same_names_is_left_alone_and_ours_goes(host: Host, form: str) -> None:
    """Two files of one folder with one name make it unknown to the runtime."""
    text = specification("0", "GPU-a")
    if form != "yaml":
        text = as_json(text, indent=4 if form == "lines.json" else None)
    other = host.specification.parent / f"nvidia.{form.rpartition('.')[2]}"
    with host.keeper() as keeper:
        keeper.settle()
        other.write_text(text)
        assert keeper.next() == [f"{other} names cards already; it is for its maker to keep it up to date"]
        assert not host.specification.exists()
        assert host.passes("readinessProbe")
        assert other.read_text() == text
        other.unlink()
        keeper.settle()

        assert host.named == ["GPU-a", "GPU-b"]
        assert host.passes("readinessProbe")


def as_json(text: str, indent: int | None) -> str:
    return json.dumps(yaml.safe_load(text), indent=indent, separators=None if indent else (",", ":"))


@pytest.mark.parametrize(
    ("kind", "name"), [("management.nvidia.com/gpu", "all"), ("nvidia.com/gpu", "0"), ("k8s.nvidia.com/gpu", "GPU-a")]
)
def test_another_file_with_other_names_is_no_concern(host: Host, kind: str, name: str) -> None:
    (host.specification.parent / "other.yaml").write_text(specification(name, kind=kind))
    with host.keeper() as keeper:
        keeper.settle()

        assert host.named == ["GPU-a", "GPU-b"]


CONTAINER = "run/nvidia/driver"
CUDA = f"/{CONTAINER}/{LIBRARIES}/libcuda.so"


def contain(host: Host, version: str) -> None:
    """A driver's container, in the place of another or of none."""
    end_container(host)
    folder = host.root / CONTAINER / LIBRARIES
    folder.mkdir(parents=True)
    for name in ("libcuda.so", "libnvidia-ml.so"):
        (folder / f"{name}.{version}").write_text("")
        (folder / f"{name}.1").symlink_to(f"{name}.{version}")


def end_container(host: Host) -> None:
    shutil.rmtree(host.root / CONTAINER, ignore_errors=True)
    (host.root / CONTAINER).mkdir()


def asked_for(host: Host) -> str:
    """The driver's root that NVIDIA's program was told last."""
    (found,) = [word for word in (host.root.parent / "asked").read_text().split() if word.startswith("--driver-root")]
    return found.partition("=")[2]


def test_the_driver_is_taken_from_where_it_is_at_the_time(host: Host) -> None:
    """One that comes, another version in its place, its end: each is seen in the next round."""
    with host.keeper() as keeper:
        keeper.settle()
        found = [(calls(host), asked_for(host))]
        for change in (lambda: contain(host, "580.1"), lambda: contain(host, "590.2"), lambda: end_container(host)):
            change()
            keeper.next()
            found.append((calls(host), asked_for(host)))
            assert keeper.next() == []

    first = found[0][0]
    assert found == [(first + number, root) for number, root in enumerate(("/", f"/{CONTAINER}", f"/{CONTAINER}", "/"))]


def test_no_specification_outlives_the_libraries_that_it_mounts(host: Host) -> None:
    error, told = host.root.parent / "error", host.root.parent / "answer"
    with host.keeper() as keeper:
        for version in ("580.1", "590.2"):
            contain(host, version)
            told.write_text(specification("GPU-a", libraries=(f"{CUDA}.{version}", "/usr/lib/libother.so")))
            keeper.settle()
            assert f"{CUDA}.{version}" in host.specification.read_text()
            error.write_text("GPU is lost\n")
            (host.root / "proc/driver/nvidia/version").write_text(f"NVRM version: {version}\n")
            assert keeper.next() == ["no new specification: GPU is lost"]
            assert host.named == ["GPU-a"], "while they are there it stays"

            end_container(host)
            said = keeper.next()
            assert said[0] == f"removed {host.specification}: the driver's libraries that it mounts are gone"
            assert not host.specification.exists()
            assert not host.passes("readinessProbe")
            error.unlink()


def test_the_settings_are_the_installers_but_for_the_image() -> None:
    chosen = {"args": ["--more"], "env": [{"name": "MORE", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}
    settings = parse_settings({"bootstrap": {"toolkit": {"version": "v9", **chosen}}}).bootstrap
    installer, keeper, role = build.daemonsets(settings)["gpu-toolkit"]["spec"]["template"]["spec"]["containers"]

    assert (installer["name"], keeper["name"]) == ("toolkit", "cdi")
    assert role == POD["containers"][2]
    assert keeper == POD["containers"][1] | {"image": installer["image"]}
    assert installer["image"].endswith(":v9")


# --- with NVIDIA's own program -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ctk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of the toolkit's image, built from source."""
    if why := root("another root with device nodes") or lacking("busybox", "cc"):
        pytest.skip(why)
    into = tmp_path_factory.mktemp("nvidia-ctk")
    if why := nvidia_ctk(into):
        pytest.skip(why)
    return into / "nvidia-ctk"


@pytest.fixture
def real(tmp_path: Path, ctk: Path) -> Host:
    """A host with eight cards, and the container's programs, which are busybox's."""
    try:
        host = furnish(Host.at(tmp_path / "host"), ctk, MACHINE)
    except PermissionError as error:
        pytest.skip(f"no device nodes can be made ({error}); run it where root may, not in an ordinary container")
    programs = tmp_path / "busybox"
    programs.mkdir()
    subprocess.run(["busybox", "--install", "-s", programs], check=True)
    return Host(host.root, {**host.variables, "PATH": str(programs)})


def test_nvidias_program_names_every_card_by_uuid_with_the_hosts_own_paths(real: Host) -> None:
    with real.keeper() as keeper:
        said = keeper.settle()
        assert said == [f"wrote {real.specification}", f"wrote {real.management}"]

    assert real.named == CARDS
    told, text = real.told, real.specification.read_text()
    assert str(real.root) not in text
    assert PLACES["HOST"] + "/" not in text
    mounts = {mount["hostPath"] for mount in told["containerEdits"]["mounts"]}
    version = MACHINE.system[0].split()[1]
    assert {f"/usr/lib/x86_64-linux-gnu/{name}.so.{version}" for name in ("libcuda", "libnvidia-ml")} <= mounts
    assert {hook["path"] for hook in told["containerEdits"]["hooks"]} == {f"{PLACES['TOOLKIT']}/nvidia-cdi-hook"}
    seen = validate_cdi.read({"/var/run/cdi/ours.yaml": text})
    assert (seen.broken, seen.minors, seen.versions) == ((), frozenset(range(8)), {version})
    assert not list((real.root / "run/nvidia/toolkit").glob("*.yaml"))


def test_nvidias_program_sees_a_driver_in_a_container_with_its_libraries_and_device_nodes(real: Host) -> None:
    """Its library opens nodes in /dev alone: played by a program that refuses to begin without them."""
    root, program = real.root / CONTAINER, real.root / PLACES["TOOLKIT"][1:] / "nvidia-ctk"
    for folder, pattern in ((LIBRARIES, "libnvidia-ml.so*"), (LIBRARIES, "libcuda.so*"), ("dev", "nvidia*")):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for file in (real.root / folder).glob(pattern):
            file.rename(root / folder / file.name)
    program.rename(program.with_name("it"))
    program.write_text('#!/bin/sh\ntest -c /dev/nvidiactl || exit 3\nexec "${0%/*}/it" "$@"\n')
    program.chmod(0o755)
    with real.keeper() as keeper:
        assert keeper.settle() == [f"wrote {real.specification}", f"wrote {real.management}"]
        mounted = Path("/proc/self/mountinfo").read_text()

    assert real.named == CARDS
    assert str(real.root) not in mounted
    edits = real.told["containerEdits"]
    version = MACHINE.system[0].split()[1]
    libraries = {f"/{CONTAINER}/{LIBRARIES}/{name}.so.{version}" for name in ("libcuda", "libnvidia-ml")}
    assert libraries <= {mount["hostPath"] for mount in edits["mounts"]}
    assert {f"/{LIBRARIES}/libcuda.so.{version}"} <= {mount["containerPath"] for mount in edits["mounts"]}
    nodes = {
        node["path"]: node["hostPath"]
        for holder in (real.told, *real.told["devices"])
        for node in holder["containerEdits"]["deviceNodes"]
    }
    assert nodes.keys() >= {"/dev/nvidiactl", *(f"/dev/nvidia{number}" for number in range(8))}
    assert nodes == {path: f"/{CONTAINER}{path}" for path in nodes}
    seen = validate_cdi.read({"/var/run/cdi/ours.yaml": real.specification.read_text()})
    assert (seen.broken, seen.minors, seen.versions) == ((), frozenset(range(8)), {version})
    (everything,) = yaml.safe_load(real.management.read_text())["devices"]
    found = {node["path"]: node["hostPath"] for node in everything["containerEdits"]["deviceNodes"]}
    assert found == {path: f"/{CONTAINER}{path}" for path in found}


def test_the_device_plugin_gives_cards_by_the_names_of_that_specification(real: Host) -> None:
    with real.keeper() as keeper:
        keeper.settle()
    seen = NodeScan(cdi=cdi.names(real.specification.read_text()), runtime_cdi=True)
    uuid = CARDS[0]
    ground = allocate.AllocationContext("pool", {uuid: Listed(uuid, uuid, "card", "0000:19:00.0")})

    assert allocate.container_devices([uuid], ground, seen, allocate.AUTO) == allocate.ContainerDevices(
        {"NVIDIA_VISIBLE_DEVICES": "void"}, cdi=(f"nvidia.com/gpu={uuid}",)
    )


def test_mig_instances_are_named_by_uuid_when_they_come_and_not_when_they_are_gone(real: Host) -> None:
    address = next(iter(MACHINE.cards))
    divided = MACHINE.partitioned(address, ("1g.10gb", 0), ("3g.40gb", 4))
    instances = [line.rpartition("uuid=")[2] for line in divided.cards[address] if "uuid=MIG" in line]
    caps = {"gi1/access": 1, "gi1/ci0/access": 2, "gi2/access": 3, "gi2/ci0/access": 4}
    with real.keeper() as keeper:
        keeper.settle()
        (real.root / "proc/driver/nvidia-caps").mkdir()
        minors = "".join(f"gpu0/{name} {number}\n" for name, number in caps.items())
        (real.root / "proc/driver/nvidia-caps/mig-minors").write_text(minors)
        (real.root / "dev/nvidia-caps").mkdir()
        for name, number in caps.items():
            os.mknod(real.root / f"dev/nvidia-caps/nvidia-cap{number}", 0o20444, os.makedev(236, number))
            access = real.root / "proc/driver/nvidia/capabilities/gpu0/mig" / name
            access.parent.mkdir(parents=True, exist_ok=True)
            access.write_text(f"DeviceFileMinor: {number}\n")
        divided.write(real.root / "etc/cards.conf")
        keeper.next()
        whole = sorted(set(CARDS) - {next(u for u in CARDS if f"uuid {u}" in MACHINE.cards[address])})
        assert real.named == sorted([*whole, *instances])
        nodes = {
            device["name"]: sorted(node["path"] for node in device["containerEdits"]["deviceNodes"])
            for device in real.told["devices"]
        }
        assert nodes[instances[1]] == [f"/dev/nvidia-caps/nvidia-cap{n}" for n in (3, 4)] + ["/dev/nvidia0"]
        caps_of_all = [f"/dev/nvidia-caps/nvidia-cap{n}" for n in caps.values()]
        assert real.managed == [*caps_of_all, *(f"/dev/nvidia{n}" for n in range(8)), "/dev/nvidiactl"]
        told = yaml.safe_load(real.management.read_text())
        assert told["kind"] == "management.nvidia.com/gpu"
        version = MACHINE.system[0].split()[1]
        mounts = {mount["hostPath"] for mount in told["containerEdits"]["mounts"]}
        assert {f"/usr/lib/x86_64-linux-gnu/{name}.so.{version}" for name in ("libcuda", "libnvidia-ml")} <= mounts

        shutil.rmtree(real.root / "proc/driver/nvidia/capabilities")
        MACHINE.write(real.root / "etc/cards.conf")
        keeper.next()
        assert real.named == CARDS


def test_a_card_that_is_lost_takes_no_other_away_and_one_that_is_pulled_is_gone(real: Host) -> None:
    address = next(iter(MACHINE.cards))
    with real.keeper() as keeper:
        keeper.settle()
        for number, config in enumerate((MACHINE.card(address, "lost"), MACHINE.without(address))):
            config.write(real.root / "etc/cards.conf")
            (real.root / "proc/driver/nvidia/version").write_text(f"NVRM version: {number}\n")
            (said, *_) = keeper.next() or [""]
            assert ("GPU is lost" in said) == (number == 0)
            assert len(real.named) == 8 - number


def test_nvidias_program_says_so_where_every_card_is_undivided_in_mig_mode(real: Host) -> None:
    config = MACHINE
    for address in MACHINE.cards:
        config = config.card(address, "mig_mode enabled")
    config.write(real.root / "etc/cards.conf")
    with real.keeper() as keeper:
        assert keeper.settle() == [f"wrote {real.management}"]

    assert not real.specification.exists()
    assert real.passes("readinessProbe")


def test_without_a_driver_there_is_none_and_the_reason_is_told(real: Host) -> None:
    MACHINE.also("driver_not_loaded").write(real.root / "etc/cards.conf")
    with real.keeper() as keeper:
        (said, *_) = keeper.settle()

    assert "Driver Not Loaded" in said
    assert not real.passes("readinessProbe")
