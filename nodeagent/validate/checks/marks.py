"""Which cards CUDA is to be tried on, and the marks under which one that passed is not tried again. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodeagent.host.facts.records import Driver, DriverCard


@dataclass(frozen=True, slots=True)
class Wanted:
    """One card to be tried."""

    target: str
    """The uuid that CUDA is to show: the card's, or of one of its MIG devices."""
    mark: str
    """Names boot, driver, its loading, card and state; a card that passed under it is not tried again."""


def target(card: DriverCard) -> str:
    """What of a card a process of CUDA can be shown; empty where that is nothing: no MIG device, or nobody knows."""
    if {"mig_enabled", "mig_instances"} & {*card.failed}:
        return ""
    if not card.mig_enabled:
        return card.uuid
    return next((device.uuid for device in card.mig_devices if device.uuid), "")


def wanted(
    cards: Mapping[str, DriverCard], addresses: Iterable[str], boot_id: str, module: Driver
) -> dict[str, Wanted]:
    """The cards to be tried, by address; `module`: the one that is loaded."""
    found: dict[str, Wanted] = {}
    for address in addresses:
        card = cards.get(address)
        if card is not None and (shown := target(card)):
            words = [boot_id, module.version, address, card.uuid, shown, card.fabric, card.fabric_error, module.load]
            found[address] = Wanted(shown, hashlib.sha256("\n".join(words).encode()).hexdigest()[:12])
    return found
