"""Which image a node gets, and what it is told where there is none: always what was found, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.api import reasons
from controllers.api.gpudriver import Sidecar
from controllers.domain.driver.choice import Blocked, Choice, Host, Install, OptedOut, Unknown, is_wanted
from controllers.domain.driver.images import choose, for_next_kernel, sidecar_image
from controllers.domain.driver.node import DriverNode
from controllers.domain.driver.variant import Variant
from tests.domain.driver.make import B200, GH200, H100, KERNEL, REVISION, STRANGE, V100, node, spec

PRECOMPILED = f"nvcr.io/nvidia/driver:580-{KERNEL}-ubuntu24.04"
COMPILED = "nvcr.io/nvidia/driver:580.178.04-ubuntu24.04"
OWN = {"system": "ubuntu24.04", "kernel": "6.8.0-*", "image": "r.example/driver:1"}
RHEL = {"system": "rhel9", "kernel": "5.14.0-570.el9.x86_64"}
DEBIAN = {"system": "debian12", "kernel": "6.1.0-31-amd64"}


def chosen(at: DriverNode, version: str = "580.178.04", *, missing: tuple[str, ...] = (), **fields: Any) -> Choice:
    return choose(spec(version, **fields), REVISION, at, missing)


def installed(at: DriverNode, version: str = "580.178.04", **fields: Any) -> Install:
    found = chosen(at, version, **fields)
    assert isinstance(found, Install), found
    return found


def test_auto_takes_a_precompiled_image_where_there_is_one() -> None:
    found = installed(node())

    assert found == Install(Variant(REVISION, "ubuntu24.04", KERNEL), "Precompiled", PRECOMPILED, "580")
    assert found.modules == "Open"


def test_auto_compiles_where_no_image_has_the_kernels_modules() -> None:
    found = installed(node(kernel="6.11.0-9-generic"))

    assert found == Install(Variant(REVISION, "ubuntu24.04"), "Compiled", COMPILED, "580.178.04")
    assert installed(node(**RHEL)).image == "nvcr.io/nvidia/driver:580.178.04-rhel9"


def test_auto_compiles_once_the_registry_was_found_without_the_precompiled_image() -> None:
    assert installed(node(), missing=(PRECOMPILED,)).image == COMPILED
    found = chosen(node(), missing=(PRECOMPILED, COMPILED))
    assert isinstance(found, Blocked)
    assert found.reason == "ImageMissing"
    assert PRECOMPILED in found.message
    assert COMPILED in found.message


def test_all_kernels_of_a_system_share_a_variant_where_modules_are_compiled_and_none_where_not() -> None:
    kernels = ("6.8.0-71-generic", "6.8.0-72-generic")
    compiled = {installed(node(kernel=kernel), mode="Compiled").variant for kernel in kernels}
    ready = {installed(node(kernel=kernel), mode="Precompiled").variant.value for kernel in kernels}

    assert len(compiled) == 1
    assert len(ready) == 2


def test_the_flavours_of_one_driver_are_variants_of_their_own() -> None:
    new, old = installed(node(H100), mode="Compiled"), installed(node(V100), mode="Compiled")

    assert (new.modules, old.modules) == ("Open", "Proprietary")
    assert new.variant.value != old.variant.value
    assert new.image == old.image


BLOCKED: dict[str, tuple[DriverNode, str, dict[str, Any], str, str]] = {
    "no precompiled image for the system": (
        node(**RHEL), "580", {"mode": "Precompiled"}, "NoImageForSystem", "ubuntu22.04: kernels 5.15, 6.8 (aws",
    ),
    "a kernel that nobody serves": (
        node(kernel="6.8.0-71-lowlatency"), "580", {"mode": "Precompiled"}, "NoImageForKernel",
        "kernel 6.8.0-71-lowlatency of ubuntu24.04; there are kernels 6.8 (aws, azure, azure-fde, generic, nvidia",
    ),
    "a branch that nobody precompiles": (
        node(), "610", {"mode": "Precompiled"}, "NoImageForBranch", "there are kernels 6.8",
    ),
    "580 on a system that came later": (
        node(system="ubuntu26.04", kernel="7.0.0-14-generic"), "580", {"mode": "Precompiled"}, "NoImageForBranch",
        "in branches 595: set spec.version",
    ),
    "no image that compiles for the system": (
        node(**DEBIAN), "580.178.04", {"mode": "Compiled"}, "NoImageForSystem", "there are ubuntu22.04, ubuntu24.04",
    ),
    "a branch where nothing is precompiled": (
        node(kernel="6.11.0-9-generic"), "580", {}, "VersionIsBranch", "there are now 580.178.04, 595.91.07",
    ),
    "Secure Boot": (
        node(secure_boot=True), "580.178.04", {"mode": "Compiled"}, "ModulesUnsigned", "Secure Boot is on",
    ),
    "Secure Boot and a strange kernel": (
        node(secure_boot=True, kernel="6.11.0-9-generic"), "580.178.04", {}, "ModulesUnsigned",
        "no precompiled image is made for kernel 6.11.0-9-generic",
    ),
    "lockdown": (
        node(lockdown="integrity"), "580.178.04", {"mode": "Compiled"}, "ModulesUnsigned", "locked down (integrity)",
    ),
    "a host driver and mode Compiled": (
        node(driver_source="host"), "580.178.04", {"mode": "Compiled"}, "HostDriver", "the module removes no packages",
    ),
    "a host driver and mode Precompiled": (
        node(driver_source="host"), "580", {"mode": "Precompiled"}, "HostDriver", "set spec.mode to Auto or Host",
    ),
    "another operator": (
        node(elsewhere="GPU Operator"), "580", {}, "ManagedElsewhere", "GPU Operator manages the node's driver",
    ),
    "mixed generations": (
        node(B200, V100), "580.178.04", {}, "MixedFlavours", "one node runs one driver",
    ),
    "a card that was dropped": (
        node(V100), "595.91.07", {}, "CardDropped", "expected branch 580 or older",
    ),
    "a card that is too new": (
        node(B200), "535.54.03", {}, "CardTooNew", "expected 570 or newer: raise spec.version",
    ),
    "a flavour that does not serve": (
        node(B200), "580.178.04", {"flavour": "Proprietary"}, "FlavourNotServed", "set spec.flavour to Auto",
    ),
    "GDS on old cards": (
        node(V100), "580.178.04", {"gds": {"enabled": True, "image": "r/fs", "version": "2"}}, "FlavourNotServed",
        "spec.gds needs the open modules",
    ),
    "a vGPU guest from NVIDIA": (
        node(), "580.178.04", {"type": "VGPUGuest"}, "NoImageForType", "set spec.image.repository to where it is",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BLOCKED)
def test_a_node_that_cannot_be_served_is_told_why_and_what_to_do(what: str) -> None:
    at, version, fields, reason, said = BLOCKED[what]
    found = chosen(at, version, **fields)

    assert isinstance(found, Blocked), found
    assert found.reason == reason
    assert said in found.message
    assert len(found.message) <= 1024
    row = reasons.find("driver", "Blocked", "True", found.reason)
    assert row is not None
    assert row.cure != "nothing"


@pytest.mark.parametrize("mode", ["Auto", "Precompiled", "Compiled"])
def test_an_image_of_ones_own_comes_before_all(mode: str) -> None:
    found = installed(node(secure_boot=True), mode=mode, image={"overrides": [OWN]})

    assert found.image == "r.example/driver:1"
    assert found.mode == ("Precompiled" if mode == "Precompiled" else "Compiled")
    # The image was chosen by the kernel, so nodes with another kernel are of another variant.
    assert found.variant.kernel == KERNEL


def test_an_override_for_one_kernel_is_precompiled_in_auto() -> None:
    found = installed(node(), image={"overrides": [OWN | {"kernel": KERNEL}]})

    assert (found.mode, found.version) == ("Precompiled", "580.178.04")


def test_an_override_for_every_kernel_serves_a_system_that_nobody_publishes_for() -> None:
    own = {"system": "debian12", "kernel": "*", "image": "r.example/driver@sha256:1"}
    found = installed(node(**DEBIAN), image={"overrides": [own]})

    assert (found.mode, found.variant) == ("Compiled", Variant(REVISION, "debian12"))


def test_an_override_for_other_kernels_is_not_taken() -> None:
    own = {"system": "debian12", "kernel": "5.*", "image": "r.example/driver:1"}
    found = chosen(node(**DEBIAN), image={"overrides": [own]})

    assert isinstance(found, Blocked)
    assert found.reason == "NoImageForSystem"


def test_the_host_keeps_its_driver() -> None:
    assert isinstance(chosen(node(driver_source="host")), Host)
    assert isinstance(chosen(node(driver_source="host"), mode="Host"), Host)
    assert isinstance(chosen(node(), mode="Host"), Host)
    assert isinstance(chosen(node(driver_source="container")), Install)


def test_a_system_without_images_is_left_to_its_host_in_auto() -> None:
    found = chosen(node(**DEBIAN))

    assert found == Host("no image is made for debian12, so its driver is left to the host")


@pytest.mark.parametrize("label", ["gpu.deckhouse.io/driver-opt-out", "nvidia.com/gpu-driver-upgrade.skip"])
def test_a_node_that_opted_out_is_left_as_it_is_whatever_it_has(label: str) -> None:
    assert isinstance(chosen(node(labels={label: "true"}, elsewhere="GPU Operator")), OptedOut)
    assert isinstance(chosen(node(labels={label: "false"})), Install)


def test_a_node_that_has_not_told_enough_waits() -> None:
    silent = DriverNode(KERNEL, None, (H100,), {})
    rebooting = DriverNode("6.8.0-72-generic", node().facts, (H100,), {})
    nameless = node(system="")

    assert all(isinstance(chosen(each), Unknown) for each in (silent, rebooting, nameless))
    assert isinstance(chosen(replace(node(), cards=())), Unknown)
    # What decides nothing about it is not waited for.
    assert isinstance(chosen(silent, mode="Host"), Host)


def test_grace_hopper_and_unknown_cards_take_the_open_modules() -> None:
    assert installed(node(GH200)).modules == installed(node(STRANGE)).modules == "Open"
    assert isinstance(chosen(node(GH200), flavour="Proprietary"), Blocked)
    assert installed(node(H100), flavour="Proprietary").modules == "Proprietary"


def test_mirrors_have_the_same_tags() -> None:
    mirror = {"repository": "r.example:5000/mirror/", "name": "nv/driver"}

    assert installed(node(), image=mirror).image == f"r.example:5000/mirror/nv/driver:580-{KERNEL}-ubuntu24.04"


def test_the_next_kernel_is_judged_before_the_reboot() -> None:
    served = node(next_kernel="6.8.0-72-generic")
    unserved = node(next_kernel="6.8.0-72-lowlatency")
    found = for_next_kernel(spec("580", mode="Precompiled"), REVISION, unserved)

    assert isinstance(found, Blocked)
    assert found.reason == "NoImageForKernel"
    assert isinstance(for_next_kernel(spec("580", mode="Precompiled"), REVISION, served), Install)
    assert for_next_kernel(spec(), REVISION, node()) is None
    assert for_next_kernel(spec(), REVISION, node(next_kernel=KERNEL)) is None


def test_a_module_beside_the_driver_has_a_tag_of_its_own() -> None:
    assert sidecar_image(Sidecar(image="r/fs", version="2.26.6"), "ubuntu24.04") == "r/fs:2.26.6-ubuntu24.04"
    assert sidecar_image(Sidecar(image="r/fs@sha256:1"), "ubuntu24.04") == "r/fs@sha256:1"


def test_a_branch_is_wanted_in_any_of_its_versions() -> None:
    assert is_wanted("580", "580.178.04")
    assert is_wanted("580.178.04", "580.178.04")
    assert not is_wanted("580", "58.1")
    assert not is_wanted("58", "580.178.04")
    assert not is_wanted("580.178.04", "580.178.05")
    assert not is_wanted("580", "")
