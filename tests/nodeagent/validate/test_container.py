"""Role `container` on the files of simulated machines: does a container of NVIDIA's runtime see the cards?"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controllers.api import validation
from nodeagent.host import procfs
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.paths import HostPaths
from nodeagent.validate.checks import devices, report
from nodeagent.validate.checks.facts import Node
from nodeagent.validate.scanner import NodeScanner
from sim.nvml import build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.validate.machine import Machine, machine

if TYPE_CHECKING:
    from pathlib import Path

    from nodeagent.validate.checks.facts import Facts


async def look(at: Machine, *, void: bool = False, deadline: float = PATIENCE) -> Facts:
    asker = DriverProbe(lambda: (at.own,), Timing(deadline=deadline))
    told = {"NVIDIA_VISIBLE_DEVICES": "void" if void else "all"}
    facts = await NodeScanner(validation.CONTAINER, HostPaths(at.sys, at.proc, at.root), asker, at.own, told).scan()
    await asker.close()
    return facts


async def told(at: Machine, *, void: bool = False, deadline: float = PATIENCE) -> dict[str, str]:
    facts = await look(at, void=void, deadline=deadline)
    return report.attributes(validation.CONTAINER, facts, report.evaluate(validation.CONTAINER, facts))


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = machine(tmp_path)
    for name, value in environment(build(), made.nvml).items():
        monkeypatch.setenv(name, value)
    return made


async def test_a_container_that_sees_all_cards_passes(at: Machine) -> None:
    assert await told(at) == {
        "container": "ok", "container.boot_id": "c0ffee00-1111-4222-8333-444455556666",
        "container.version": at.version, "container.load": procfs.load(at.sys), "container.cards": "8",
        "container.checks_unknown": "cuda,cdi",
        "container.injection": "runtime", "container.cdi": "absent", "container.persistence": "on",
        "container.cuda_version": at.cuda,
    }  # fmt: skip


async def test_it_tells_that_cdi_brought_the_devices(at: Machine) -> None:
    at.cdi(list(range(8)), at.version)
    found = await told(at, void=True)
    assert (found["container"], found["container.injection"], found["container.cdi"]) == ("ok", "cdi", "ok")
    assert found["container.checks_unknown"] == "cuda", "nobody tries it in these tests; see test_cuda.py"


def plain_container(at: Machine) -> None:
    at.remove(*(path.name for path in (at.own / "dev").iterdir()))
    at.uninstall(at.own)


def no_control(at: Machine) -> None:
    at.remove("nvidiactl")


def no_uvm(at: Machine) -> None:
    at.remove("nvidia-uvm")


def other_libraries(at: Machine) -> None:
    at.install(at.own, "999.1.2", "libcuda.so")


def no_cuda(at: Machine) -> None:
    for path in (at.own / "usr" / "lib" / "x86_64-linux-gnu").glob("libcuda*"):
        path.unlink()


def mismatch(at: Machine) -> None:
    at.config.also("version_mismatch").write(at.nvml)


def other_module(at: Machine) -> None:
    """A new module is loaded while this container keeps the old libraries."""
    at.reports_version("999.1.2")


def driver_fails(at: Machine) -> None:
    at.config.also("unknown nvmlInit").write(at.nvml)


def module_gone(at: Machine) -> None:
    at.unload()


@pytest.mark.parametrize(
    ("harm", "reason", "says"),
    [
        (plain_container, "DevicesMissing", "the container has no /dev/nvidia*: the runtime's handler nvidia did not"),
        (no_control, "DevicesMissing", "no /dev/nvidiactl"),
        (no_uvm, "DevicesMissing", "nvidia-modprobe -u"),
        (other_libraries, "LibraryMismatch", "in the container libcuda.so is 999.1.2"),
        (no_cuda, "LibraryMissing", "NVIDIA_DRIVER_CAPABILITIES"),
        (mismatch, "LibraryMismatch", "RM has detected an NVML/RM version mismatch; reboot the node"),
        (other_module, "LibraryMismatch", "while the loaded kernel module is 999.1.2"),
        (driver_fails, "NVMLFailed", "Unknown Error"),
        (module_gone, "ModuleNotLoaded", "kernel module nvidia is not loaded"),
    ],
)
async def test_each_trouble_of_the_node_has_a_name(at: Machine, harm, reason: str, says: str) -> None:
    harm(at)
    found = await told(at)
    assert (found["container"], found["container.reason"]) == ("failed", reason)
    assert says in found["container.message"]


async def test_without_a_handler_in_the_configuration_it_says_so(at: Machine) -> None:
    plain_container(at)
    (at.root / "etc" / "containerd" / "config.toml").unlink()
    assert "names no handler of NVIDIA's" in (await told(at))["container.message"]


async def test_a_hanging_driver_is_named_after_the_deadline(at: Machine) -> None:
    at.config.also("hang nvmlInit 600").write(at.nvml)
    found = await told(at, deadline=0.5)
    assert (found["container"], found["container.reason"]) == ("failed", "DriverHangs")
    assert "no answer in 0.5 s" in found["container.message"]


@pytest.mark.parametrize("fault", ["lost", "fallen_off_bus"])
async def test_a_lost_card_fails_alone(at: Machine, fault: str) -> None:
    at.config.card(at.addresses[3], fault).write(at.nvml)
    found = await told(at)
    assert (found["container"], found["container.cards"]) == ("ok", "7")
    assert (found["container.reason"], found["container.cards_failed"]) == ("CardLost", at.addresses[3])
    assert "7 of 8 cards" in found["container.message"]


async def test_seven_of_eight_device_nodes_leave_seven_cards(at: Machine) -> None:
    at.remove("nvidia5")
    found = await told(at)
    assert (found["container"], found["container.cards"]) == ("ok", "7")
    assert (found["container.reason"], found["container.cards_failed"]) == ("DeviceMissing", at.addresses[5])


async def test_a_node_whose_every_card_fails_alone_fails(at: Machine) -> None:
    at.remove(*(f"nvidia{minor}" for minor in range(8)))
    found = await told(at)
    assert (found["container"], found["container.reason"], found["container.cards"]) == ("failed", "DeviceMissing", "0")


async def test_device_nodes_older_than_the_driver_are_told(at: Machine) -> None:
    facts = await look(at)
    nodes = {"nvidiactl": Node(195, 255), "nvidia0": Node(195, 0), "nvidia-uvm": Node(511, 0)}
    check = devices.inside(replace(facts, nodes=nodes))
    assert (check.result, check.reason) == ("failed", "DeviceStale")
    assert check.message.startswith("/dev/nvidia-uvm have other numbers")
    nodes["nvidia-uvm"] = Node(508, 0)
    check = devices.inside(replace(facts, nodes=nodes))
    assert check.cards == tuple(at.addresses[1:])  # those seven are not there; the numbers are right


@pytest.mark.parametrize(
    ("minors", "version", "text", "reason"),
    [
        (range(7), None, None, "CDIIncomplete"),
        (range(8), "999.1.2", None, "CDIStale"),
        (range(8), None, "{", "CDIBroken"),
        (range(8), None, "", "CDIBroken"),
        (range(8), None, "kind: nvidia.com/gpu\ndevices: 5", "CDIBroken"),
    ],
)
async def test_a_bad_specification_is_told_and_withdraws_no_card_that_works(
    at: Machine, minors, version: str | None, text: str | None, reason: str
) -> None:
    path = at.cdi(list(minors), version or at.version)
    if text is not None:
        path.write_text(text)
    for void, injection in ((False, "runtime"), (True, "cdi")):
        found = await told(at, void=void)
        assert (found["container"], found["container.injection"], found["container.cards"]) == ("ok", injection, "8")
        assert (found["container.cdi"], found["container.reason"]) == ("failed", reason)
        assert "nvidia-ctk cdi generate" in found["container.message"]


async def test_other_vendors_specifications_are_no_concern(at: Machine) -> None:
    at.cdi(list(range(8)), at.version)
    other = at.root / "etc" / "cdi" / "other.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"kind": "vendor.com/net", "devices": [{"name": "0"}]}')
    assert (await told(at))["container.cdi"] == "ok"


async def test_a_copy_in_proc_of_an_earlier_driver_is_not_believed(at: Machine) -> None:
    (at.sys / "module" / "nvidia" / "version").write_text("999.1.2\n")
    facts = await look(at)
    assert (facts.version, facts.taken, facts.form) == ("999.1.2", None, "")
    assert devices.inside(facts).reason == "ProcOfOldDriver"
    found = await told(at)
    assert (found["container"], found["container.reason"]) == ("failed", "LibraryMismatch")


async def test_a_module_that_is_gone_behind_its_copy_in_proc_is_not_loaded(at: Machine) -> None:
    shutil.rmtree(at.sys / "module" / "nvidia")
    assert (at.proc / "driver" / "nvidia" / "version").exists()
    found = await told(at)
    assert (found["container"], found["container.reason"]) == ("failed", "ModuleNotLoaded")
