"""`nodeagent driver prepare`: what is in the way of a driver is unloaded, unless somebody uses it."""

from __future__ import annotations

import errno
import fcntl
import random
from pathlib import Path

import pytest

from controllers.api.driver_look import DONE, NODE, TEXT_MAX, WAIT, Prepared
from controllers.api.reasons import driver_failed
from controllers.domain.driver import files
from controllers.domain.driver.states import PRECOMPILED_LIMIT
from nodeagent.driver import decide
from nodeagent.driver.__main__ import run
from nodeagent.driver.decide import Wanted
from nodeagent.driver.prepare import MOFED_SECONDS, Preparation
from tests.nodeagent.driver.node import DIGEST, DRIVER, POD, VERSION, Kernel, Node, Time

COMPILED, PRECOMPILED = Wanted(DIGEST, compiled=True, version=VERSION), Wanted(DIGEST, compiled=False)
MELLANOX = "0000:31:00.0"


class Bed:
    """A node, its kernel and its time."""

    def __init__(self, folder: Path, tree: str = "t4") -> None:
        self.node, self.time = Node(folder, tree), Time()
        self.kernel = Kernel(self.node)

    def prepare(self, wanted: Wanted = COMPILED) -> Prepared:
        return Preparation(self.node.where, self.node.run, wanted, self.kernel, self.time.clock)()

    def refused(self, wanted: Wanted = COMPILED) -> tuple[str, int]:
        said = self.prepare(wanted)
        assert said.result == "Refused"
        assert 0 < len(said.message) <= TEXT_MAX
        return said.reason, decide.exit_code(said)


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


@pytest.mark.parametrize("wanted", [COMPILED, PRECOMPILED])
def test_a_bare_node_is_clean_at_once(bed: Bed, wanted: Wanted) -> None:
    said = bed.prepare(wanted)
    assert (said.result, decide.exit_code(said)) == ("Clean", DONE)
    assert (bed.kernel.told, bed.time.now) == ([], 0)


def test_what_is_loaded_is_unloaded_in_its_order_and_its_traces_go(bed: Bed) -> None:
    bed.node.load(
        *("nvidia", "nvidia_modeset", "nvidia_uvm", "nvidia_drm"),
        *("nvidia_peermem", "nvidia_fs", "nvidia_vgpu_vfio", "gdrdrv"),
    )
    bed.node.needs("nvidia_modeset", by="nvidia_drm")
    traces = (files.STATE, files.MARK, files.READY, files.DAEMONS, files.HOLD)
    for name in traces:
        bed.node.note(name, "another")
    root = bed.node.run / "driver"
    bed.node.mounts(root, root)
    assert bed.prepare().result == "Clean"
    assert bed.kernel.told == [
        *("nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia_peermem", "nvidia_fs", "nvidia_vgpu_vfio", "gdrdrv"),
        *("nvidia", "umount driver", "umount driver"),
    ]
    assert bed.node.loaded() == set()
    assert not any(bed.node.has(name) for name in traces)


def test_compiled_modules_of_the_same_digest_stay(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.note(files.STATE, DIGEST)
    assert bed.prepare().result == "FastPath"
    assert bed.kernel.told == []
    assert bed.node.has(files.STATE)


def test_precompiled_modules_of_the_same_digest_are_loaded_anew_unless_they_are_used(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.note(files.MARK, DIGEST)
    bed.node.note(files.STATE, DIGEST)
    bed.node.use("nvidia", 1)
    assert bed.prepare(PRECOMPILED).result == "FastPath"
    assert bed.node.has(files.MARK)
    bed.node.use("nvidia", -1)
    assert bed.prepare(PRECOMPILED).result == "Clean"
    assert not bed.node.loaded()


def test_compiled_modules_whose_digest_only_we_noted_stay_while_somebody_computes(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.note(files.MARK, DIGEST)
    bed.node.use("nvidia_uvm", 1)
    assert bed.prepare().result == "FastPath"


@pytest.mark.parametrize("state", [files.STATE, files.MARK])
def test_another_version_under_the_same_digest_is_no_wanted_driver(bed: Bed, state: str) -> None:
    bed.node.load(*DRIVER, version="535.1.2")
    bed.node.note(state, DIGEST)
    assert bed.prepare().result == "Clean"


def test_a_digest_without_its_module_is_of_a_former_start(bed: Bed) -> None:
    bed.node.note(files.STATE, DIGEST)
    assert bed.prepare().result == "Clean"


@pytest.mark.parametrize("missing", ["nvidia_uvm", "nvidia_modeset"])
@pytest.mark.parametrize("state", [files.STATE, files.MARK])
def test_half_a_driver_of_the_same_digest_is_unloaded_and_its_digest_goes(bed: Bed, missing: str, state: str) -> None:
    bed.node.load(*(name for name in DRIVER if name != missing))
    bed.node.note(state, DIGEST)
    assert bed.prepare().result == "Clean"
    assert bed.node.loaded() == set()
    assert not bed.node.has(state)


def test_half_a_driver_that_somebody_uses_waits_for_them(bed: Bed) -> None:
    bed.node.load("nvidia", "nvidia_uvm")
    bed.node.note(files.STATE, DIGEST)
    bed.node.process(7, "train", "/dev/nvidia0", pod=POD)
    assert bed.refused() == ("DevicesHeld", WAIT)
    assert bed.node.loaded() == {"nvidia", "nvidia_uvm"}


def test_a_module_on_its_way_out_is_no_wanted_driver(bed: Bed) -> None:
    bed.node.load("nvidia")
    bed.node.note(files.STATE, DIGEST)
    (bed.node.sys / "module/nvidia/initstate").write_text("going\n")
    assert bed.refused() == ("RebootRequired", NODE)


def test_who_computes_keeps_the_driver_and_is_named(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.note(files.STATE, "another")
    bed.node.process(7, "train", "/dev/nvidia0", pod=POD)
    said = bed.prepare()
    assert (said.reason, decide.exit_code(said)) == ("DevicesHeld", WAIT)
    assert "train (7, pod 0f3f0a7e" in said.message
    assert bed.kernel.told == []
    assert bed.node.has(files.STATE), "nothing was begun"


def test_who_looks_at_a_card_for_a_moment_is_waited_for(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.process(7, "nvidia-smi", "/dev/nvidiactl")
    bed.time.later.append((30, lambda: bed.node.ends(7)))
    assert bed.prepare().result == "Clean"
    assert 30 <= bed.time.now < 60


def test_a_module_that_is_busy_for_a_moment_is_tried_again(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.use("nvidia_uvm", 1)
    bed.time.later.append((20, lambda: bed.node.use("nvidia_uvm", -1)))
    assert bed.prepare().result == "Clean"


def test_a_module_in_use_by_what_is_not_seen_is_the_nodes_fault(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.use("nvidia_uvm", 1)
    assert bed.refused() == ("OldDriverStuck", NODE)
    assert "nvidia" in bed.node.loaded()


def test_a_module_that_another_one_needs_is_told_with_it(bed: Bed) -> None:
    bed.node.load("nvidia", "zfs_of_somebody")
    said = bed.prepare()
    assert "zfs_of_somebody" in said.message


@pytest.mark.parametrize("daemon", ["nv-fabricmanager", "nvidia-persistenced", "nvidia-imex"])
def test_daemons_that_a_dead_driver_left_are_named_and_not_ended(bed: Bed, daemon: str) -> None:
    bed.node.load(*DRIVER)
    bed.node.process(9, daemon, "/dev/nvidia-nvswitchctl", pod=POD)
    bed.node.note(files.LOCK, "9")
    said = bed.prepare()
    assert (said.reason, decide.exit_code(said)) == ("DevicesHeld", WAIT)
    assert daemon[:15] in said.message
    assert bed.node.loaded() == set(DRIVER), "a driver is unloaded whole, or not at all"


def test_half_an_unloading_is_gone_on_with_and_never_taken_for_a_whole_driver(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.note(files.STATE, "another")
    bed.node.use("nvidia", 1)
    assert bed.refused() == ("OldDriverStuck", NODE)
    assert bed.node.loaded() == {"nvidia"}
    bed.node.use("nvidia", -1)
    back = Wanted("another", compiled=True, version=VERSION)
    assert bed.prepare(back).result == "Clean", "module nvidia alone is no driver"


def test_a_module_that_stays_on_its_way_out_needs_a_reboot(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.kernel.wedged = ("nvidia_uvm",)
    assert bed.refused() == ("RebootRequired", NODE)
    assert bed.time.now >= 60


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_a_kernel_that_unloads_nothing_is_told(bed: Bed, error: int) -> None:
    bed.node.load(*DRIVER)
    bed.kernel.refuses = error
    assert bed.refused() == ("OldDriverStuck", NODE)


def test_the_hosts_own_driver_is_left_alone(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.machine.write("usr/lib64/libnvidia-ml.so.1")
    assert bed.refused() == ("HostDriver", NODE)
    assert bed.kernel.told == []


def test_a_former_driver_that_ends_is_waited_for(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    with bed.node.note(files.LOCK, "1").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        bed.time.later.append((100, lambda: fcntl.flock(file, fcntl.LOCK_UN)))
        assert bed.prepare().result == "Clean"
    assert bed.time.now >= 100


def test_a_former_driver_that_does_not_end_is_told_and_keeps_its_modules(bed: Bed) -> None:
    bed.node.load(*DRIVER)
    bed.node.process(41, "nvidia-driver", pod=POD)
    with bed.node.note(files.LOCK, "41").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        said = bed.prepare()
    assert (said.reason, decide.exit_code(said)) == ("DriverLocked", NODE)
    assert f"end nvidia-driver (41, pod {POD}), and leave the file" in said.message
    assert bed.kernel.told == []
    assert 180 <= bed.time.now < 200


def test_nouveau_makes_room_or_wants_a_reboot(bed: Bed) -> None:
    bed.node.load("nouveau")
    assert bed.prepare().result == "Clean"
    assert bed.kernel.told == ["nouveau"]
    bed.node.load("nouveau")
    bed.node.use("nouveau", 1)
    assert bed.refused() == ("NouveauLoaded", NODE)


@pytest.mark.parametrize("whose", ["host", "container"])
def test_mofed_is_waited_for_where_a_card_of_mellanox_is(tmp_path: Path, whose: str) -> None:
    bed = Bed(tmp_path)
    wanted = Wanted(DIGEST, compiled=True, mofed=whose)
    assert bed.prepare(wanted).result == "Clean", "without such a card there is nothing to wait for"

    bed = Bed(tmp_path / "with", "h100-8")
    assert bed.refused(wanted) == ("MofedMissing", WAIT)
    assert MOFED_SECONDS <= bed.time.now < PRECOMPILED_LIMIT / 4, "it is told long before the node has failed by time"
    begun = bed.time.now

    def comes() -> None:
        if whose == "host":
            (bed.node.sys / "module" / "mlx_compat").mkdir(parents=True)
        else:
            bed.node.machine.write("run/mellanox/drivers/.driver-ready")

    bed.time.later.append((begun + 50, comes))
    assert bed.prepare(wanted).result == "Clean"
    assert bed.time.now - begun < 60


def test_a_root_that_cannot_be_unmounted_is_told(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.node.mounts(bed.node.run / "driver")

    def refuses(path: Path) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(bed.kernel, "unmount", refuses)
    assert bed.refused() == ("OldDriverStuck", NODE)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_there_nobody_loses_a_driver_and_a_second_run_has_nothing_left_to_do(
    tmp_path: Path, seed: int
) -> None:
    """Of random nodes: a driver that is in use stays as it was; after Clean nothing is loaded, and again nothing."""
    dice = random.Random(seed)
    bed = Bed(tmp_path)
    if dice.random() < 0.8:
        bed.node.load(
            "nvidia", *dice.sample(["nvidia_uvm", "nvidia_modeset", "nvidia_fs", "gdrdrv"], dice.randrange(5))
        )
    for name in (files.STATE, files.MARK):
        if dice.random() < 0.5:
            bed.node.note(name, dice.choice([DIGEST, "another"]))
    used = dice.random() < 0.5
    if used:
        bed.node.process(7, "train", "/dev/nvidia0")
        if (bed.node.sys / "module/nvidia").exists():
            bed.node.use(dice.choice(sorted(bed.node.loaded() & {"nvidia", "nvidia_uvm"})), 1)
    before, wanted = bed.node.loaded(), dice.choice([COMPILED, PRECOMPILED])
    said = bed.prepare(wanted)
    if used and before:
        assert bed.node.loaded() == before
        assert said.result != "Clean"
    if said.result == "Clean":
        assert not bed.node.loaded()
        told = list(bed.kernel.told)
        assert bed.prepare(wanted).result == "Clean"
        assert bed.kernel.told == told
    elif said.result == "FastPath":
        assert bed.node.loaded() == before


def test_the_program_says_whose_fault_it_is_and_leaves_a_note_for_who_reboots(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentinel = tmp_path / "reboot-required"
    flags = [
        f"--{key}={path}" for key, path in (("sys", bed.node.sys), ("proc", bed.node.proc), ("root", bed.node.root))
    ]
    flags += [f"--run={bed.node.run}", f"--digest={DIGEST}", "--mode=Compiled", f"--reboot-sentinel={sentinel}"]
    assert run(["prepare", *flags]) == DONE
    assert not sentinel.exists()
    bed.node.load("nvidia")
    (bed.node.sys / "module/nvidia/initstate").write_text("going\n")
    monkeypatch.setattr("nodeagent.driver.prepare.GOING_SECONDS", 0)
    assert run(["prepare", *flags]) == NODE
    assert sentinel.exists()
    assert '"reason":"RebootRequired"' in capsys.readouterr().out


def test_every_reason_of_a_refusal_is_in_the_catalogue() -> None:
    known = {reason for row in driver_failed.ROWS for _, _, reason in row.cells()}
    assert set(decide.CODES) <= known
    assert set(decide.CODES.values()) <= {WAIT, NODE}
