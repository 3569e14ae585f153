"""Which driver images NVIDIA publishes, from `images.toml`; read and checked once, at import."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.domain.catalogue.fields import Entry
from controllers.domain.catalogue.lookup import read

if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEM: Final = re.compile("[a-z]+[0-9]+([.][0-9]+)?")
FULL: Final = re.compile(r"[0-9]{3,4}(\.[0-9]+){2}")
SERIES: Final = re.compile(r"[0-9]+\.[0-9]+")
FLAVOUR: Final = re.compile("[a-z]+(-[a-z]+)*")
_RELEASE: Final = re.compile(r"(?P<series>[0-9]{1,3}\.[0-9]{1,3})\.[0-9]{1,5}-[0-9]{1,6}-(?P<flavour>[a-z0-9-]{1,40})")
"""A kernel's release as Ubuntu spells it: 6.8.0-71-generic."""


@dataclass(frozen=True, slots=True)
class Precompiled:
    """Kernels of one system for which there are images with modules."""

    series: tuple[str, ...]
    flavours: tuple[str, ...]
    branches: tuple[int, ...]

    def serves(self, kernel: str) -> bool:
        """Whether images are made for kernels like this one."""
        found = _RELEASE.fullmatch(kernel)
        return found is not None and found["series"] in self.series and found["flavour"] in self.flavours

    def __str__(self) -> str:
        """In words."""
        kernels = f"kernels {', '.join(self.series)} ({', '.join(self.flavours)})"
        return f"{kernels} in branches {', '.join(map(str, self.branches))}"


@dataclass(frozen=True, slots=True)
class Images:
    """The whole file."""

    compiled: Mapping[str, tuple[str, ...]]
    """By system, the versions that are built now."""
    precompiled: Mapping[str, Precompiled]
    """By system."""


def images(file: str, tables: Mapping[str, Any]) -> Images:
    """The images from what `tomllib` made of the file; raises ValueError that names file and entry."""
    root = Entry(file, "the file", tables)
    root.only("sources", "compiled", "precompiled")
    sources = root.required("sources", dict)
    used: set[str] = set()
    compiled = {}
    for system, values in root.required("compiled", dict).items():
        entry = _entry(file, system, values, sources, used, "versions")
        compiled[system] = entry.texts("versions", FULL)
    precompiled = {}
    for system, values in root.required("precompiled", dict).items():
        entry = _entry(file, system, values, sources, used, "series", "flavours", "branches")
        kernels = entry.texts("series", SERIES), entry.texts("flavours", FLAVOUR)
        precompiled[system] = Precompiled(*kernels, entry.numbers("branches"))
    if unused := sorted(sources.keys() - used):
        root.wrong(f"source {', '.join(unused)} is named by no row")
    return Images(compiled, precompiled)


def _entry(
    file: str, system: str, values: Mapping[str, Any], sources: Mapping[str, str], used: set[str], *keys: str
) -> Entry:
    entry = Entry(file, system, values)
    entry.only(*keys, "source")
    if not SYSTEM.fullmatch(system):
        entry.wrong("no system")
    named = entry.texts("source")
    if not named or (strange := [key for key in named if key not in sources]):
        entry.wrong(f"source {', '.join(strange) if named else 'is empty'}: it has to be in [sources]")
    used.update(named)
    return entry


IMAGES: Final = images(*read("images"))


def compiled_systems() -> str:
    """Systems whose images compile the modules on the node, in words."""
    return ", ".join(IMAGES.compiled)


def precompiled_kernels() -> str:
    """For which kernels there are images with modules, in words."""
    return "; ".join(f"{system}: {kernels}" for system, kernels in IMAGES.precompiled.items())
