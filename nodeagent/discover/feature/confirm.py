"""Confirms several scans before the NodeFeature changes: lost cards are confirmed, gaps are bridged. Pure.

* A card appears in the report at once. One that a scan does not find stays in it as it was,
  until three scans in a row have missed it. A scan that failed does not count; neither does one
  that found something at the card's place which it could not read.
* A value that is there and could not be told this time (the driver answers with an error, or
  not at all; a file cannot be read) keeps its last value for two scans; from the third on only
  what is told counts. So a card that NVML calls lost while sysfs has it stays, first as it was,
  then with what sysfs, and procfs, tell.
* Nothing is bridged over a change of what the value belongs to: another card in the slot (ids,
  uuid), a card that a scan missed meanwhile, another version of the driver, another boot. A
  driver that is not loaded is told at once, and takes its values with it.
* A report of this boot names only cards that a scan of this boot has seen. Cards of an earlier boot's
  report that are not found yet are `awaited`, for three scans and no longer, also where something at
  their place cannot be read; while one is, nothing is written, and the earlier boot's report stays.
  That says the truth at any moment (whoever compares boot ids finds it not fresh), needs no second
  kind of report, and gives a card that is slow to appear the same three scans, some 30 s.
* A restarted agent begins with what it last published, so that neither three scans are cut
  short nor a value is dropped and written again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from controllers.domain.pci import canonical
from nodeagent.host.facts.bridge import LOOKS, KnownValues, bridge_gaps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.nodefeature import Features
    from nodeagent.discover.feature.report import NodeScan
    from nodeagent.host.facts.bridge import Observation

SCANS = LOOKS
_CARD_IDENTITY = ("vendor", "device", "subsystem_vendor", "subsystem_device", "uuid")
_DRIVER_IDENTITY = ("version",)


@dataclass(frozen=True, slots=True)
class Known:
    """What is believed of one thing."""

    values: Mapping[str, str]
    missed: int = 0
    """Scans in a row that did not find it."""
    missed_looks: Mapping[str, int] = field(default_factory=dict)
    """Scans in a row that did not tell a value which is kept, by attribute."""
    earlier_boot: bool = False
    """Whether only a report of an earlier boot tells of it: nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class State:
    """What is believed of a node."""

    cards: Mapping[str, Known] = field(default_factory=dict)
    driver: Known | None = None
    toolkit: Known | None = None
    system: Known | None = None


def start(published: Features | None, boot_id: str) -> State:
    """What the last agent here believed, from its own report."""
    if published is None:
        return State()
    attributes, instances = published.attributes, published.instances.cards
    same_boot = bool(boot_id) and attributes.agent is not None and attributes.agent.elements.get("boot_id") == boot_id
    cards = {
        address: Known(element.attributes, earlier_boot=not same_boot)
        for element in (instances.elements if instances is not None else ())
        if (address := canonical(element.attributes.get("address", ""))) is not None
    }
    return State(
        cards,
        driver=Known(attributes.driver.elements) if attributes.driver is not None and same_boot else None,
        toolkit=Known(attributes.toolkit.elements) if attributes.toolkit is not None and same_boot else None,
        system=Known(attributes.system.elements) if attributes.system is not None and same_boot else None,
    )


def step(state: State, seen: NodeScan) -> State:
    """What is believed after one more scan that succeeded."""
    counts = 0 if seen.pending else 1
    cards = {
        address: _bridged(state.cards.get(address), told, _CARD_IDENTITY, counts)
        for address, told in seen.cards.items()
    }
    for address, known in state.cards.items():
        if address in seen.unclear and not known.earlier_boot:
            cards[address] = known
        elif address not in cards and known.missed + 1 < SCANS:
            cards[address] = replace(known, missed=known.missed + 1)
    return State(
        cards,
        driver=_bridged(state.driver, seen.driver, _DRIVER_IDENTITY, counts) if seen.driver is not None else None,
        toolkit=_bridged(state.toolkit, seen.toolkit, (), 1),
        system=_bridged(state.system, seen.system, (), 1),
    )


def missed(state: State) -> tuple[str, ...]:
    """Addresses of cards that the last scan did not find."""
    return tuple(sorted(address for address, known in state.cards.items() if known.missed))


def awaited(state: State) -> tuple[str, ...]:
    """Addresses of cards of an earlier boot that no scan of this one has seen, nor missed often enough."""
    return tuple(sorted(address for address, known in state.cards.items() if known.earlier_boot))


def _bridged(known: Known | None, told: Observation, identity: tuple[str, ...], counts: int) -> Known:
    if known is None or known.earlier_boot or known.missed:
        return Known(told.values)
    kept = bridge_gaps(KnownValues(known.values, known.missed_looks), told, identity, counts)
    return Known(kept.values, missed_looks=kept.missed_looks)
