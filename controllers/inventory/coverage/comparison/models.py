"""Card models against the catalogue: those that it does not know, knows otherwise, or knows in part. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from controllers.domain.catalogue import VENDORS, canonical_profile, geometry, model
from controllers.domain.pci import canonical
from controllers.inventory.coverage.comparison import entry
from controllers.inventory.coverage.comparison.result import ModelResult
from controllers.inventory.reports import discovered_cards, nfd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controllers.api.nodefeature import NodeFeature
    from controllers.domain.catalogue import Model

MEMORY_LEAST = 0.9
"""A driver reports up to 8 % less than the nominal memory; less than this share is another card's memory."""
SUBSYSTEM = ("subsystem_vendor", "subsystem_device")
BRAND = "nvidia "


@dataclass(frozen=True, slots=True)
class Sighting:
    """Some equal cards of one node."""

    node: str
    vendor: str
    device: str
    class_: str = ""
    count: int = 1
    subsystem: str | None = None
    product: str | None = None
    memory_mib: int | None = None
    compute: tuple[int, int] | None = None
    profiles: tuple[str, ...] = ()
    module: str = ""


def compare_models(reports: Mapping[str, Sequence[NodeFeature]]) -> tuple[ModelResult, ...]:
    """What is to be said of the models in all nodes; by vendor and device."""
    found: dict[tuple[str, str], list[Sighting]] = defaultdict(list)
    for node, said in sorted(reports.items()):
        for one in _sightings(node, said):
            found[one.vendor, one.device].append(one)
    judged = (_evaluate_model(same) for _, same in sorted(found.items()))
    return tuple(one for one in judged if one is not None)


def _sightings(node: str, reports: Sequence[NodeFeature]) -> Iterator[Sighting]:
    """What the agent names; where it names nothing, what NFD counts."""
    report = next((one for one in reports if one.is_agent_report), None)
    reading = discovered_cards.read(report)
    if report is None or reading is None:
        for counted in nfd.total(one for one in reports if one is not report):
            vendor, _, device = counted.name.partition(":")
            yield Sighting(node, vendor, device, count=counted.least)
        return
    elements = report.spec.features.instances.cards
    raw = {canonical(e.attributes.get("address", "")): e.attributes for e in (elements.elements if elements else ())}
    for card in reading.cards:
        if (hardware := card.hardware) is None:
            continue
        said = raw.get(card.address, {})
        ids = [said.get(key, "").strip().lower().removeprefix("0x") for key in SUBSYSTEM]
        capability = hardware.compute_capability
        yield Sighting(
            node,
            hardware.pci.vendor,
            hardware.pci.device,
            class_=hardware.pci.class_,
            subsystem=":".join(ids) if all(ids) else None,
            product=hardware.product,
            memory_mib=hardware.memory_mib,
            compute=(capability.major, capability.minor) if capability else None,
            profiles=hardware.mig.profiles_supported if hardware.mig else (),
            module=said.get("driver", ""),
        )


def _evaluate_model(same: Sequence[Sighting]) -> ModelResult | None:
    """One vendor and device; None where the catalogue knows it and says the same."""
    first = same[0]
    if model(first.vendor, first.device) is None:
        return _result("Unknown", same, add=_entry(same))
    wrong = _distinct(text for one in same if (known := _known(one)) for text in _contradictions(one, known))
    if wrong:
        return _result("Contradicts", same, differences=wrong)
    lacking = _distinct(text for one in same if (known := _known(one)) for text in _lacking(one, known))
    return _result("Incomplete", same, differences=lacking) if lacking else None


def _known(one: Sighting) -> Model | None:
    return model(one.vendor, one.device, one.subsystem)


def _contradictions(one: Sighting, known: Model) -> Iterator[str]:
    if one.product and _plain(one.product) not in map(_plain, known.product.split(" or ")):
        yield f"product {one.product}; the catalogue says {known.product}"
    if one.compute and known.compute and one.compute != known.compute:
        yield f"compute capability {_version(one.compute)}; the catalogue says {_version(known.compute)}"
    if one.memory_mib and known.memory_mib:
        share = one.memory_mib / known.memory_mib
        if not MEMORY_LEAST <= share <= 1:
            yield f"memory {one.memory_mib} MiB; the catalogue says {known.memory_mib} MiB, nominal"


def _lacking(one: Sighting, known: Model) -> Iterator[str]:
    """MIG profiles that the driver offers and the catalogue cannot place."""
    cut = geometry(known.geometry) if known.geometry else None
    if one.profiles and cut is None:
        yield f"the driver offers MIG profiles {', '.join(one.profiles)}; the catalogue has no geometry for them"
    elif cut is not None and (new := [p for p in one.profiles if (canonical_profile(p) or p) not in cut.profiles]):
        yield f"the driver offers MIG profiles {', '.join(new)}; geometry {cut.name} has no placement for them"


def _plain(product: str) -> str:
    """Drivers before 470 leave the brand out of the product's name."""
    return product.strip().casefold().removeprefix(BRAND)


def _version(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def _entry(same: Sequence[Sighting]) -> str:
    """The entry, from what most of the cards say."""
    first = same[0]
    if first.vendor not in VENDORS:
        return entry.of_vendor(first.vendor, first.class_, _most(one.module for one in same) or "")
    capability = _most(_version(one.compute) if one.compute else "" for one in same)
    memory = [one.memory_mib for one in same if one.memory_mib]
    return entry.of_model(
        first.vendor,
        first.device,
        product=_most(one.product or "" for one in same),
        memory_mib=max(memory, default=None),
        compute=capability,
        profiles=_distinct(profile for one in same for profile in one.profiles),
    )


def _result(
    problem: Literal["Unknown", "Contradicts", "Incomplete"],
    same: Sequence[Sighting],
    *,
    add: str = "",
    differences: tuple[str, ...] = (),
) -> ModelResult:
    vendor, device = same[0].vendor, same[0].device
    return ModelResult(
        problem=problem,
        vendor=vendor,
        device=device,
        count=sum(one.count for one in same),
        nodes=_distinct(one.node for one in same),
        products=_distinct(one.product for one in same if one.product),
        memory_mib=tuple(sorted({one.memory_mib for one in same if one.memory_mib})),
        compute=_distinct(_version(one.compute) for one in same if one.compute),
        mig_profiles=_distinct(profile for one in same for profile in one.profiles),
        differences=differences,
        file=entry.file(vendor),
        entry=add,
    )


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _most(items: Iterable[str]) -> str | None:
    """What is said most often; None where nothing is said."""
    counted = Counter(item for item in items if item)
    return counted.most_common(1)[0][0] if counted else None
