"""Kernel modules beside the driver that come from images of their own, and the images that a check pod pulls. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.domain.driver.images import sidecar_image
from controllers.driver.pods.container_names import FS, GDRCOPY, IMAGE, image_of

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriverSpec
    from controllers.domain.driver.choice import Install


@dataclass(frozen=True, slots=True)
class Beside:
    """A container that loads one more module."""

    name: str
    image: str
    program: str
    """What is run in it, with argument `install`."""
    module: str
    """As the kernel spells it."""


def sidecars(spec: GPUDriverSpec, choice: Install) -> tuple[Beside, ...]:
    """Those that are asked for."""
    system, made = choice.variant.system, []
    if spec.gds.enabled:
        made.append(Beside(FS, sidecar_image(spec.gds, system), "nvidia-gds-driver", "nvidia_fs"))
    if spec.gdrcopy.enabled:
        made.append(Beside(GDRCOPY, sidecar_image(spec.gdrcopy, system), "nvidia-gdrcopy-driver", "gdrdrv"))
    return tuple(made)


def check_images(spec: GPUDriverSpec, choice: Install) -> dict[str, str]:
    """Images of all containers of the driver's pod but the agent's, by the container that has them in a check pod.

    Of a former revision its DaemonSet says which there are.
    """
    made = ((one.name, one.image) for one in sidecars(spec, choice))
    beside = choice.former.beside if choice.former is not None else made
    return {IMAGE: choice.image} | {image_of(name): image for name, image in beside}
