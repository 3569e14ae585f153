"""The permits that a node finds: what it may begin now, by what all other nodes are at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.driver.caches import BY_PHASE, BY_TRIAL, trial_of
from controllers.driver.drivers.results import counted_since
from controllers.driver.views import StartPermits

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver
    from controllers.domain.driver.choice import Install
    from controllers.driver.decisions import Decision
    from controllers.driver.observe.sources import Sources


def permits_of(sources: Sources, name: str, driver: GPUDriver, target: Install, found: Decision) -> StartPermits:
    """What a node may begin now of `target`."""
    index, tried = sources.caches.inventories, target.variant.revision
    inventory = index.get(name)
    work = inventory.status.driver_work if inventory is not None else None
    judged = work.undoes if work is not None and work.undoes is not None else tried
    shown = sources.proofs.results(driver, tried)
    result = shown.on(found.stratum)
    return StartPermits(
        preflight=index.count(BY_PHASE, "Preflight") < sources.settings.prefetch_parallel,
        install=_installing(sources) < sources.settings.install_parallel,
        proved=result == "Good" or not _is_tried(sources, name, driver, tried, found.stratum),
        bad=result == "Bad",
        halted=shown.halted is not None,
        missing=sources.missing_contents(driver),
        counted_since=counted_since(driver, judged),
    )


def _installing(sources: Sources) -> int:
    """How many nodes have a permit to install: those that are away take nothing from the registry."""
    nodes, at_work = sources.caches.nodes, sources.caches.inventories.by(BY_PHASE, "Installing")
    return sum(1 for one in at_work if (node := nodes.get(one.name)) is not None and node.ready)


def _is_tried(sources: Sources, name: str, driver: GPUDriver, revision: str, stratum: str) -> bool:
    """Whether another node of the same kind tries the revision, which may soak there still."""
    trying = sources.caches.inventories.by(BY_TRIAL, trial_of(driver.name, revision))
    works = (one.status.driver_work for one in trying if one.name != name)
    return any(work is not None and work.stratum == stratum for work in works)
