"""MIG profiles in the driver's terms: the card catalogue's geometry, and the numbers that only the driver has."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.domain import catalogue
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.hardware import Card

_NAME = re.compile(r"(?P<slices>[1-8])g\.[0-9]+gb(?P<extra>.*)")
# NVML's numbers of profiles (NVML_GPU_INSTANCE_PROFILE_…), by slices and what is special.
_INDEX = {"1": 0, "2": 1, "3": 2, "4": 3, "7": 4, "1+me": 7, "2+me": 8, "1 double": 9}
# The driver's own numbers, which `nvidia-smi mig -cgi` takes, by the compute slices of the GPU.
_ID = {
    7: {"1": 19, "1+me": 20, "1 double": 15, "2": 14, "3": 9, "4": 5, "7": 0},
    4: {"1": 14, "1+me": 21, "2": 5, "2+me": 6, "4": 0},
}
COMPUTE_PROFILES = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
"""NVML's compute instance profile that takes all slices of a GPU instance, by their number."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One GPU instance profile as the driver offers it; `size` in memory slices, `starts` its placements."""

    name: str
    index: int
    id: int
    slices: int
    instances: int
    size: int
    starts: tuple[int, ...]
    has: Mapping[str, int] = field(default_factory=dict)
    """Memory in MiB, multiprocessors and engines, by the configuration's names."""

    def line(self) -> str:
        """The configuration's line."""
        values = {
            "index": self.index,
            "id": self.id,
            "slices": self.slices,
            "instances": self.instances,
            **self.has,
            "size": self.size,
            "starts": ",".join(map(str, self.starts)),
        }
        return f"mig_profile {self.name} {' '.join(f'{key}={value}' for key, value in values.items())}"


def profiles(card: Card) -> tuple[Profile, ...]:
    """The profiles of a card; UserError where the catalogue does not know how the card is cut."""
    if not card.mig_profiles:
        return ()
    model = catalogue.model(card.vendor, card.device, f"{card.subsystem_vendor}:{card.subsystem_device}")
    geometry = catalogue.geometry(model.geometry) if model is not None and model.geometry else None
    missing = [name for name in card.mig_profiles if geometry is None or name not in geometry.profiles]
    if geometry is None or missing:
        raise UserError(
            f"the card catalogue does not say how {card.vendor}:{card.device} is cut into {', '.join(missing)}",
            do="add the card's geometry to controllers/domain/catalogue",
        )
    return tuple(_profile(geometry, geometry.profiles[name]) for name in card.mig_profiles)


def _profile(geometry: catalogue.Geometry, profile: catalogue.Profile) -> Profile:
    match = _NAME.fullmatch(profile.name)
    extra = match["extra"] if match else ""
    smallest = min(p.memory_slices for p in geometry.profiles.values())
    double = " double" if profile.compute_slices == 1 and profile.memory_slices > smallest else ""
    kind = f"{profile.compute_slices}{extra}{double}"
    ids = _ID.get(geometry.compute_slices, {})
    if kind not in ids:
        raise UserError(
            f"the driver's number of MIG profile {profile.name!r} is not known here",
            do="add it to sim/nvml/profiles.py, as `nvidia-smi mig -lgip` lists it",
        )
    memory = {"memory_mib": profile.memory_mib} if profile.memory_mib is not None else {}
    return Profile(
        name=profile.name,
        index=_INDEX[kind],
        id=ids[kind],
        slices=profile.compute_slices,
        instances=profile.instances,
        size=profile.memory_slices,
        starts=profile.starts,
        has=memory | _numbers().get(geometry.name, {}).get(profile.name, {}),
    )


@cache
def _numbers() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "profiles.toml").read_text())
