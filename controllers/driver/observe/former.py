"""Drivers that a GPUDriver brought before, as their DaemonSets have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from controllers.api import names
from controllers.domain.driver.choice import Former, Install
from controllers.domain.driver.flavour import branch_of
from controllers.domain.driver.variant import Variant, is_for_any_kernel, object_name, of_value, revision_of
from controllers.driver.drivers.results import remembered
from controllers.driver.pods.container_names import DRIVER, FS, GDRCOPY
from controllers.driver.pods.environment import MODE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudriver import GPUDriver, RevisionStatus
    from controllers.api.kube import DaemonSet
    from controllers.driver.observe.sources import Sources

Json = dict[str, Any]


def installed(sources: Sources, driver: GPUDriver, value: str, kernel: str) -> Install | None:
    """The driver of a label's value for a kernel; None where its DaemonSet is gone, or it serves another kernel."""
    variant, known = of_value(value, kernel), remembered(driver, revision_of(value))
    daemonset = sources.caches.daemonsets.get(f"{names.NAMESPACE}/{object_name(value)}")
    found = containers_of(daemonset) if daemonset is not None else {}
    image = found.get(DRIVER, {}).get("image")
    if variant is None or daemonset is None or known is None or image is None:
        return None  # the last where somebody took the driver out of it
    is_wanted = sources.decisions.revision(driver) == known.hash
    former = None if is_wanted else _former(daemonset, found)
    return Install(variant, _mode(found[DRIVER], variant), image, reported(known, value), former=former)


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


def containers_of(daemonset: DaemonSet) -> dict[str, Json]:
    """The containers of a DaemonSet's pods, by name."""
    return {one.get("name", ""): one for one in _pod(daemonset).get("containers", ())}


def _pod(daemonset: DaemonSet) -> Json:
    found: Json = daemonset.spec.get("template", {}).get("spec", {})
    return found


def _mode(container: Json, variant: Variant) -> Literal["Precompiled", "Compiled"]:
    """How the modules come about: an image of a person's own may be for one kernel, and compile them on the node."""
    told = {one.get("name"): one.get("value") for one in container.get("env", ())}.get(MODE)
    if told in ("Precompiled", "Compiled"):
        return "Precompiled" if told == "Precompiled" else "Compiled"
    return "Precompiled" if variant.kernel else "Compiled"


def _former(daemonset: DaemonSet, containers: Mapping[str, Json]) -> Former:
    """What a look at a node asks for where it is to get the driver of that DaemonSet."""
    secrets = tuple(one.get("name", "") for one in _pod(daemonset).get("imagePullSecrets", ()))
    own = ((name, one.get("image", "")) for name, one in containers.items() if name in (FS, GDRCOPY))
    return Former(secrets, tuple(own))
