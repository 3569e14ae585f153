"""Which image brings a node its driver, by mode, system, kernel and cards (docs/driver.md). Pure.

A choice says what is to be tried. Whether the image is there, its pull on the node tells: what was not, comes back in
`missing`, and mode Auto goes on to what it would take next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from controllers.api.gpudriver_rules import UPSTREAM
from controllers.api.system_facts import SystemFacts
from controllers.domain.catalogue.images import IMAGES, compiled_systems, precompiled_kernels
from controllers.domain.driver.choice import Blocked, Choice, Host, Install, OptedOut, Unknown
from controllers.domain.driver.flavour import branch_of, modules_for
from controllers.domain.driver.node import opted_out
from controllers.domain.driver.overrides import is_for_one_kernel, names_system, override_for
from controllers.domain.driver.signatures import refuses_unsigned
from controllers.domain.driver.variant import Modules, Variant

if TYPE_CHECKING:
    from collections.abc import Collection

    from controllers.api.gpudriver import DriverMode, GPUDriverSpec, Sidecar
    from controllers.domain.driver.node import DriverNode

OVERRIDE: Final = "name an image of yours in spec.image.overrides"


@dataclass(frozen=True, slots=True)
class ImageOption:
    """An image that could serve a node."""

    mode: Literal["Precompiled", "Compiled"]
    image: str
    kernel: str
    """The kernel that it is for; empty for any."""
    version: str


def choose(spec: GPUDriverSpec, revision: str, node: DriverNode, missing: Collection[str] = ()) -> Choice:
    """What the node gets of a driver with that spec and revision.

    `missing` are images that the registry was found not to have; mode Auto takes the next that there could be.
    """
    settled = _without_image(spec, node)
    if settled is not None:
        return settled
    facts = node.facts
    assert facts is not None  # noqa: S101 - `_without_image` ends there
    modules = modules_for(spec, node.cards)
    if isinstance(modules, Blocked):
        return modules
    options = _options(spec, facts, node.kernel)
    if isinstance(options, Blocked | Host):
        return options
    images = tuple(option.image for option in options)
    for number, option in enumerate(options):
        if option.image not in missing:
            return replace(_install(option, revision, facts.system, modules), missing=images[:number])
    return Blocked(
        "ImageMissing",
        f"the registry does not have {' nor '.join(images)}; set another spec.version, mirror the image, or {OVERRIDE}",
        images,
    )


def for_next_kernel(
    spec: GPUDriverSpec, revision: str, node: DriverNode, missing: Collection[str] = ()
) -> Choice | None:
    """What the node will get once it runs the newest kernel that is installed; None where it runs that."""
    facts = node.facts
    if facts is None or not facts.next_kernel or facts.next_kernel == node.kernel:
        return None
    then = replace(facts, kernel=facts.next_kernel, next_kernel="")
    return choose(spec, revision, replace(node, kernel=facts.next_kernel, facts=then), missing)


def as_labelled(spec: GPUDriverSpec, revision: str, node: DriverNode, value: str) -> Install | None:
    """The driver of a label's value, which is of this revision, on a node that carries it, whatever it would get today.

    None where that spec makes no such driver there: it is for another kernel. An override for some kernels is of the
    same value however its modules come about: it is made as the spec has it today.
    """
    modes: tuple[DriverMode, ...] = (spec.mode, "Precompiled", "Compiled")  # the mode is no part of a revision
    choices = (choose(replace(spec, mode=mode), revision, node) for mode in modes)
    return next((one for one in choices if isinstance(one, Install) and one.variant.value == value), None)


def sidecar_image(sidecar: Sidecar, system: str) -> str:
    """The image of a module beside the driver: its tag, or as it is written where that has a digest."""
    return sidecar.image if "@" in sidecar.image else f"{sidecar.image}:{sidecar.version}-{system}"


def possible_images(spec: GPUDriverSpec, system: str, kernel: str) -> tuple[str, ...]:
    """Images that a node of that system and kernel may need, the driver's first; none where the host's driver stays.

    Without a kernel those that serve any kernel alone.
    """
    options = () if spec.mode == "Host" else _options(spec, SystemFacts(system=system, kernel=kernel), kernel)
    if isinstance(options, Blocked | Host):
        return ()
    beside = (sidecar_image(one, system) for one in (spec.gds, spec.gdrcopy) if one.enabled)
    return (*(option.image for option in options if kernel or not option.kernel), *beside)


def _without_image(spec: GPUDriverSpec, node: DriverNode) -> Choice | None:
    """The answer where no image decides; None where one does."""
    if label := opted_out(node.labels):
        return OptedOut(f"label {label} leaves the node's driver as it is")
    if spec.mode == "Host":
        return Host("spec.mode is Host")
    if unknown := _unknown(node):
        return Unknown(unknown)
    if node.managed_elsewhere:
        return Blocked(
            "ManagedElsewhere",
            f"{node.managed_elsewhere} manages the node's driver, so nothing is installed there: end one of the two, "
            "or leave the node out of spec.target",
        )
    if node.facts is not None and node.facts.driver_source == "host":
        return _host(spec)
    return None


def _unknown(node: DriverNode) -> str:
    facts = node.facts
    if facts is None:
        return "the node's agent has told nothing since the node started"
    if not node.cards:
        return "no card of NVIDIA's is recorded on the node"
    if not node.kernel or not facts.system:
        return "neither kubelet nor the node's agent tells its system and kernel"
    if facts.kernel and facts.kernel != node.kernel:
        return f"kubelet tells of kernel {node.kernel}, the agent of {facts.kernel}: the node is being rebooted"
    return ""


def _host(spec: GPUDriverSpec) -> Host | Blocked:
    if spec.mode == "Auto":
        return Host("the host has a driver of its own, which stays; spec.version is not followed there")
    return Blocked(
        "HostDriver",
        f"the host has a driver of its own, and spec.mode is {spec.mode}: remove its packages from the host and "
        "reboot, or set spec.mode to Auto or Host for such nodes; the module removes no packages",
    )


def _options(spec: GPUDriverSpec, facts: SystemFacts, kernel: str) -> tuple[ImageOption, ...] | Blocked | Host:
    """Images that could serve, the first choice first."""
    own = _override(spec, facts.system, kernel)
    if own is not None:
        return (own,)
    if spec.type == "VGPUGuest" and spec.image.repository == UPSTREAM:
        return Blocked(
            "NoImageForType",
            f"NVIDIA publishes no image with a vGPU guest's driver in {UPSTREAM}: build one, set spec.image.repository "
            f"to where it is, or {OVERRIDE}",
        )
    match spec.mode:
        case "Precompiled":
            ready = _precompiled(spec, facts.system, kernel)
            return ready if isinstance(ready, Blocked) else (ready,)
        case "Compiled":
            built = _compiled(spec, facts)
            return built if isinstance(built, Blocked) else (built,)
    return _auto(spec, facts, kernel)


def _override(spec: GPUDriverSpec, system: str, kernel: str) -> ImageOption | None:
    found = override_for(spec, system, kernel)
    if found is None:
        return None
    one = is_for_one_kernel(found)
    precompiled = spec.mode == "Precompiled" or (spec.mode == "Auto" and one)
    # An override for some kernels makes the image depend on the kernel, and so the variant too.
    bound = kernel if precompiled or found.kernel != "*" else ""
    return ImageOption("Precompiled" if precompiled else "Compiled", found.image, bound, spec.version)


def _auto(spec: GPUDriverSpec, facts: SystemFacts, kernel: str) -> tuple[ImageOption, ...] | Blocked | Host:
    system = facts.system
    if system not in IMAGES.compiled and system not in IMAGES.precompiled and not names_system(spec, system):
        return Host(f"no image is made for {system}, so its driver is left to the host")
    found = _precompiled(spec, system, kernel), _compiled(spec, facts)
    options = tuple(one for one in found if isinstance(one, ImageOption))
    refused = [one for one in found if isinstance(one, Blocked)]
    # With a precompiled image the node needs none to compile; the last refusal is the one that can be cured.
    return options or replace(refused[-1], message="; ".join(f"{one.message}" for one in refused))


def _precompiled(spec: GPUDriverSpec, system: str, kernel: str) -> ImageOption | Blocked:
    known, branch = IMAGES.precompiled.get(system), branch_of(spec.version)
    if known is None:
        return Blocked(
            "NoImageForSystem",
            f"no precompiled image is made for {system}; there are {precompiled_kernels()}: set spec.mode to Compiled "
            f"or Auto, or {OVERRIDE}",
        )
    if not known.serves(kernel):
        return Blocked(
            "NoImageForKernel",
            f"no precompiled image is made for kernel {kernel} of {system}; there are {known}: boot such a kernel, set "
            f"spec.mode to Compiled or Auto, or {OVERRIDE}",
        )
    if int(branch) not in known.branches:
        return Blocked(
            "NoImageForBranch",
            f"no precompiled image of branch {branch} is made for {system}; there are {known}: set spec.version to one "
            f"of these branches, set spec.mode to Compiled or Auto, or {OVERRIDE}",
        )
    return ImageOption("Precompiled", f"{_path(spec)}:{branch}-{kernel}-{system}", kernel, branch)


def _compiled(spec: GPUDriverSpec, facts: SystemFacts) -> ImageOption | Blocked:
    system = facts.system
    if system not in IMAGES.compiled:
        return Blocked(
            "NoImageForSystem",
            f"no image that compiles the modules is made for {system}; there are {compiled_systems()}: set spec.mode "
            f"to Host for such nodes, or {OVERRIDE}",
        )
    if "." not in spec.version:
        built = ", ".join(IMAGES.compiled[system])
        return Blocked(
            "VersionIsBranch",
            f"spec.version {spec.version} is a branch, and images that compile have whole versions; for {system} there "
            f"are now {built}: set spec.version to a whole version",
        )
    if unsigned := refuses_unsigned(facts.secure_boot, facts.lockdown):
        return Blocked("ModulesUnsigned", unsigned)
    return ImageOption("Compiled", f"{_path(spec)}:{spec.version}-{system}", "", spec.version)


def _path(spec: GPUDriverSpec) -> str:
    return f"{spec.image.repository.rstrip('/')}/{spec.image.name}"


def _install(option: ImageOption, revision: str, system: str, modules: Modules) -> Install:
    return Install(Variant(revision, system, option.kernel, modules), option.mode, option.image, option.version)
