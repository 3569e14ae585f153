"""The driver that a node without one gets, and the version that a driver which is under way has to report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.domain.driver.bound import VARIANTS_MAX, bounded
from controllers.domain.driver.choice import Install
from controllers.domain.driver.flavour import branch_of
from controllers.domain.driver.variant import Variant, is_for_any_kernel, revision_of
from controllers.driver.drivers.results import remembered
from controllers.driver.node.work import last_of
from controllers.driver.pods.container_names import DRIVER

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver, RevisionStatus
    from controllers.api.kube import DaemonSet
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
    return _former(sources, driver, choice, found.stratum) or choice


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


def _former(sources: Sources, driver: GPUDriver, choice: Install, stratum: str) -> Install | None:
    """The last good revision for such a node, where its DaemonSet is still there."""
    current = driver.status.current
    if current is None or current == choice.variant.revision:
        return None
    if sources.proofs.results(driver, current).on(stratum) != "Good":
        return None  # it is good on nodes of another kind
    variant = Variant(current, choice.variant.system, choice.variant.kernel, choice.variant.modules)
    found = sources.caches.daemonsets.get(f"{names.NAMESPACE}/{variant.object_name}")
    known = remembered(driver, current)
    if found is None or known is None or (image := image_of(found)) is None:
        return None
    return Install(variant, "Precompiled" if variant.kernel else "Compiled", image, reported(known, variant.value))


def reported(known: RevisionStatus, value: str) -> str:
    """What the driver of a remembered revision's variant has to report: of an image for one kernel only the branch."""
    return known.version if is_for_any_kernel(value) else branch_of(known.version)


def image_of(daemonset: DaemonSet) -> str | None:
    """The image of the driver that a DaemonSet brings; None where somebody took it out."""
    pod: dict[str, Any] = daemonset.spec.get("template", {}).get("spec", {})
    return next((one.get("image") for one in pod.get("containers", ()) if one.get("name") == DRIVER), None)
