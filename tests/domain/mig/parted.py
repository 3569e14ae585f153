"""What `nvidia-mig-parted apply` does to the cards of a node, as its source says (NVIDIA/mig-parted, v0.12–v0.14).

It refuses what its parser refuses, finds cards by index among those that NVML serves, in the order of their
addresses, and by the ids of `device-filter`; where one selected card's mode is to change, every selected card loses
its instances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from controllers.domain import pci
from controllers.domain.catalogue import geometry, model
from controllers.domain.mig import DISABLED, CardLayout, MigCard
from tests.tools.placement import fits

KEYS = {"device-filter", "devices", "mig-enabled", "mig-devices"}


def parse(text: str) -> list[dict[str, Any]]:
    """The entries of the document's one configuration."""
    spec = yaml.safe_load(text)
    assert set(spec) == {"version", "mig-configs"}
    assert spec["version"] == "v1"
    (entries,) = spec["mig-configs"].values()
    assert entries
    for entry in entries:
        assert {"devices", "mig-enabled"} <= set(entry) <= KEYS
        assert all(isinstance(index, int) for index in entry["devices"])
        assert all(isinstance(name, str) and 0 < int(name, 0) < 2**31 for name in entry["device-filter"])
        assert entry["mig-enabled"] is ("mig-devices" in entry)
        assert all(
            isinstance(k, str) and isinstance(v, int) and v >= 0 for k, v in entry.get("mig-devices", {}).items()
        )
    return list(entries)


def selected(entry: dict[str, Any], cards: list[MigCard]) -> list[MigCard]:
    """The cards that an entry means."""
    served = sorted((c for c in cards if c.nvidia and c.served), key=lambda c: pci.place(c.address))
    ids = {int(text, 0) for text in entry["device-filter"]}
    return [c for i, c in enumerate(served) if i in entry["devices"] and int(c.device + c.vendor, 16) in ids]


def holds(card: MigCard, wanted: CardLayout) -> bool:
    """Whether the card can hold these instances at once."""
    found = model(card.vendor, card.device)
    cut = geometry(found.geometry or "") if found else None
    return cut is not None and fits(cut, [name for name, count in wanted.instances.items() for _ in range(count)])


def apply(text: str, cards: list[MigCard]) -> list[MigCard]:
    """The cards as they are afterwards."""
    meant = [(entry, card) for entry in parse(text) for card in selected(entry, cards)]
    state = {card.address: card.actual or DISABLED for card in cards}
    if any(state[card.address].enabled != entry["mig-enabled"] for entry, card in meant):
        for entry, card in meant:
            state[card.address] = CardLayout(entry["mig-enabled"])
    for entry, card in meant:
        wanted = CardLayout(entry["mig-enabled"], entry.get("mig-devices", {}))
        assert not wanted.enabled or holds(card, wanted), f"{wanted} does not fit on {card}"
        state[card.address] = wanted
    touched = {card.address for _, card in meant}
    return [replace(card, actual=state[card.address]) if card.address in touched else card for card in cards]
