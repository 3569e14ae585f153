"""Pods of drivers as the simulation plays them: from one look to the next, with what befalls them.

Their words are read by the code that reads a real kubelet's and a real agent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from controllers.api import names as api
from controllers.api.gpudriver import GPUDriver, GPUDriverSpec
from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta
from controllers.api.record import adapter, to_json
from controllers.domain.driver.choice import Install
from controllers.domain.driver.variant import Variant
from controllers.driver.node import look as process_look
from controllers.driver.node import pod as process_pod
from controllers.driver.node.verdict import PENDING
from controllers.driver.pods import build, checks
from controllers.driver.records import Pod as ProcessPod
from sim.hardware import load
from sim.nodes import discover, modules, names
from sim.nodes.driver import check, install, registry
from sim.nodes.driver.act import Played
from sim.nodes.driver.scene import Scene
from sim.nodes.faults import DRIVER_KINDS
from sim.nodes.machine import machine
from sim.nodes.modules import Loaded
from sim.nodes.pods import Pod
from tools.errors import UserError

CATALOGUE = load()
BOOT = "boot-1"
START = 1_750_000_000.0
VERSION = "595.91.07"
IMAGE = f"nvcr.io/nvidia/driver:{VERSION}-ubuntu24.04"
DRIVER = GPUDriver(metadata=ObjectMeta(name="main", uid="u"), spec=GPUDriverSpec(version=VERSION))

MARKS: Mapping[str, str] = MappingProxyType({})


def chosen(image: str = IMAGE, mode: Any = "Compiled") -> Install:
    kernel = "" if mode == "Compiled" else "6.8.0-71-generic"
    variant = Variant("0123456789", "ubuntu24.04", kernel)
    return Install(variant=variant, mode=mode, image=image, version=VERSION)


class Stage:
    """A bare node, a pod on it, and the time that goes by."""

    def __init__(self, body: dict[str, Any], fault: str, marks: Mapping[str, str], *, daemonset: bool) -> None:
        owner = [{"kind": "DaemonSet", "name": "gpu-driver-x", "uid": "d"}] if daemonset else []
        meta = {**body["metadata"], "name": "pod", "namespace": api.NAMESPACE, "uid": "p", "ownerReferences": owner}
        self.raw: dict[str, Any] = {"metadata": meta, "spec": body["spec"], "status": {"phase": "Pending"}}
        self.annotations = {
            names.SHAPE: "t4-4",
            names.SYSTEM: "ubuntu24.04",
            names.HOST: "bare",
            names.FAULT: fault,
            names.TAKES: "pull=5,prepare=2,install=20",
            **marks,
        }
        self.boot, self.now = BOOT, START
        self.secrets: dict[str, frozenset[str]] = {}
        self.reboots = 0

    @property
    def node(self) -> Node:
        body = {
            "metadata": {"name": "n", "annotations": self.annotations},
            "status": {"nodeInfo": {"bootID": self.boot}},
        }
        return adapter(Node).validate_python(body)

    @property
    def pod(self) -> Pod:
        return adapter(Pod).validate_python(self.raw)

    @property
    def scene(self) -> Scene:
        made = machine(self.node, None, CATALOGUE)
        return Scene(made, self.boot, modules.noted(self.node), frozenset(), self.secrets)

    def look(self) -> float | None:
        """One look; returns when the next one is due."""
        if not self.pod.kept:
            step = check.step(self.pod, self.scene, self.annotations, self.now)
        else:
            played = install.step(self.pod, self.scene, self.annotations, self.now)
            step = played.step
            self._kernel(played)
        if step.status is not None:
            self.raw["status"] = step.status
        return step.after

    def _kernel(self, played: Played) -> None:
        """What becomes of the modules, and of the boot."""
        told: Loaded | None = None
        if played.reboots:
            told = Loaded("", self.boot, rebooted=True)
            self.boot, self.reboots = f"{self.boot}+", self.reboots + 1
        elif played.modules is not None:
            told = played.modules
        elif not played.unloaded:
            return
        text = modules.text(told)
        self.annotations = {key: value for key, value in self.annotations.items() if key != names.MODULES}
        self.annotations |= {names.MODULES: text} if text else {}

    def play(self, seconds: float) -> None:
        """Look whenever that is due, for so long."""
        end = self.now + seconds
        while (after := self.look()) is not None and self.now + after <= end:
            self.now += max(after, 0.05)
        self.now = end

    @property
    def outcome(self) -> process_pod.Outcome:
        """What gpu-driver-controller makes of the driver's pod."""
        return process_pod.outcome(adapter(ProcessPod).validate_python(self.raw))

    @property
    def verdict(self) -> process_look.Verdict:
        """What it makes of the check pod."""
        found = adapter(ProcessPod).validate_python(self.raw)
        image = next(one["image"] for one in self.raw["spec"]["containers"] if one["name"] == check.IMAGE)
        return process_look.verdict(found, chosen(image), DRIVER.spec, "n")


def driver_pod(fault: str = "", marks: Mapping[str, str] = MARKS) -> Stage:
    template = build.daemonset(DRIVER, chosen(), "agent")["spec"]["template"]
    return Stage(template, fault, marks, daemonset=True)


def check_pod(fault: str = "", marks: Mapping[str, str] = MARKS, driver: GPUDriver = DRIVER) -> Stage:
    return Stage(checks.check_pod(driver, "n", chosen(), "agent"), fault, marks, daemonset=False)


def test_a_driver_is_installed_in_its_time() -> None:
    stage = driver_pod()
    stage.play(21)
    assert (stage.pod.ready, stage.pod.status.phase, stage.scene.loaded) == (False, "Running", None)
    stage.play(3)
    assert stage.pod.ready
    assert stage.outcome.serves
    loaded = stage.scene.loaded
    assert loaded is not None
    assert (loaded.version, loaded.flavour, loaded.revision) == (VERSION, "open", "0123456789")
    before = stage.raw["status"]
    assert stage.look() is None, "nothing is awaited"
    assert stage.raw["status"] is before, "and nothing is written"


def test_before_it_there_is_no_driver_and_with_it_there_is_that_of_its_image() -> None:
    stage = driver_pod()
    bare = discover.features("n", BOOT, machine(stage.node, None, CATALOGUE))
    assert api.FEATURE_DRIVER not in bare["attributes"]
    stage.play(30)
    told = discover.features("n", BOOT, machine(stage.node, None, CATALOGUE))["attributes"]
    elements = told[api.FEATURE_DRIVER]["elements"]
    assert (elements["version"], elements["cuda_version"], elements["root"]) == (VERSION, "13.2", "/run/nvidia/driver")
    assert told[api.FEATURE_SYSTEM]["elements"]["driver.source"] == "container"


@pytest.mark.parametrize(
    ("kind", "reason", "fault"),
    [
        ("pull-missing", "PullFailed", None),
        ("header-missing", "HeadersMissing", "node"),
        ("insmod-fails", "UnknownSymbol", "revision"),
        ("wedged-going", "RebootRequired", "node"),
    ],
)
def test_what_befalls_an_installation_is_read_as_what_it_is(kind: str, reason: str, fault: str | None) -> None:
    stage = driver_pod(f"driver@{VERSION}={kind}")
    stage.play(120)
    assert (stage.outcome.reason, stage.outcome.fault) == (reason, fault), stage.raw["status"]
    assert stage.scene.loaded is None
    stage.annotations[names.FAULT] = "driver@580.178.04=" + kind
    stage.play(60)
    assert stage.outcome.serves, "another version's fault befalls nobody here, and kubelet has tried again"


def test_an_installation_that_hangs_is_ended_by_its_probe() -> None:
    stage = driver_pod("driver=hang")
    stage.play(1200)
    assert stage.outcome == process_pod.Outcome()
    stage.play(100)
    assert stage.raw["status"]["containerStatuses"][0]["restartCount"] == 1


def test_a_node_that_is_rebooted_half_way_begins_again_and_once() -> None:
    stage = driver_pod("driver=reboot-in-Installing")
    stage.play(15)
    assert stage.reboots == 1
    stage.play(60)
    assert (stage.reboots, stage.pod.ready) == (1, True)


def test_modules_end_with_the_boot_and_come_again() -> None:
    stage = driver_pod()
    stage.play(30)
    stage.boot = "boot-2"
    stage.look()
    assert (stage.pod.ready, stage.scene.loaded) == (False, None)
    stage.play(30)
    assert stage.pod.ready
    assert stage.scene.loaded is not None


def test_the_first_card_has_an_error_ten_seconds_after_the_driver() -> None:
    stage = driver_pod("driver=xid-after-10-s")
    stage.play(25)
    assert not machine(stage.node, None, CATALOGUE).faults.signs
    stage.play(15)
    made = machine(stage.node, None, CATALOGUE)
    assert {address: signs.xid for address, signs in made.faults.signs.items()} == {made.cards[0].address: 79}


def test_a_driver_may_leave_out_a_card() -> None:
    stage = driver_pod("driver=card-lost")
    assert not machine(stage.node, None, CATALOGUE).faults.not_started
    stage.play(30)
    made = machine(stage.node, None, CATALOGUE)
    assert made.faults.not_started == {made.cards[-1].address}


@pytest.mark.parametrize(
    ("fault", "marks", "reason"),
    [
        ("", {}, None),
        ("driver=pull-missing", {}, "ImageMissing"),
        ("driver=header-missing", {}, "HeadersMissing"),
        ("driver=disk-full", {}, "DiskFull"),
        ("driver=holder-process", {}, "DevicesHeld"),
        ("", {names.HOST: "bare,secure-boot"}, "ModulesUnsigned"),
        ("", {names.HOST: "bare,lockdown=integrity"}, "ModulesUnsigned"),
        ("", {names.HOST: ""}, "HostDriver"),
        ("", {names.SHAPE: "no-gpu"}, "PreflightFailed"),
    ],
)
def test_a_look_finds_what_is_there(fault: str, marks: dict[str, str], reason: str | None) -> None:
    stage = check_pod(fault, marks)
    stage.look()
    assert stage.verdict == PENDING
    stage.play(6)
    assert stage.verdict.reason == reason, stage.raw["status"]
    assert stage.verdict.good is (reason is None)


def test_an_image_that_comes_later_is_found_then() -> None:
    stage = check_pod("driver=pull-missing")
    stage.play(10)
    assert stage.verdict.image_missing
    stage.annotations[names.FAULT] = ""
    stage.play(15)
    assert stage.verdict.good


def test_a_slow_pull_takes_its_time() -> None:
    stage = check_pod("driver=pull-slow")
    stage.play(110)
    assert stage.verdict == PENDING
    stage.play(20)
    assert stage.verdict.good


def test_a_secret_that_is_not_there_keeps_a_pod_from_starting() -> None:
    spec = replace(DRIVER.spec, licensing=replace(DRIVER.spec.licensing, secret_name="licence"))
    stage = check_pod(driver=replace(DRIVER, spec=spec))
    stage.play(20)
    assert stage.verdict.reason == "SecretMissing"
    assert "licence" in stage.verdict.message
    stage.secrets = {"licence": frozenset(("gridd.conf", "client_configuration_token.tok"))}
    stage.play(20)
    assert stage.verdict.good


@pytest.mark.parametrize(
    ("image", "there", "version"),
    [
        ("nvcr.io/nvidia/driver:580.178.04-ubuntu22.04", True, "580.178.04"),
        ("nvcr.io/nvidia/driver:999.1.1-ubuntu22.04", False, "999.1.1"),
        ("nvcr.io/nvidia/driver:580-6.8.0-71-generic-ubuntu24.04", True, "580.178.04"),
        ("nvcr.io/nvidia/driver:610-6.8.0-71-generic-ubuntu24.04", False, "610.57.04"),
        ("nvcr.io/nvidia/driver:580-6.8.0-71-lowlatency-ubuntu24.04", False, "580.178.04"),
        ("nvcr.io/nvidia/driver:580.178.04-debian12", False, "580.178.04"),
        ("mirror:5000/driver:999.1.1-debian12", True, "999.1.1"),
        ("mirror:5000/driver@sha256:aa", True, "610.57.04"),
    ],
)
def test_the_registry_has_what_is_published(image: str, there: bool, version: str) -> None:
    assert (registry.exists(image), registry.version(image)) == (there, version)


def test_every_fault_of_drivers_is_one_that_is_known() -> None:
    text = ",".join(f"driver={kind}" for kind in sorted(DRIVER_KINDS))
    made = machine(driver_pod(text).node, None, CATALOGUE)
    assert not made.faults.unknown
    assert made.faults.of_driver("1.2.3") == DRIVER_KINDS
    wrong = machine(driver_pod("driver=nothing,driver@=hang,driver@1.2").node, None, CATALOGUE)
    assert len(wrong.faults.unknown) == 3


def test_a_system_that_is_not_in_the_catalogue_is_told() -> None:
    stage = driver_pod(marks={names.SYSTEM: "plan9"})
    with pytest.raises(UserError, match="no system 'plan9'"):
        machine(stage.node, None, CATALOGUE)


def test_a_host_says_what_it_is() -> None:
    words = "bare,secure-boot,next-kernel=6.8.0-79-generic,runtime=cri-o,nonsense"
    stage = driver_pod(marks={names.HOST: words, names.SYSTEM: "rhel9"})
    made = machine(stage.node, None, CATALOGUE).host
    facts = to_json(made.facts(""))
    assert facts["system"] == "rhel9"
    assert facts["osVersion"] == "9.6"
    assert (made.next_kernel, made.secure_boot, made.runtime) == ("6.8.0-79-generic", True, "cri-o")
    assert made.unknown == ("nonsense",)
