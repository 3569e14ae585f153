"""The driver that a node without one gets, and the version that a driver which is under way has to report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.driver.bound import VARIANTS_MAX, bounded
from controllers.domain.driver.choice import Install
from controllers.domain.driver.variant import revision_of
from controllers.driver.drivers.results import remembered
from controllers.driver.node.work import last_of
from controllers.driver.observe.former import last_good, reported

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.domain.driver.choice import Blocked
    from controllers.driver.decisions import Decision
    from controllers.driver.observe.sources import Sources


def target_of(sources: Sources, name: str, driver: GPUDriver, found: Decision) -> Install | None:
    """What a node without a driver gets: what is wanted, or the last good revision while that is not proved."""
    choice, work = found.choice, _work(sources, name)
    if not isinstance(choice, Install) or (work is not None and work.wave is not None):
        return choice if isinstance(choice, Install) else None  # the driver of a roll-out, which serves nowhere yet
    if sources.proofs.results(driver).on(found.stratum) == "Good" or _has_failed(sources, name, driver):
        return choice
    node = sources.caches.nodes.get(name)
    kernel = node.status.node_info.kernel_version if node is not None else ""
    good = last_good(sources, driver, choice, found.stratum, kernel, but=choice.variant.revision)
    if good is not None and good.image in found.missing:
        return replace(choice, missing=(*choice.missing, good.image))  # nobody gets that one any more
    return good or choice


def bounded_target(sources: Sources, target: Install) -> Install | Blocked:
    """What a node gets, unless it would need one DaemonSet too many."""
    daemonsets = sources.caches.daemonsets
    if daemonsets.get(f"{names.NAMESPACE}/{target.variant.object_name}") is not None:
        return target
    revision = target.variant.revision
    there = {value for one in daemonsets if (value := one.metadata.labels.get(names.DRIVER_VARIANT))}
    return bounded(target, {value for value in there if revision_of(value) == revision}, VARIANTS_MAX)


def version_of(sources: Sources, work: DriverWork | None, value: str | None, target: Install | None) -> str | None:
    """What the driver of a variant has to report on a node that is at work."""
    if work is None or value is None:
        return None
    if target is not None and target.variant.value == value:
        return target.version
    driver = sources.caches.drivers.get(work.driver)
    known = remembered(driver, revision_of(value)) if driver is not None else None
    if known is None:
        return None
    return reported(known, value)


def _work(sources: Sources, name: str) -> DriverWork | None:
    inventory = sources.caches.inventories.get(name)
    return inventory.status.driver_work if inventory is not None else None


def _has_failed(sources: Sources, name: str, driver: GPUDriver) -> bool:
    """Whether the last driver that the node was to have failed there: the last good revision is no better."""
    last = last_of(sources.caches.nodes.get(name), sources.caches.inventories.get(name))
    return last is not None and last.driver == driver.name and last.result == "Failed"
