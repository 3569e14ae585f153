"""The registry of driver images: which there are, and which version is in one. Pure.

Of NVIDIA's own repository the images are those that were published when this was written. Any other repository has
whatever it is asked for, as it is its owner's.
"""

from __future__ import annotations

import re
from typing import Final

from controllers.domain.catalogue.images import IMAGES

PUBLIC: Final = "nvcr.io/nvidia/driver"
CUDA: Final = {"580": "13.0", "595": "13.2", "610": "13.3"}
"""The newest CUDA that a branch serves; what is newer than 595 is supposed."""
VERSIONS: Final = tuple(sorted({version for versions in IMAGES.compiled.values() for version in versions}))
"""All that are built, the newest last."""
_VERSION: Final = re.compile(r"(?P<version>[0-9]{3,4}(?:[.][0-9]+)*)-(?P<rest>.+)")


def cuda(version: str) -> str:
    """The newest CUDA that a version of the driver serves."""
    return CUDA.get(version.partition(".")[0], "13.0")


def version(image: str) -> str:
    """The version of the driver in an image: its tag tells it, or a branch; else it is the newest."""
    found = _VERSION.fullmatch(tag(image))
    told = found["version"] if found is not None else ""
    if "." in told:
        return told
    return next((one for one in reversed(VERSIONS) if one.startswith(f"{told}.")), VERSIONS[-1])


def exists(image: str) -> bool:
    """Whether there is such an image."""
    if not image.startswith(f"{PUBLIC}:"):
        return True
    found = _VERSION.fullmatch(tag(image))
    if found is None:
        return False
    told, rest = found["version"], found["rest"]
    if rest in IMAGES.compiled:
        return told in IMAGES.compiled[rest]
    kernel, _, system = rest.rpartition("-")
    served = IMAGES.precompiled.get(system)
    return served is not None and served.serves(kernel) and told in map(str, served.branches)


def compiles(image: str) -> bool:
    """Whether the image compiles the modules on the node, rather than having them for one kernel."""
    found = _VERSION.fullmatch(tag(image))
    return found is None or re.match(r"[0-9]+[.][0-9]+[.][0-9]+-", found["rest"]) is None


def tag(image: str) -> str:
    """The tag of an image; empty where it has none, or a digest."""
    name, colon, found = image.rpartition(":")
    return found if colon and "/" not in found and "@" not in name else ""


def missing(image: str) -> str:
    """What containerd says of an image that is not there."""
    return f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'
