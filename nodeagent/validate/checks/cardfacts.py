"""Instance feature `gpu.nvml`: NVML's answers about each card, from a container that has them all. Pure.

Discover, as the chart runs it, cannot ask NVML; whoever joins the two reports has to know under which boot, which
driver and which loading of it this was told, so each card carries them, beside its address. What NVML does not tell
once is bridged as in discover's own report, and not over another of these or another card in the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names, validation
from controllers.domain.pci import canonical, place
from nodeagent.host.facts import attributes
from nodeagent.host.facts.bridge import KnownValues, Observation, bridge_gaps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.nodefeature import Instances
    from nodeagent.host.facts.records import Driver, DriverCard
    from nodeagent.validate.checks.facts import Facts

Cards = dict[str, KnownValues]
"""What is believed of each card, by address."""
ADDRESS = "address"
_IDENTITY = (validation.BOOT_ID, validation.VERSION, validation.LOAD, "uuid")


def start(published: Instances | None) -> Cards:
    """What the last validator here believed, from its own report."""
    elements = published.elements if published is not None else ()
    found = ((canonical(each.attributes.get(ADDRESS, "")), each.attributes) for each in elements)
    return {address: KnownValues(values) for address, values in found if address is not None}


def step(before: Cards, facts: Facts) -> Cards:
    """What is believed after one more look; nothing while the driver is not loaded."""
    if facts.module is None:
        return {}
    listed = _listed(facts.driver, facts.version)
    # One that is not listed is bridged while the driver is to serve it; without a sight of the bus nobody knows.
    there = {address for address in before if facts.bus is None or address in facts.held} | listed.keys()
    made: Cards = {}
    for address in sorted(there, key=place)[: names.CARDS_MAX]:
        kept = bridge_gaps(
            before.get(address),
            _observe_card(facts, address, listed.get(address)),
            _IDENTITY,
            0 if facts.pending else 1,
        )
        if attributes.ALL & kept.values.keys():
            made[address] = kept
    return made


def elements(cards: Cards) -> list[dict[str, str]]:
    """The attributes of the feature's elements."""
    return [dict(cards[address].values) for address in sorted(cards, key=place)]


def same(have: Instances | None, want: Sequence[Mapping[str, str]]) -> bool:
    """Whether a report says this; no feature is as good as an empty one."""
    return [each.attributes for each in have.elements] == list(want) if have is not None else not want


def _listed(driver: Driver | None, version: str) -> Mapping[str, DriverCard]:
    """The cards of which NVML speaks, where it is of the module that is loaded."""
    if driver is None or (driver.version and version and driver.version != version):
        return {}
    return driver.cards


def _observe_card(facts: Facts, address: str, card: DriverCard | None) -> Observation:
    load = facts.module.load if facts.module is not None else ""
    read = {ADDRESS: address, validation.BOOT_ID: facts.boot_id, validation.VERSION: facts.version}
    read[validation.LOAD] = load
    values = {key: value for key, value in read.items() if value}
    if card is None:
        return Observation(values, attributes.ALL)
    return Observation(values | attributes.of(card), attributes.unknown_fields(card.failed))
