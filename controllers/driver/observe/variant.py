"""The view of a variant: its objects, and who needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.driver.variant import object_name, revision_of
from controllers.driver.caches import BY_VARIANT
from controllers.driver.drivers.results import remembered
from controllers.driver.observe.objects import objects_of
from controllers.driver.views import Objects, ObservedVariant

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver
    from controllers.driver.observe.sources import Sources


def observe_variant(sources: Sources, value: str) -> ObservedVariant:
    """One variant with its objects."""
    caches = sources.caches
    key = f"{names.NAMESPACE}/{object_name(value)}"
    labelled = [one.name for one in caches.nodes.by(BY_VARIANT, value)]
    users = labelled + [one.name for one in caches.inventories.by(BY_VARIANT, value)]
    return ObservedVariant(
        value,
        caches.daemonsets.get(key),
        caches.configmaps.get(key),
        _built(sources, value, users),
        bool(users),
        bool(labelled),
        any(_remembers(sources, driver, revision_of(value)) for driver in caches.drivers),
        sources.agent_image,
        sources.deleted_at,
        sources.enabled,
    )


def _built(sources: Sources, value: str, users: list[str]) -> Objects:
    """The variant's objects, by a node that has it, or gets it, of a GPUDriver that is as it was."""
    for name in users:
        driver = sources.driver_of(name)
        made = sources.decisions.as_labelled(name, driver, value) if driver is not None else None
        if driver is not None and made is not None:
            return objects_of(sources, driver, made, all_of_them=True)
    return Objects()


def _remembers(sources: Sources, driver: GPUDriver, revision: str) -> bool:
    return sources.decisions.revision(driver) == revision or remembered(driver, revision) is not None
