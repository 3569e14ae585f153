"""Role `driver` on the files of simulated machines: what is wrong has a name, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import validation
from nodeagent.host import procfs
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.paths import HostPaths
from nodeagent.validate.checks import report
from nodeagent.validate.scanner import NodeScanner
from sim.nvml import build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.validate.machine import LIBRARIES, Machine, machine

if TYPE_CHECKING:
    from pathlib import Path


async def told(at: Machine) -> dict[str, str]:
    """What is published of one look, and beside it what a reader makes of it."""
    where = HostPaths(at.sys, at.proc, at.root)
    asker = DriverProbe(where.library_roots, Timing(deadline=PATIENCE))
    looker = NodeScanner(validation.DRIVER, where, asker, at.own, {})
    facts = await looker.scan()
    await asker.close()
    return report.attributes(validation.DRIVER, facts, report.evaluate(validation.DRIVER, facts))


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine in order, and its driver's library for every program that the test starts."""
    made = machine(tmp_path)
    for name, value in environment(build(), made.nvml).items():
        monkeypatch.setenv(name, value)
    return made


async def test_a_driver_in_order_passes_with_all_cards(at: Machine) -> None:
    assert await told(at) == {
        "driver": "ok", "driver.boot_id": "c0ffee00-1111-4222-8333-444455556666", "driver.version": at.version,
        "driver.load": procfs.load(at.sys), "driver.cards": "8", "driver.module": "proprietary",
        "driver.checks_unknown": "devices",
    }  # fmt: skip


async def test_it_passes_where_nvml_cannot_be_reached(at: Machine) -> None:
    at.config.also("no_permission nvmlInit", "unknown nvmlInit").write(at.nvml)
    found = await told(at)
    assert found["driver"] == "ok"
    assert found["driver.checks_unknown"] == "devices,nvml"
    assert "driver.reason" not in found


def not_loaded(at: Machine) -> None:
    at.unload()


def nouveau(at: Machine) -> None:
    at.unload()
    (at.sys / "module" / "nouveau").mkdir()
    at.bind(at.addresses[0], "nouveau")


def half_upgraded(at: Machine) -> None:
    at.install(at.root, "999.1.2")


def links_left_behind(at: Machine) -> None:
    """The right files are there too; what programs load is the other."""
    folder = at.root / LIBRARIES
    (folder / "libcuda.so.999.1.2").write_text("")
    (folder / "libcuda.so.1").unlink()
    (folder / "libcuda.so.1").symlink_to("libcuda.so.999.1.2")


def no_library(at: Machine) -> None:
    at.uninstall(at.root)


def all_given_away(at: Machine) -> None:
    for address in at.addresses:
        at.bind(address, "vfio-pci")


def no_cards(at: Machine) -> None:
    for link in (at.sys / "bus" / "pci" / "devices").iterdir():
        link.unlink()


def no_firmware(at: Machine) -> None:
    at.reports_version(at.version, form="Open Kernel Module for x86_64 ")
    (at.root / "usr" / "lib" / "firmware").mkdir(parents=True)


def no_number(at: Machine) -> None:
    (at.proc / "devices").write_text("Character devices:\n  1 mem\n")


def not_started(at: Machine) -> None:
    for folder in (at.proc / "driver" / "nvidia" / "gpus").iterdir():
        (folder / "information").unlink()
        folder.rmdir()


@pytest.mark.parametrize(
    ("harm", "reason", "says"),
    [
        (not_loaded, "ModuleNotLoaded", "kernel module nvidia is not loaded"),
        (nouveau, "NouveauLoaded", "blacklist nouveau"),
        (half_upgraded, "LibraryMismatch", "libnvidia-ml.so is 999.1.2, libcuda.so is 999.1.2, while the loaded"),
        (links_left_behind, "LibraryMismatch", "libcuda.so is 999.1.2"),
        (no_library, "LibraryMissing", "install the driver's user-space packages"),
        (all_given_away, "NoCardBound", "(vfio-pci)"),
        (no_cards, "NoCards", "no NVIDIA card is on the PCI bus"),
        (no_firmware, "FirmwareMissing", "firmware package of the same version"),
        (no_number, "DeviceNumberMissing", "/proc/devices"),
        (not_started, "CardNotStarted", "see dmesg"),
    ],
)
async def test_each_trouble_of_the_node_has_a_name(at: Machine, harm, reason: str, says: str) -> None:
    harm(at)
    found = await told(at)
    assert (found["driver"], found["driver.reason"]) == ("failed", reason)
    assert says in found["driver.message"]
    assert found["driver.cards"] == "0"


async def test_a_card_given_to_vfio_is_no_trouble(at: Machine) -> None:
    at.bind(at.addresses[2], "vfio-pci")
    found = await told(at)
    assert (found["driver"], found["driver.cards"]) == ("ok", "7")
    assert "driver.reason" not in found


async def test_a_card_without_a_driver_fails_alone(at: Machine) -> None:
    at.bind(at.addresses[2], "")
    found = await told(at)
    assert (found["driver"], found["driver.cards"]) == ("ok", "7")
    assert (found["driver.reason"], found["driver.cards_failed"]) == ("CardNotBound", at.addresses[2])


async def test_a_lost_card_fails_alone_and_the_other_cards_pass(at: Machine) -> None:
    at.config.card(at.addresses[1], "lost").write(at.nvml)
    found = await told(at)
    assert (found["driver"], found["driver.cards"]) == ("ok", "7")
    assert (found["driver.reason"], found["driver.cards_failed"]) == ("CardLost", at.addresses[1])
    assert validation.read(found, "driver").cards_failed == (at.addresses[1],)


async def test_the_open_module_with_its_firmware_passes(at: Machine) -> None:
    no_firmware(at)
    folder = at.root / "usr" / "lib" / "firmware" / "nvidia" / at.version
    folder.mkdir(parents=True)
    (folder / "gsp_ga10x.bin").write_text("")
    found = await told(at)
    assert (found["driver"], found["driver.module"]) == ("ok", "open")


async def test_what_cannot_be_seen_is_unknown_and_no_failure(at: Machine) -> None:
    (at.root / "usr").rename(at.root / "away")
    found = await told(at)
    assert (found["driver"], found["driver.reason"]) == ("unknown", "HostFilesNotVisible")
    (at.sys / "bus" / "pci" / "devices").rename(at.sys / "away")
    assert (await told(at))["driver.reason"] == "BusNotVisible"


async def test_a_copy_in_proc_of_an_earlier_driver_fails_no_card(at: Machine) -> None:
    (at.proc / "driver" / "nvidia" / "version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  1.2.3  Wed\n"
    )
    not_started(at)
    found = await told(at)
    assert (found["driver"], found["driver.cards"]) == ("ok", "8")
    assert "taken" in found["driver.checks_unknown"].split(",")


# --- a driver in a container --------------------------------------------------------------------------------------


async def test_a_driver_in_a_container_passes_and_is_gone_with_it(at: Machine) -> None:
    """At each look anew: the host never had its libraries."""
    at.uninstall(at.root)
    at.contain(at.version)
    found = await told(at)
    assert (found["driver"], found["driver.cards"]) == ("ok", "8")

    at.end_container()
    found = await told(at)
    assert (found["driver"], found["driver.reason"]) == ("failed", "LibraryMissing")
    assert "not found on the host; install the driver's user-space packages" in found["driver.message"]
    assert "(nor does /run/nvidia/driver have libnvidia-ml.so.1" in found["driver.message"]
    at.contain(at.version)
    assert (await told(at))["driver"] == "ok"


async def test_only_the_root_that_is_found_counts(at: Machine) -> None:
    """The host has the right libraries; what programs get are the container's."""
    at.contain("999.1.2")
    found = await told(at)
    assert (found["driver"], found["driver.reason"]) == ("failed", "LibraryMismatch")
    assert found["driver.message"].startswith("in /run/nvidia/driver libnvidia-ml.so is 999.1.2, libcuda.so is 999.1.2")
    assert "two drivers" in found["driver.message"]
    at.end_container()
    assert (await told(at))["driver"] == "ok"


async def test_half_a_driver_in_a_container_is_told_with_its_place(at: Machine) -> None:
    for library in (at.contain(at.version) / LIBRARIES).glob("libcuda.so.*"):
        library.unlink()
    found = await told(at)
    assert found["driver.reason"] == "LibraryMissing"
    assert "libcuda.so of driver" in found["driver.message"]
    assert "not found in /run/nvidia/driver; see the log of the driver's container" in found["driver.message"]


async def test_firmware_is_the_containers_or_where_the_kernel_was_told_to_look(at: Machine) -> None:
    no_firmware(at)
    root = at.contain(at.version)
    assert (await told(at))["driver.reason"] == "FirmwareMissing"
    folder = root / "lib" / "firmware" / "nvidia" / at.version
    folder.mkdir(parents=True)
    (folder / "gsp_ga10x.bin").write_text("")
    assert (await told(at))["driver"] == "ok"


async def test_device_nodes_are_looked_for_where_the_driver_has_them(at: Machine) -> None:
    """In a `dev` of its own; without one, in the host's, which is not mounted."""
    dev = at.contain(at.version) / "dev"
    assert "devices" in (await told(at))["driver.checks_unknown"]
    dev.mkdir()
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(8))):
        (dev / name).write_text("")
    assert "driver.checks_unknown" not in await told(at)
    (dev / "nvidia7").unlink()
    assert (await told(at))["driver.checks_unknown"] == "devices"


async def test_a_driver_whose_container_does_nothing_is_told(at: Machine) -> None:
    hold = at.root / "run/nvidia/gpu-control-plane/hold"
    hold.parent.mkdir(parents=True)
    hold.touch()
    found = await told(at)
    assert (found["driver"], found["driver.reason"]) == ("failed", "DriverHeld")
    assert "force=true" in found["driver.message"]
    hold.unlink()
    assert (await told(at))["driver"] == "ok"
