"""Merges the two reports about a card in the agent's NodeFeature: discover's, and the validator's (NVML). Pure.

Discover looks at the bus, and as the chart runs it cannot ask NVML; the node's validator, in a container that has the
cards, can, and writes what it was told into `gpu.nvml`. What discover tells itself counts first, group by group: of
values that belong together, such as MIG's mode and instances, none is taken from another moment than the rest.

What the validator was told counts while it is about the same: this boot and this driver, by the words of both; the
same loading of it and the same card (address; uuid), where both know them. What a boot or a loading ago was
so may be so no more: instances of MIG are gone with it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from controllers.api.names import CARDS_MAX
from controllers.api.validation import BOOT_ID, LOAD, VERSION
from controllers.domain.pci import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.nodefeature import NodeFeature

GROUPS: Final = (
    ("uuid",),
    ("product",),
    ("memory_mib",),
    # Who told the capability was asked for links, too: that none are told means that there are none.
    ("compute_major", "compute_minor", "nvlink_peers", "nvlink_links"),
    ("mig_capable", "mig_mode", "mig_profiles", "mig_instances", BOOT_ID, LOAD),
)
"""Attributes that are taken together from one of the two."""

Attributes = dict[str, str]


def validator_attributes(report: NodeFeature) -> dict[str, Attributes]:
    """What NVML told of each card, by address, as far as it was told of the driver that runs now."""
    features = report.spec.features
    driver, agent, told = features.attributes.driver, features.attributes.agent, features.instances.nvml
    if driver is None or told is None:
        return {}
    now = (agent.elements.get(BOOT_ID, "") if agent is not None else "", driver.elements.get("version", ""))
    found = [
        (address, each.attributes)
        for each in told.elements[:CARDS_MAX]
        if (address := canonical(each.attributes.get("address", ""))) is not None
        and (each.attributes.get(BOOT_ID, ""), each.attributes.get(VERSION, "")) == now
        and not _differs(each.attributes.get(LOAD, ""), driver.elements.get(LOAD, ""))
    ]
    times = Counter(address for address, _ in found)
    return {address: attributes for address, attributes in found if times[address] == 1}


def loading_attributes(report: NodeFeature) -> Attributes:
    """The boot and the loading of the driver under which discover's report was made, as far as it tells them."""
    agent, driver = report.spec.features.attributes.agent, report.spec.features.attributes.driver
    boot = agent.elements.get(BOOT_ID, "") if agent is not None else ""
    return {BOOT_ID: boot, LOAD: driver.elements.get(LOAD, "") if driver is not None else ""}


def merge_attributes(card: Mapping[str, str], told: Mapping[str, str] | None) -> Attributes:
    """A card's attributes, with what the validator was told where discover is silent."""
    if told is None or _differs(card.get("uuid", ""), told.get("uuid", "")):
        return dict(card)
    made = dict(card)
    for group in GROUPS:
        if not any(card.get(name, "").strip() for name in group):
            made |= {name: told[name] for name in group if name in told}
    return made


def _differs(one: str, other: str) -> bool:
    return bool(one.strip() and other.strip()) and one.strip() != other.strip()
