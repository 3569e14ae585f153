"""What the view of a node has for a driver that is replaced: its way back, and why it is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.driver.choice import Install
from controllers.domain.driver.pause import is_paused_on
from controllers.domain.driver.states import LEAVING
from controllers.domain.driver.variant import revision_of
from controllers.driver.node.begin import is_taken_away
from controllers.driver.node.hand_over import asked_by
from controllers.driver.observe.former import installed, last_good

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.kube import Node
    from controllers.driver.decisions import Decision
    from controllers.driver.observe.sources import Sources


def way_back(
    sources: Sources, driver: GPUDriver, node: Node, work: DriverWork | None, found: Decision
) -> Install | None:
    """The driver that a node gets where the one that it has, or is on its way to, fails.

    The one that it had before this work; else the newest that is good on its kind of node.
    """
    label, kernel = node.metadata.labels.get(names.DRIVER_VARIANT), node.status.node_info.kernel_version
    if work is not None and work.undoes is not None and work.to is not None:
        return installed(sources, driver, work.to, kernel)
    former = work.from_ if work is not None else None
    left = revision_of(work.to if work is not None and work.to is not None else label or "")
    if former is not None and revision_of(former) != left:
        return installed(sources, driver, former, kernel)
    if not isinstance(found.choice, Install):
        return None
    return last_good(sources, driver, found.choice, found.stratum, kernel, but=left)


def recalled(
    sources: Sources, driver: GPUDriver | None, node: Node, work: DriverWork | None, target: Install | None
) -> str | None:
    """Why a node that is out of service with the driver that it had is given back; None where it goes on."""
    if work is None or work.phase not in LEAVING:
        return None
    if driver is None or driver.name != work.driver:
        return f"GPUDriver {work.driver} does not bring drivers onto it any more"
    paused = is_paused_on(driver, node, sources.clock())
    # One that is on its way back from a revision that failed goes on: it is handed over with a driver that serves.
    if work.hand_over is not None or (work.undoes is None and asked_by(node)):
        return _recalled_for(work, node, driver, is_paused=paused)
    if target is None or target.variant.value != work.to:
        return "another driver is wanted there by now, or none"
    why = (
        (is_taken_away(node), "it is cordoned, or about to be taken away"),
        (paused, f"GPUDriver {driver.name} is paused, or the node is"),
        (_is_halted(sources, driver, work, target.variant.revision), f"revision {target.variant.revision} is halted"),
    )
    return next((said for holds, said in why if holds), None)


def _recalled_for(work: DriverWork, node: Node, driver: GPUDriver, *, is_paused: bool) -> str | None:
    """The same of a node that a person wants, for whom it may be cordoned, and whatever driver is wanted there."""
    who = asked_by(node)
    if not who:
        return f"{work.hand_over} does not want it any more"
    if is_paused:
        return f"GPUDriver {driver.name} is paused, or the node is"
    return None if work.hand_over is not None else f"{who} wants it, and gets it as soon as it is its turn"


def _is_halted(sources: Sources, driver: GPUDriver, work: DriverWork, revision: str) -> bool:
    """Whether something speaks against the revision, which keeps no node from going back to a former one."""
    shown = sources.proofs.results(driver, revision)
    return work.undoes is None and (shown.halted is not None or shown.on(work.stratum or "") == "Bad")
