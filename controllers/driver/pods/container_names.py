"""Names of containers in pods of drivers and in check pods: by these their ends are read again. Pure."""

from __future__ import annotations

from typing import Final

PREPARE: Final = "prepare"
"""Clears the way for the driver."""
DRIVER: Final = "nvidia-driver-ctr"
PEERMEM: Final = "nvidia-peermem-ctr"
FS: Final = "nvidia-fs-ctr"
GDRCOPY: Final = "nvidia-gdrcopy-ctr"
LOOK: Final = "look"
"""Of a check pod: looks at the node."""
IMAGE: Final = "image"
"""Of a check pod: has the driver's image."""


def image_of(beside: str) -> str:
    """Of a check pod: the container that has the image of one beside the driver's."""
    return f"{IMAGE}-{beside}"
