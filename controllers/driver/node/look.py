"""What a look at a node comes to before anything is started there: good, awaited, or a reason against it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pydantic import ValidationError

from controllers.api.driver_look import DONE, TEXT_MAX, Look, Prepared
from controllers.api.reasons import driver_blocked
from controllers.api.record import adapter
from controllers.domain.driver.holders import process_names
from controllers.domain.driver.overrides import override_for
from controllers.domain.driver.signatures import refuses_unsigned
from controllers.domain.wording import listed
from controllers.driver.node.waiting import not_started
from controllers.driver.pods.container_names import LOOK
from controllers.driver.pods.sidecars import check_images

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from controllers.api.gpudriver import GPUDriverSpec
    from controllers.api.reasons.typed import Reason
    from controllers.domain.driver.choice import Install
    from controllers.driver.records import ContainerStatus, Pod, Terminated

NOUVEAU: Final = "nouveau"
GOING: Final = "going"
"""State of a module that the kernel is taking out."""
WORDS: Final = frozenset(word for row in driver_blocked.ROWS for word in row.reasons.split())
FREE_COMPILED: Final = 4096
FREE_PRECOMPILED: Final = 1024
"""MiB that must be free where the container runtime keeps its data: what an installed driver, its packages and what is
compiled take there beside the image, which has been pulled by then."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a look."""

    good: bool = False
    reason: Reason | None = None
    """Why not; None while there is nothing to be said yet."""
    message: str = ""
    image_missing: bool = False
    """Whether the registry does not have the image: another node need not ask."""


def blocked_word(said: str) -> Reason:
    """A word of a program on the node, as a reason: one of another version may say what no row is about."""
    return cast("Reason", said) if said in WORDS else "PreflightFailed"


PENDING: Final = Verdict()
GOOD: Final = Verdict(good=True)


def verdict(pod: Pod, target: Install, spec: GPUDriverSpec, node: str, *, serves: bool = False) -> Verdict:
    """What the check pod has found out by now. `serves`: as of `Case`."""
    images = check_images(spec, target)
    for name, image in images.items():
        one = pod.container(name)
        if one is not None and (refused := _not_started(one, image, target, node)) is not None:
            return refused
    ends = {name: _end(pod, name) for name in (*images, LOOK)}
    failed = next((one for one in ends.values() if one is not None and one.exit_code != DONE), None)
    if failed is not None:
        return _failed(failed, node)
    look = ends[LOOK]
    if look is None or None in ends.values():
        return _ended_early(pod, node)
    try:
        return assess(adapter(Look).validate_json(look.message), target, spec, node, serves=serves)
    except ValidationError:
        return _failed(look, node)


def released(pod: Pod, drivers: Collection[str], node: str, *, by_pods: bool = False) -> Verdict:
    """Whether nobody but the pods of drivers holds the driver open, by a pod that has looked. `drivers`: their uids.

    `by_pods`: whether processes of the host may.
    """
    ended = _end(pod, LOOK)
    if ended is None:
        return _ended_early(pod, node)
    if ended.exit_code != DONE:
        return _failed(ended, node)
    try:
        found = adapter(Look).validate_json(ended.message)
    except ValidationError:
        return _failed(ended, node)
    holders = tuple(one for one in found.holders if one.pod_uid not in drivers and (one.pod_uid or not by_pods))
    if not holders:
        return GOOD
    message = f"the driver of node {node} is held open by {process_names(holders)}: end them"
    return Verdict(reason="DevicesHeld", message=message)


def _end(pod: Pod, name: str) -> Terminated | None:
    """How a container ended; None where it has not, or is not there yet."""
    found = pod.container(name)
    return found.state.terminated if found is not None else None


def _failed(ended: Terminated, node: str) -> Verdict:
    """A container of the check pod that says what is in the way, or just ended badly."""
    try:
        said = adapter(Prepared).validate_json(ended.message)
        return Verdict(reason=blocked_word(said.reason), message=f"node {node}: {said.message}")
    except ValidationError:
        text = ended.message[-TEXT_MAX:] or ended.reason or f"exit code {ended.exit_code}"
        return Verdict(reason="PreflightFailed", message=f"the check of node {node} failed: {text}")


def _not_started(container: ContainerStatus, image: str, target: Install, node: str) -> Verdict | None:
    """A verdict where kubelet does not get the image, or what its container needs; None where nothing says so."""
    found = not_started(container)
    if found is None:
        return None
    match found.kind:
        case "SecretMissing":
            return Verdict(
                reason="SecretMissing", message=f"node {node} cannot start the driver's image: {found.message}"
            )
        case "NotMade":
            return Verdict(reason="PreflightFailed", message=f"node {node} cannot start {image}: {found.message}")
        case "PullFailed":
            return Verdict(reason="PullFailed", message=f"node {node} cannot pull {image}: {found.message}")
    do = "name a version that has one, or an image in spec.image.overrides"
    if image != target.image:
        do = "name another image or version where the driver names that one"
    message = f"node {node} finds no image {image} in its registry: {do}"
    return Verdict(reason="ImageMissing", message=message, image_missing=image == target.image)


def _ended_early(pod: Pod, node: str) -> Verdict:
    """A pod that ended without a word of its own: kubelet refused it, or its deadline passed."""
    if not pod.finished:
        return PENDING
    why = pod.status.reason or pod.status.phase
    return Verdict(reason="PreflightFailed", message=f"the check pod {pod.name} on node {node} ended ({why})")


@dataclass(frozen=True, slots=True)
class Case:
    """What was seen, and what is to come there."""

    look: Look
    target: Install
    spec: GPUDriverSpec
    node: str
    serves: bool = False
    """Whether the node has a driver of the module's, which pods may use: they end before it is replaced."""


def assess(look: Look, target: Install, spec: GPUDriverSpec, node: str, *, serves: bool = False) -> Verdict:
    """What of a node speaks against a driver there."""
    case = Case(look, target, spec, node, serves)
    return next((found for check in CHECKS if (found := check(case)) is not None), GOOD)


def _cards(case: Case) -> Verdict | None:
    if case.look.gpus > 0:
        return None
    return Verdict(reason="PreflightFailed", message=f"no card of NVIDIA's is on the PCI bus of node {case.node}")


def _host_driver(case: Case) -> Verdict | None:
    if not case.look.host_driver:
        return None
    do = "remove its packages and start the node anew, or leave the node to it with spec.mode Host"
    found = f"node {case.node} has driver {case.look.host_driver} of its own, which the module does not remove"
    return Verdict(reason="HostDriver", message=f"{found}: {do}")


def _modules_refused(case: Case) -> Verdict | None:
    """A kernel that takes signed modules alone takes none that was compiled a moment ago."""
    target, look = case.target, case.look
    if target.former is not None:
        return None  # whether its image was an override, with modules of its own, nobody knows any more
    if target.mode != "Compiled" or override_for(case.spec, target.variant.system, look.kernel) is not None:
        return None
    unsigned = refuses_unsigned(look.secure_boot, look.lockdown)
    return Verdict(reason="ModulesUnsigned", message=f"node {case.node}: {unsigned}") if unsigned else None


def _room(case: Case) -> Verdict | None:
    free, least = case.look.free_mib, FREE_COMPILED if case.target.mode == "Compiled" else FREE_PRECOMPILED
    if free is None or free >= least:
        return None
    found = f"{free} MiB are free on node {case.node} where its container runtime keeps data, and {least} are needed"
    return Verdict(reason="DiskFull", message=f"{found}: make room there")


def _holders(case: Case) -> Verdict | None:
    if not case.look.holders or case.serves:
        return None
    message = f"processes of node {case.node} hold its cards open: {process_names(case.look.holders)}; end them"
    return Verdict(reason="DevicesHeld", message=message)


def _mofed(case: Case) -> Verdict | None:
    if not (case.spec.rdma.enabled and case.spec.rdma.host_mofed) or case.look.mofed == "Host":
        return None
    if case.target.former is not None:
        return None  # that spec says nothing of it
    message = f"spec.rdma.hostMofed is set, and node {case.node} has no MOFED of its own loaded: install it there"
    return Verdict(reason="MofedMissing", message=message)


def _nouveau(case: Case) -> Verdict | None:
    """The kernel's own driver, where somebody uses it: it cannot be unloaded then."""
    found = case.look.module(NOUVEAU)
    if found is None or found.users == 0:
        return None
    have = f"nouveau, the kernel's own driver, has the cards of node {case.node} and is in use ({found.users})"
    return Verdict(reason="NouveauLoaded", message=f"{have}: blacklist it, rebuild the initramfs and reboot the node")


def _going(case: Case) -> Verdict | None:
    """A module that the kernel has begun to take out, and has not: only a reboot ends that."""
    stuck = [one.name for one in case.look.modules if one.state == GOING]
    if not stuck:
        return None
    found = f"the kernel of node {case.node} is taking out {listed(stuck)} and does not end"
    return Verdict(reason="RebootRequired", message=f"{found}: reboot the node")


CHECKS: Final[tuple[Callable[[Case], Verdict | None], ...]] = (
    _cards,
    _host_driver,
    _modules_refused,
    _room,
    _going,
    _nouveau,
    _holders,
    _mofed,
)
"""In the order in which they are asked: the first that says something is told."""
