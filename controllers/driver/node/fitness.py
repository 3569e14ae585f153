"""What speaks against a driver on a node, by what a look has found there. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.domain.driver.holders import process_names
from controllers.domain.driver.overrides import override_for
from controllers.domain.driver.signatures import refuses_unsigned
from controllers.domain.wording import listed
from controllers.driver.node.verdict import GOOD, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.driver_look import Look
    from controllers.api.gpudriver import GPUDriverSpec
    from controllers.domain.driver.choice import Install

NOUVEAU: Final = "nouveau"
GOING: Final = "going"
"""State of a module that the kernel is taking out."""
FREE_COMPILED: Final = 4096
FREE_PRECOMPILED: Final = 1024
"""MiB that must be free where the container runtime keeps its data: what an installed driver, its packages and what is
compiled take there beside the image, which has been pulled by then."""


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
