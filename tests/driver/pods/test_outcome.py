"""What kubelet says of a driver's pod whose containers do not start, or end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.api.driver_look import DONE, Look, Module
from controllers.api.gpudriver import GPUDriverSpec
from controllers.api.meta import ObjectMeta
from controllers.domain.driver.choice import Install
from controllers.driver.node import look, pod
from controllers.driver.node.fitness import assess
from controllers.driver.node.verdict import GOOD, PENDING
from controllers.driver.pods.container_names import DRIVER, FS, GDRCOPY, IMAGE, LOOK, PEERMEM, PREPARE, image_of
from controllers.driver.records import ContainerState, ContainerStatus, DriverPodStatus, Pod, Terminated, Waiting
from nodeagent.driver import message
from tests.driver.pods.make import COMPILED, EVERYTHING, driver

ABSENT = "failed to resolve reference: not found"


def of(*statuses: ContainerStatus) -> Pod:
    return Pod(metadata=ObjectMeta(name="x"), status=DriverPodStatus(container_statuses=statuses))


def waits(name: str, word: str, said: str) -> ContainerStatus:
    return ContainerStatus(name=name, state=ContainerState(waiting=Waiting(reason=word, message=said)))


def ends(name: str, code: int, said: str = "", restarts: int = 0) -> ContainerStatus:
    ended = ContainerState(terminated=Terminated(exit_code=code, message=said))
    return ContainerStatus(name=name, state=ended, restart_count=restarts)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("CreateContainerConfigError", "SecretMissing"),
        ("ErrImagePull", "PullFailed"),
        ("ImagePullBackOff", "PullFailed"),
        ("PodInitializing", None),
        ("ContainerCreating", None),
    ],
)
@pytest.mark.parametrize("name", [PREPARE, DRIVER, PEERMEM, FS, GDRCOPY])
def test_a_container_that_kubelet_cannot_start_is_told_and_may_yet_start(
    word: str, reason: str | None, name: str
) -> None:
    said = 'secret "pro-token" not found'
    found = pod.outcome(of(waits(name, word, said)))
    assert (found.reason, found.fault) == (reason, None)
    assert (said in found.message) is bool(reason)


def test_a_container_that_the_runtime_refuses_to_make_is_told_once_time_has_passed() -> None:
    found = pod.outcome(of(waits(DRIVER, "CreateContainerError", "no such device")))
    assert (found.reason, found.fault) == (None, None)
    assert found.message == f"container {DRIVER}: no such device"


@pytest.mark.parametrize("name", [DRIVER, FS, GDRCOPY])
def test_a_container_that_ends_again_and_again_has_failed_whichever_it_is(name: str) -> None:
    found = pod.outcome(of(ends(name, 1, "insmod: could not insert module: Unknown symbol", restarts=1)))
    assert (found.reason, found.fault) == ("UnknownSymbol", "revision")
    assert name in found.message


SEEN = Look(kernel="6.8.0-71-generic", free_mib=10**6, mofed="Host", gpus=1)


def good(seen: Look = SEEN) -> dict[str, ContainerStatus]:
    """A check pod that found nothing against a driver with everything beside it."""
    names = (IMAGE, image_of(FS), image_of(GDRCOPY))
    return {name: ends(name, DONE) for name in names} | {LOOK: ends(LOOK, DONE, message.line(seen))}


def verdict(changed: ContainerStatus | None = None, target: Install = COMPILED) -> look.Verdict:
    statuses = good() | ({changed.name: changed} if changed is not None else {})
    return look.verdict(of(*statuses.values()), target, EVERYTHING.spec, "gpu-1")


def test_a_check_is_good_when_all_its_images_can_be_had() -> None:
    assert verdict() == GOOD
    assert verdict(ContainerStatus(name=image_of(FS))) == PENDING


@pytest.mark.parametrize(
    ("name", "missing"),
    [(IMAGE, COMPILED.image), (image_of(FS), "nvidia-fs:2.27.3-ubuntu24.04"), (image_of(GDRCOPY), "gdrdrv:v2.5.1")],
)
def test_an_image_that_is_not_there_is_named_and_only_the_drivers_own_makes_another_be_tried(
    name: str, missing: str
) -> None:
    found = verdict(waits(name, "ErrImagePull", ABSENT))
    assert found.reason == "ImageMissing"
    assert missing in found.message
    assert found.image_missing is (name == IMAGE)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("CreateContainerConfigError", "SecretMissing"),
        ("CreateContainerError", "PreflightFailed"),
        ("ImagePullBackOff", "PullFailed"),
        ("ContainerCreating", None),
    ],
)
def test_a_check_that_does_not_start_says_why(word: str, reason: Any) -> None:
    found = verdict(waits(IMAGE, word, "kubelet's word"))
    assert found.reason == reason
    assert ("kubelet's word" in found.message) is bool(reason)


def test_what_is_in_a_drivers_way_on_a_node_is_told_before_anything_is_begun() -> None:
    nouveau = Module(name="nouveau", state="live", users=1)
    going = Module(name="nvidia_uvm", state="going")
    assert [said(replace(SEEN, modules=found)) for found in ((nouveau,), (going,), (going, nouveau))] == [
        "NouveauLoaded",
        "RebootRequired",
        "RebootRequired",
    ]
    free = (replace(nouveau, users=0), replace(going, state="live"))
    assert said(replace(SEEN, modules=free)) is None, "that is unloaded by itself"


def said(seen: Look, spec: GPUDriverSpec = EVERYTHING.spec) -> str | None:
    return assess(seen, COMPILED, spec, "gpu-1").reason


@pytest.mark.parametrize("seen", [replace(SEEN, secure_boot=True), replace(SEEN, lockdown="integrity")])
def test_modules_that_nobody_has_signed_are_refused_unless_somebody_names_their_image(seen: Look) -> None:
    own = [{"system": "ubuntu24.04", "kernel": "6.8.*", "image": "r/driver:signed"}]
    assert said(seen) == "ModulesUnsigned"
    assert said(seen, driver(image={"overrides": own}).spec) is None
    other = [own[0] | {"kernel": "5.15.*"}]
    assert said(seen, driver(image={"overrides": other}).spec) == "ModulesUnsigned"
