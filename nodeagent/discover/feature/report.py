"""Facts become the report: NodeFeature's features (docs/dev/design.md, The agent's report). Pure.

All values are strings and only what is known is there. For each thing it is also said which of
its attributes exist and could not be told this time (`unknown`): `confirm` decides how long the last
value of those is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from controllers.api import names, system_facts
from controllers.api.validation import LOAD
from controllers.domain.pci import place
from nodeagent.discover import VERSION
from nodeagent.host.facts import attributes
from nodeagent.host.facts.bridge import Observation
from nodeagent.host.facts.cards import cards, has_nvswitch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.host.facts.records import Bus, Driver, PciFunction, System, Toolkit

NVIDIA, NVIDIA_MODULE = "10de", "nvidia"
TOOLKIT_ATTRIBUTES = frozenset({"installed", "version", "runtime_handler"})
# Which attributes hang on which field of what sysfs tells.
_OF_SYSFS = {name: name for name in ("subsystem_vendor", "subsystem_device", "numa_node", "iommu_group", "driver")} | {
    "sriov_totalvfs": "sriov"
}


@dataclass(frozen=True, slots=True)
class NodeScan:
    """What one scan says of the node."""

    cards: Mapping[str, Observation] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()
    """Addresses where something is that could not be read."""
    driver: Observation | None = None
    """None where it is not loaded."""
    toolkit: Observation = field(default_factory=Observation)
    system: Observation = field(default_factory=Observation)
    pending: bool = False
    """Whether the driver's answer is still awaited, so that its silence counts for nothing."""


def observe(
    bus: Bus, driver: Driver | None, toolkit: Toolkit | None, system: System | None = None, *, pending: bool = False
) -> NodeScan:
    """One scan's facts as attributes."""
    return NodeScan(
        cards={card.address: _card(card, driver) for card in cards(bus)},
        unclear=bus.unclear,
        driver=_driver(driver) if driver is not None else None,
        toolkit=_toolkit(toolkit),
        system=_system(system, bus) if system is not None else Observation(),
        pending=pending,
    )


def features(
    cards: Mapping[str, Mapping[str, str]],
    driver: Mapping[str, str] | None,
    toolkit: Mapping[str, str] | None,
    boot_id: str,
    system: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """NodeFeature's `spec.features`. No cards are a claim too: then the list is there and empty."""
    agent = {"boot_id": boot_id, "version": VERSION}
    maps = {
        names.FEATURE_DRIVER: driver,
        names.FEATURE_TOOLKIT: toolkit,
        names.FEATURE_AGENT: {key: value for key, value in agent.items() if value},
        names.FEATURE_SYSTEM: system,
    }
    elements = [{"attributes": dict(cards[address])} for address in sorted(cards, key=place)]
    return {
        "attributes": {name: {"elements": dict(values)} for name, values in maps.items() if values},
        "instances": {names.FEATURE_DEVICE: {"elements": elements}},
    }


def alone(seen: NodeScan, boot_id: str) -> dict[str, Any]:
    """The report of a scan before which nothing was known."""
    return features(
        {address: told.values for address, told in seen.cards.items()},
        seen.driver.values if seen.driver is not None else None,
        seen.toolkit.values,
        boot_id,
        seen.system.values,
    )


def _card(card: PciFunction, driver: Driver | None) -> Observation:
    values = {
        "address": card.address,
        "vendor": card.vendor,
        "device": card.device,
        "subsystem_vendor": card.subsystem_vendor,
        "subsystem_device": card.subsystem_device,
        "class": card.class_[:4],
        "numa_node": "" if card.numa_node is None else str(card.numa_node),
        "pci_root": card.root,
        "iommu_group": card.iommu_group,
        "driver": card.driver,
        "sriov": "pf" if card.virtual_functions else "none",
    }
    unknown = {_OF_SYSFS[name] for name in card.unreadable if name in _OF_SYSFS}
    known = {key: value for key, value in values.items() if value and key not in unknown}
    if driver is None or not _belongs(card, driver):
        return Observation(known, frozenset(unknown))
    told = driver.cards.get(card.address)
    more = attributes.of(told) if told is not None else {}
    unknown |= (
        attributes.unknown_fields(told.failed) if told is not None and driver.source == "nvml" else attributes.ALL
    )
    if driver.source != "nvml":  # what procfs does tell is sure, the rest it never tells
        unknown -= more.keys()
    return Observation(known | more, frozenset(unknown))


def _belongs(card: PciFunction, driver: Driver) -> bool:
    """Whether NVIDIA's driver should know the card: not one that another driver holds, or none."""
    return card.vendor == NVIDIA and (
        card.driver == NVIDIA_MODULE or "driver" in card.unreadable or card.address in driver.cards
    )


def _driver(driver: Driver) -> Observation:
    values = {"version": driver.version, "cuda_version": driver.cuda_version}
    known = {key: value for key, value in values.items() if value}
    failed = values.keys() if driver.source != "nvml" else set(driver.failed)
    seen = {"root": driver.root, LOAD: driver.load}
    return Observation(known | {key: value for key, value in seen.items() if value}, frozenset(failed - known.keys()))


def _toolkit(toolkit: Toolkit | None) -> Observation:
    if toolkit is None:
        return Observation(unknown_fields=TOOLKIT_ATTRIBUTES)
    values = {"version": toolkit.version, "runtime_handler": toolkit.runtime_handler}
    known = {key: value for key, value in values.items() if value}
    told = {"installed": str(toolkit.installed).lower(), **known, **toolkit.runtime}
    return Observation(told, frozenset(toolkit.failed))


def _system(system: System, bus: Bus) -> Observation:
    known = system_facts.write(replace(system.facts, nvswitch=has_nvswitch(bus)))
    return Observation(known, frozenset({*system.failed, system_facts.NVSWITCH}) - known.keys())
