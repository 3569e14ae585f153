"""Drivers that a GPUDriver brought before, as their DaemonSets have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.domain.driver.choice import Install
from controllers.domain.driver.flavour import branch_of
from controllers.domain.driver.variant import Variant, is_for_any_kernel, object_name, of_value, revision_of
from controllers.driver.drivers.results import remembered
from controllers.driver.pods.container_names import DRIVER

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver, RevisionStatus
    from controllers.api.kube import DaemonSet
    from controllers.driver.observe.sources import Sources


def installed(sources: Sources, driver: GPUDriver, value: str, kernel: str) -> Install | None:
    """The driver of a label's value for a kernel; None where its DaemonSet is gone, or it serves another kernel."""
    variant, known = of_value(value, kernel), remembered(driver, revision_of(value))
    daemonset = sources.caches.daemonsets.get(f"{names.NAMESPACE}/{object_name(value)}")
    if variant is None or daemonset is None or known is None or (image := image_of(daemonset)) is None:
        return None
    return Install(variant, "Precompiled" if variant.kernel else "Compiled", image, reported(known, value))


def last_good(
    sources: Sources, driver: GPUDriver, choice: Install, stratum: str, kernel: str, *, but: str
) -> Install | None:
    """The newest driver that is good on a kind of node and still there; of another revision than `but`."""
    of = choice.variant
    for known in driver.status.revisions:
        if known.hash == but or sources.proofs.results(driver, known.hash).on(stratum) != "Good":
            continue
        for form in (of.kernel, "", kernel):
            value = Variant(known.hash, of.system, form, of.modules).value
            if (made := installed(sources, driver, value, kernel)) is not None:
                return made
    return None


def reported(known: RevisionStatus, value: str) -> str:
    """What the driver of a remembered revision's variant has to report: of an image for one kernel only the branch."""
    return known.version if is_for_any_kernel(value) else branch_of(known.version)


def image_of(daemonset: DaemonSet) -> str | None:
    """The image of the driver that a DaemonSet brings; None where somebody took it out."""
    pod: dict[str, Any] = daemonset.spec.get("template", {}).get("spec", {})
    return next((one.get("image") for one in pod.get("containers", ()) if one.get("name") == DRIVER), None)
