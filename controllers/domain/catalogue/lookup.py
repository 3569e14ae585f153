"""Answers from the catalogue. The files are read here, once, at import."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.domain.catalogue import reading
from controllers.domain.catalogue.model import Geometry, Model, Vendor
from controllers.domain.catalogue.spelling import canonical_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["VENDORS", "canonical_profile", "geometry", "is_card", "model", "read", "vendor_id"]

HERE = Path(__file__).parent


def read(name: str) -> tuple[str, dict[str, Any]]:
    """A file of the catalogue: its name and its tables."""
    path = HERE / f"{name}.toml"
    try:
        return path.name, tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: not TOML: {error}") from error


VENDORS: Mapping[str, Vendor] = reading.vendors(*read("vendors"))
"""Vendors by PCI id."""
GEOMETRIES: Mapping[str, Geometry] = reading.geometries(*read("mig"))
"""MIG geometries by name."""
MODELS: Mapping[reading.Key, Model] = {
    key: found
    for vendor in VENDORS.values()
    for key, found in reading.models(*read(vendor.name), vendor, GEOMETRIES).items()
}
"""Every card model by vendor, device and subsystem."""


def _by_device() -> dict[tuple[str, str], Model]:
    """What is known of a device without its subsystem."""
    rows: dict[tuple[str, str], list[Model]] = {}
    for (vendor, device, _), found in MODELS.items():
        if found not in (same := rows.setdefault((vendor, device), [])):
            same.append(found)
    return {key: same[0] if len(same) == 1 else _common(same) for key, same in rows.items()}


def _common(models: list[Model]) -> Model:
    """Several products of one device id: all their names, and the facts on which they agree."""
    first = models[0]

    def agreed(name: str) -> Any:
        values = {getattr(found, name) for found in models}
        return values.pop() if len(values) == 1 else None

    return Model(
        first.vendor,
        first.device,
        " or ".join(dict.fromkeys(found.product for found in models)),
        agreed("memory_mib"),
        agreed("compute"),
        agreed("geometry"),
        agreed("mig_needs_reset"),
        "; ".join(dict.fromkeys(part for found in models for part in _parts(found.source))),
    )


def _parts(source: str) -> Iterable[str]:
    return source.split("; ")


_DEVICES = _by_device()
_VENDOR_IDS = {spelling: found.id for found in VENDORS.values() for spelling in (found.id, found.name)}


def vendor_id(text: str) -> str | None:
    """The PCI id of a vendor by its name or id, in any case; None for one that we do not know."""
    return _VENDOR_IDS.get(text.strip().lower())


def is_card(vendor: str, device: str, class4: str) -> bool:
    """Whether a PCI function is a card, by its ids and class (class and subclass: `0302`).

    NVSwitches, audio functions, other vendors' displays and displays of processors are none. SR-IOV
    functions have the ids of their card: sysfs tells them apart, not this.
    """
    known = VENDORS.get(vendor.lower())
    return known is not None and class4.lower() in known.classes and known.makes(device.lower())


def model(vendor: str, device: str, subsystem: str | None = None) -> Model | None:
    """The card model; None for one that is not in the catalogue.

    Some device ids are several products. `subsystem` (`10de:157e`) tells which; without it, the
    answer names them all and says only what holds for each.
    """
    vendor, device = vendor.lower(), device.lower()
    if subsystem is not None:
        exact = MODELS.get((vendor, device, subsystem.lower())) or MODELS.get((vendor, device, ""))
        if exact is not None:
            return exact
    return _DEVICES.get((vendor, device))


def geometry(name: str) -> Geometry | None:
    """The MIG geometry of that name (`Model.geometry`)."""
    return GEOMETRIES.get(name)
