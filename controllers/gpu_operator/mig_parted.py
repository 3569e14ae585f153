"""What a configuration of mig-parted's is to a pool: its entries as `domain.mig` reads them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.domain.catalogue.lookup import GEOMETRIES, geometry, model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.domain.mig import PartedLayout


def refusal(entry: PartedLayout) -> str:
    """Why no pool can divide cards so; empty where one can."""
    idle = entry.mig_enabled and entry.division is None
    return "cards in MIG mode without instances serve nobody" if idle else ""


def allocation(entry: PartedLayout) -> dict[str, Any]:
    """The part of a GPUPool's spec: one profile where a card is full of it, else the layout."""
    if entry.division is None:
        return {"mode": "Exclusive"}
    if len(entry.profiles) == 1:
        ((profile, count),) = entry.profiles.items()
        if _fills(entry.device_filter, profile, count):
            return {"mode": "MIG", "migProfile": profile}
    layout = [{"profile": profile, "count": count} for profile, count in entry.profiles.items()]
    return {"mode": "MIG", "migLayout": layout}


def _fills(models: Iterable[str], profile: str, count: int) -> bool:
    """Whether so many instances of the profile are as many as a card can hold, on every model on which they fit."""
    named = [found for pair in models if (found := model(*pair.split(":"))) is not None]
    # Of any model: on those that hold fewer the configuration would fail.
    cuts = [geometry(one.geometry) for one in named if one.geometry] if named else [*GEOMETRIES.values()]
    holds = {cut.profiles[profile].instances for cut in cuts if cut is not None and profile in cut.profiles}
    fitting = {most for most in holds if most >= count}
    return fitting == {count}
