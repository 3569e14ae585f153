"""How cards are divided, from a configuration of mig-parted's. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from controllers.domain.catalogue import canonical_profile
from controllers.domain.catalogue.lookup import GEOMETRIES, geometry, model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FILTER: Final = re.compile("0x(?P<device>[0-9a-fA-F]{4})(?P<vendor>[0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True)
class Layout:
    """One entry of a configuration: some cards of a node, and how each is divided."""

    name: str
    """The configuration's."""
    devices: Literal["all"] | tuple[int, ...]
    """Indexes of the cards among their node's."""
    device_filter: tuple[str, ...]
    """Models as `<vendor>:<device>`; empty for any."""
    mig_enabled: bool
    profiles: Mapping[str, int]
    """Instances by canonical profile."""
    refused: str = ""
    """Why no pool can do it; empty where one can."""

    @property
    def is_divided(self) -> bool:
        """Whether the cards have instances."""
        return self.mig_enabled and bool(self.profiles)

    @property
    def allocation(self) -> dict[str, Any]:
        """The part of a GPUPool's spec: one profile where a card is full of it, else the layout."""
        if not self.is_divided:
            return {"mode": "Exclusive"}
        if len(self.profiles) == 1:
            ((profile, count),) = self.profiles.items()
            if _fills(self.device_filter, profile, count):
                return {"mode": "MIG", "migProfile": profile}
        layout = [{"profile": profile, "count": count} for profile, count in self.profiles.items()]
        return {"mode": "MIG", "migLayout": layout}


def layouts(text: str) -> list[Layout]:
    """The entries in their order; raises ValueError for what is no configuration of mig-parted's."""
    try:
        found = yaml.safe_load(text)
        named = [(str(name), entry) for name, entries in found["mig-configs"].items() for entry in entries]
    except (yaml.YAMLError, AttributeError, TypeError, KeyError, ValueError) as error:
        msg = f"it is no configuration of mig-parted's: {' '.join(str(error).split())[:120]}"
        raise ValueError(msg) from error
    return [_readable(name, entry) for name, entry in named]


def _readable(name: str, entry: Any) -> Layout:
    """The entry; of one that cannot be read, why: others of the configuration may be well."""
    try:
        return _entry(name, entry)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        reason = f"an entry cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:120]})"
        return Layout(name, "all", (), mig_enabled=True, profiles={}, refused=reason)


def _entry(name: str, entry: Mapping[str, Any]) -> Layout:
    devices = entry.get("devices", "all")
    filters = entry.get("device-filter") or ()
    filters = [filters] if isinstance(filters, str) else filters
    profiles: dict[str, int] = {}
    refused = ""
    for written, count in (entry.get("mig-devices") or {}).items():
        profile = canonical_profile(str(written))
        if profile is None:
            refused = f"{written} is no profile of a GPU instance, and others are not made"
        else:
            profiles[profile] = profiles.get(profile, 0) + int(count)
    profiles = {profile: count for profile, count in profiles.items() if count}
    enabled = bool(entry["mig-enabled"])
    if enabled and not profiles and not refused:
        refused = "cards in MIG mode without instances serve nobody"
    indexes: Any = "all" if devices == "all" else tuple(int(one) for one in devices)
    return Layout(name, indexes, tuple(map(_model, filters)), enabled, profiles, refused)


def _model(written: Any) -> str:
    """`0x233010DE` is device 2330 of vendor 10de."""
    text = f"0x{written:08X}" if isinstance(written, int) else str(written).strip()
    found = _FILTER.fullmatch(text)
    if found is None:
        msg = f"{written!r} is no device-filter"
        raise ValueError(msg)
    return f"{found['vendor']}:{found['device']}".lower()


def _fills(models: Iterable[str], profile: str, count: int) -> bool:
    """Whether so many instances of the profile are as many as a card can hold, on every model on which they fit."""
    named = [found for pair in models if (found := model(*pair.split(":"))) is not None]
    # Of any model: on those that hold fewer the configuration would fail.
    cuts = [geometry(one.geometry) for one in named if one.geometry] if named else [*GEOMETRIES.values()]
    holds = {cut.profiles[profile].instances for cut in cuts if cut is not None and profile in cut.profiles}
    fitting = {most for most in holds if most >= count}
    return fitting == {count}
