"""Merges the driver's answers by procfs and by NVML into one record. Pure.

procfs says surely whether the driver is loaded, and in which version; NVML knows the rest where
it can be asked. A card that NVML does not list, because it is lost or may not be opened, keeps
what procfs says of it.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from nodeagent.host.facts.records import DriverCard

if TYPE_CHECKING:
    from nodeagent.host.facts.records import Driver

_FIELDS = tuple(field.name for field in fields(DriverCard) if field.name not in ("address", "failed"))


def combine(by_procfs: Driver | None, by_nvml: Driver | None) -> Driver | None:
    """The driver; None where it is not loaded, whatever NVML said earlier."""
    if by_procfs is None or by_nvml is None:
        return by_procfs
    if by_nvml.version and by_procfs.version and by_nvml.version != by_procfs.version:
        return by_procfs  # another module has been loaded since NVML spoke
    silent = {
        address: _unresponsive_card(card) for address, card in by_procfs.cards.items() if address not in by_nvml.cards
    }
    version = by_procfs.version or by_nvml.version
    return replace(
        by_nvml, version=version, cards={**silent, **by_nvml.cards}, root=by_procfs.root, load=by_procfs.load
    )


def _unresponsive_card(card: DriverCard) -> DriverCard:
    return replace(card, failed=tuple(name for name in _FIELDS if not getattr(card, name)))
