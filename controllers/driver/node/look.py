"""What a look at a node comes to, before anything is started there: good, to be awaited, or a reason against it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from controllers.api.driver_look import DONE, TEXT_MAX, Look, Prepared
from controllers.api.record import adapter
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriverSpec
    from controllers.domain.driver.choice import Install
    from controllers.driver.records import ContainerStatus, Pod, Terminated

IMAGE_CONTAINER: Final = "image"
LOOK_CONTAINER: Final = "look"
PULL_FAILED: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
"""Kubelet's words where an image does not come."""
ABSENT: Final = ("not found", "manifest unknown", "name unknown", "NotFound")
"""In a registry's answer, by every runtime's spelling: there is no such image."""
FREE_COMPILED: Final = 4096
FREE_PRECOMPILED: Final = 1024
"""MiB that must be free where the container runtime keeps its data: what an installed driver, its packages and what is
compiled take there beside the image, which has been pulled by then."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a look."""

    good: bool = False
    reason: str = ""
    """Why not; empty while there is nothing to be said yet."""
    message: str = ""
    image_missing: bool = False
    """Whether the registry does not have the image: another node need not ask."""


PENDING: Final = Verdict()
GOOD: Final = Verdict(good=True)


def verdict(pod: Pod, target: Install, spec: GPUDriverSpec, node: str) -> Verdict:
    """What the check pod has found out by now."""
    image, look = pod.container(IMAGE_CONTAINER), pod.container(LOOK_CONTAINER)
    if image is not None and (refused := not_started(image, target.image, node)) is not None:
        return refused
    ends = [one.state.terminated for one in (image, look) if one is not None and one.state.terminated is not None]
    failed = next((one for one in ends if one.exit_code != DONE), None)
    if failed is not None:
        return _failed(failed, node)
    if look is None or look.state.terminated is None or image is None or image.state.terminated is None:
        return _ended_early(pod, node)
    try:
        return judged(adapter(Look).validate_json(look.state.terminated.message), target, spec, node)
    except ValidationError:
        return _failed(look.state.terminated, node)


def _failed(ended: Terminated, node: str) -> Verdict:
    """A container of the check pod that says what is in the way, or just ended badly."""
    try:
        said = adapter(Prepared).validate_json(ended.message)
        return Verdict(reason=said.reason, message=f"node {node}: {said.message}")
    except ValidationError:
        text = ended.message[-TEXT_MAX:] or ended.reason or f"exit code {ended.exit_code}"
        return Verdict(reason="PreflightFailed", message=f"the check of node {node} failed: {text}")


def not_started(container: ContainerStatus, image: str, node: str) -> Verdict | None:
    """A verdict where kubelet does not get the image, or what its container needs; None where nothing says so."""
    waiting = container.state.waiting
    if waiting is not None and waiting.reason == "CreateContainerConfigError":
        return Verdict(reason="SecretMissing", message=f"node {node} cannot start the driver's image: {waiting.message}")
    if waiting is None or waiting.reason not in PULL_FAILED:
        return None
    if any(word in waiting.message for word in ABSENT):
        do = "name a version that has one, or an image in spec.image.overrides"
        message = f"node {node} finds no image {image} in its registry: {do}"
        return Verdict(reason="ImageMissing", message=message, image_missing=True)
    if not waiting.message and waiting.reason == "ImagePullBackOff":
        return None  # kubelet says why in the other of its two words
    return Verdict(reason="PullFailed", message=f"node {node} cannot pull {image}: {waiting.message or waiting.reason}")


def _ended_early(pod: Pod, node: str) -> Verdict:
    """A pod that ended without a word of its own: kubelet refused it, or its deadline passed."""
    if not pod.finished:
        return PENDING
    why = pod.status.reason or pod.status.phase
    return Verdict(reason="PreflightFailed", message=f"the check pod {pod.name} on node {node} ended ({why})")


def judged(look: Look, target: Install, spec: GPUDriverSpec, node: str) -> Verdict:
    """What of a node speaks against a driver there."""
    checks = (_cards, _host_driver, _modules_refused, _headers, _room, _holders, _mofed)
    return next((found for check in checks if (found := check(look, target, spec, node)) is not None), GOOD)


def _cards(look: Look, target: Install, spec: GPUDriverSpec, node: str) -> Verdict | None:
    if look.gpus > 0:
        return None
    return Verdict(reason="NoCards", message=f"no card of NVIDIA's is on the PCI bus of node {node} any more")


def _host_driver(look: Look, target: Install, spec: GPUDriverSpec, node: str) -> Verdict | None:
    if not look.host_driver:
        return None
    do = "remove its packages and start the node anew, or leave the node to it with mode Host"
    found = f"node {node} has driver {look.host_driver} of its own, which the module does not remove"
    return Verdict(reason="HostDriver", message=f"{found}: {do}")


def _modules_refused(look: Look, target: Install, spec: GPUDriverSpec, node: str) -> Verdict | None:
    """A kernel that takes signed modules alone takes none that was compiled a moment ago."""
    locked = look.lockdown in ("integrity", "confidentiality")
    if target.mode != "Compiled" or not (look.secure_boot or locked):
        return None
    why = "Secure Boot is on" if look.secure_boot else f"its kernel is locked down ({look.lockdown})"
    do = "use mode Precompiled, whose modules are signed, or switch Secure Boot off in its firmware"
    return Verdict(reason="SecureBoot", message=f"node {node} loads signed modules alone, since {why}: {do}")


def _headers(look: Look, target: Install, spec: GPUDriverSpec, node: str) -> Verdict | None:
    if target.mode != "Compiled" or look.headers is not False:
        return None
    do = "name a package repository that has them in spec.build.repositories, or use mode Precompiled"
    message = f"neither node {node} nor its package repositories have the headers of kernel {look.kernel}: {do}"
    return Verdict(reason="HeadersMissing", message=message)


def _room(look: Look, target: Install, spec: GPUDriverSpec, node: str) -> Verdict | None:
    least = FREE_COMPILED if target.mode == "Compiled" else FREE_PRECOMPILED
    if look.free_mib is None or look.free_mib >= least:
        return None
    found = f"{look.free_mib} MiB are free on node {node} where its container runtime keeps data, and {least} are needed"
    return Verdict(reason="DiskFull", message=f"{found}: make room there")


def _holders(look: Look, target: Install, spec: GPUDriverSpec, node: str) -> Verdict | None:
    if not look.holders:
        return None
    told = listed(f"{one.command} ({one.pid}{f', pod {one.pod_uid}' if one.pod_uid else ''})" for one in look.holders)
    return Verdict(reason="HeldBy", message=f"processes of node {node} hold its cards open: {told}; end them")


def _mofed(look: Look, target: Install, spec: GPUDriverSpec, node: str) -> Verdict | None:
    if not (spec.rdma.enabled and spec.rdma.host_mofed) or look.mofed == "Host":
        return None
    message = f"spec.rdma.hostMofed is set, and node {node} has no MOFED of its own loaded: install it there"
    return Verdict(reason="MofedMissing", message=message)
