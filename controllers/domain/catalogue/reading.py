"""Makes the records of the catalogue out of the tables of its files, and checks what they say of each other. Pure.

Every function takes what `tomllib` made of a file, and raises ValueError that names file and entry.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from controllers.domain.catalogue.fields import ID, SUBSYSTEM, VERSION, Entry
from controllers.domain.catalogue.model import Geometry, Model, Profile, Vendor
from controllers.domain.catalogue.spelling import PROFILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Key = tuple[str, str, str]
"""Vendor, device and subsystem (`10de:157e`); the subsystem is empty where any will do."""


def vendors(file: str, tables: Mapping[str, Any]) -> Mapping[str, Vendor]:
    """Vendors by PCI id."""
    found: dict[str, Vendor] = {}
    for name, values in tables.items():
        entry = Entry(file, name, values)
        entry.only("id", "classes", "modules", "integrated", "devices")
        classes, modules = entry.texts("classes", ID), entry.texts("modules")
        if not classes or not modules:
            entry.wrong("a vendor needs classes and modules")
        integrated = frozenset(entry.texts("integrated", ID))
        devices = frozenset(entry.texts("devices", ID)) if "devices" in values else frozenset()
        vendor = Vendor(entry.text("id", ID), name, classes, modules, integrated, devices)
        if vendor.id in found:
            entry.wrong(f"id {vendor.id} is {found[vendor.id].name}'s too")
        found[vendor.id] = vendor
    return MappingProxyType(found)


def geometries(file: str, tables: Mapping[str, Any]) -> Mapping[str, Geometry]:
    """MIG geometries by name."""
    found = {}
    for name, values in tables.items():
        entry = Entry(file, name, values)
        entry.only("compute_slices", "memory_slices", "source", "profiles")
        compute, memory = entry.count("compute_slices"), entry.count("memory_slices")
        rows = entry.required("profiles", dict)
        if not rows:
            entry.wrong("a geometry needs profiles")
        profiles = {
            key: _profile(Entry(file, f"{name}: {key}", row), key, compute, memory) for key, row in rows.items()
        }
        found[name] = Geometry(name, compute, memory, MappingProxyType(profiles), entry.text("source"))
    return MappingProxyType(found)


def _profile(entry: Entry, name: str, compute: int, memory: int) -> Profile:
    entry.only("compute", "memory", "mib", "instances", "starts", "media")
    spelled = PROFILE.fullmatch(name)
    if not spelled:
        entry.wrong("no profile's name")
    profile = Profile(
        name,
        entry.count("compute"),
        entry.count("memory"),
        entry.count("mib") if "mib" in entry.values else None,
        entry.count("instances"),
        entry.numbers("starts"),
        entry.optional("media", bool) or False,
    )
    if int(spelled["compute"]) != profile.compute_slices:
        entry.wrong(f"the name says {spelled['compute']} compute slices, compute says {profile.compute_slices}")
    if profile.compute_slices > compute or profile.starts[-1] + profile.memory_slices > memory:
        entry.wrong(f"does not lie inside {compute} compute slices and {memory} memory slices")
    most = min(_apart(profile), compute // profile.compute_slices, 1 if profile.media else memory)
    if profile.instances != most:
        entry.wrong(f"instances is {profile.instances}, but {most} fit at its starts")
    return profile


def _apart(profile: Profile) -> int:
    """How many placements of one profile fit side by side."""
    end = count = 0
    for start in profile.starts:
        if start >= end:
            end, count = start + profile.memory_slices, count + 1
    return count


def models(
    file: str, tables: Mapping[str, Any], vendor: Vendor, geometries: Mapping[str, Geometry]
) -> Mapping[Key, Model]:
    """The card models of one vendor."""
    root = Entry(file, "the file", tables)
    root.only("sources", "families")
    sources = Entry(file, "sources", root.required("sources", dict))
    known = {key: sources.text(key) for key in sources.values}
    found: dict[Key, Model] = {}
    used: Counter[str] = Counter()
    for number, values in enumerate(root.required("families", list), 1):
        family = Entry(file, str(values.get("chip", f"family {number}")), values)
        for subsystems, keys, model in _family(family, vendor, geometries, known):
            used.update(keys)
            for subsystem in subsystems:
                key = (vendor.id, model.device, subsystem)
                if key in found:
                    family.wrong(f"device {model.device} {subsystem} is there twice".replace("  ", " "))
                if not vendor.makes(model.device):
                    family.wrong(f"device {model.device} is {vendor.name}'s integrated display")
                found[key] = model
    if unused := sorted(known.keys() - used.keys()):
        sources.wrong(f"{', '.join(unused)} is named by no card")
    return MappingProxyType(found)


def _family(
    family: Entry, vendor: Vendor, geometries: Mapping[str, Geometry], known: Mapping[str, str]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], Model]]:
    """Each card of a family with its subsystems and the keys of its sources."""
    family.only("chip", "compute", "mig_needs_reset", "source", "cards")
    family.text("chip")
    needs_reset = family.optional("mig_needs_reset", bool)
    version = VERSION.fullmatch(family.text("compute", VERSION)) if "compute" in family.values else None
    capability = (int(version[1]), int(version[2])) if version else None
    for number, values in enumerate(family.required("cards", list), 1):
        if not isinstance(values, dict):
            family.wrong(f"card {number} is no table")
        card = Entry(family.file, f"{family.name}: {values.get('id', f'card {number}')}", values)
        card.only("id", "subsystem", "product", "gib", "shares_memory", "geometry", "source")
        cut = card.optional("geometry", str)
        if cut is not None and cut not in geometries:
            card.wrong(f"geometry {cut!r} is not in the file of geometries")
        if cut is not None and needs_reset is None:
            card.wrong("has a geometry, but its family does not say mig_needs_reset")
        keys = family.texts("source") + (card.texts("source") if "source" in values else ())
        if strange := [key for key in keys if key not in known]:
            card.wrong(f"source {', '.join(strange)} is not in [sources]")
        yield (
            card.texts("subsystem", SUBSYSTEM) if "subsystem" in values else ("",),
            keys,
            Model(
                vendor=vendor.id,
                device=card.text("id", ID),
                product=card.text("product"),
                memory_mib=card.count("gib") * 1024 if "gib" in values else None,
                compute=capability,
                geometry=cut,
                mig_needs_reset=needs_reset,
                shares_memory=card.optional("shares_memory", bool) or False,
                source="; ".join(known[key] for key in dict.fromkeys(keys)),
            ),
        )
