"""The least version of a component with which a node can be prepared at all. Pure.

A tag tells a version only where the image has NVIDIA's name for it: whoever builds an image of another name numbers it
as they like. Digests and words such as `latest` tell none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.image_reference import split_reference

if TYPE_CHECKING:
    from controllers.api.component_settings import ComponentSettings

_VERSION: Final = re.compile(r"v?([0-9]{1,6}(?:\.[0-9]{1,6}){1,3})(?=$|[-_@+])")


@dataclass(frozen=True, slots=True)
class MinimumVersion:
    """The least version of one component."""

    image: str
    """The last part of the image's name."""
    version: str
    because: str
    """What an older one lacks, as the end of a sentence."""

    def suffices(self, chosen: ComponentSettings) -> ComponentSettings:
        """The settings as they are; raises ValueError where they run an older version."""
        path, version = split_reference(chosen.image or self.image)
        found = chosen.version or version or ""
        if not chosen.enabled or path.rpartition("/")[2] != self.image or (said := _VERSION.match(found)) is None:
            return chosen
        if _numbers(said[1]) >= _numbers(self.version):
            return chosen
        msg = (
            f"version {found.partition('@')[0]} is older than {self.version}, the least that works; an older"
            f" {self.image} {self.because}: choose a newer one"
        )
        raise ValueError(msg)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in [*version.split("."), "0", "0", "0"][:4]]
