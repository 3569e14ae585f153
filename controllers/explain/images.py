"""Images that the module and its operands run, as they are configured: what a mirror has to hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api.components import COMPONENTS
from controllers.components.images import reference
from controllers.domain.driver.images import possible_images

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.gpudriver import GPUDriver
    from controllers.api.settings import Settings


@dataclass(frozen=True, order=True, slots=True)
class ImageUse:
    """An image, and what it is for."""

    image: str
    use: str


def operand_images(settings: Settings) -> list[ImageUse]:
    """Images of others that the components run, but for those that are switched off."""
    chosen = ((one, settings.bootstrap.component(one.name)) for one in COMPONENTS if one.image)
    return [ImageUse(reference(found, one.image), one.name) for one, found in chosen if found.enabled]


def own_images(values: Mapping[str, Any]) -> list[ImageUse]:
    """The module's own images, from values of its chart."""
    root = values.get("gpuControlPlane") or {}
    found = ((key, (root.get(key) or {}).get("image")) for key in ("controllers", "nodeAgent"))
    return [ImageUse(image, key) for key, image in found if image]


def running_images(raws: Iterable[Mapping[str, Any]]) -> list[ImageUse]:
    """Images of Deployments, DaemonSets and CronJobs."""
    made = []
    for raw in raws:
        spec = raw.get("spec") or {}
        spec = (spec.get("jobTemplate") or {}).get("spec") or spec
        pod = (spec.get("template") or {}).get("spec") or {}
        use = f"{raw['kind']} {raw['metadata']['name']}"
        containers = (*(pod.get("initContainers") or ()), *(pod.get("containers") or ()))
        made += [ImageUse(one["image"], use) for one in containers if one.get("image")]
    return made


def driver_images(drivers: Iterable[GPUDriver], systems: Collection[tuple[str, str]]) -> list[ImageUse]:
    """Images that may bring drivers to nodes. `systems`: system of each kind of node, and its kernel or nothing."""
    made = []
    for driver in drivers:
        use = f"GPUDriver {driver.name}"
        made += [ImageUse(one.image, use) for one in driver.spec.image.overrides]
        made += [ImageUse(image, use) for pair in systems for image in possible_images(driver.spec, *pair)]
    return made


def merged(uses: Iterable[ImageUse]) -> list[dict[str, Any]]:
    """Each image once, by its name, with all that it is for."""
    made: dict[str, set[str]] = {}
    for one in uses:
        made.setdefault(one.image, set()).add(one.use)
    return [{"image": image, "for": sorted(made[image])} for image in sorted(made)]
