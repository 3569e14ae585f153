"""A layout in the format of `nvidia-mig-parted`, version v1. Pure.

The format (NVIDIA/mig-parted, api/spec/v1) knows cards by index and by PCI ids only. An index is a place among the
node's NVIDIA cards that the driver serves: mig-parted lists them by PCI address, and then asks NVML for that index.
NVML promises its order for one boot only. So each entry carries the ids of its model as a filter too: a shifted index
then meets no card of another model; and whoever applies a document makes it with the indexes that hold at that
moment, found by address.

What mig-parted does, and whoever runs it must know: where the MIG mode of one selected card is to change, the
instances of every selected card are destroyed, and without `--skip-reset` every GPU of the node is reset. So only
cards that change may be in a document that is applied, and a reset is done beside it, by address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from controllers.domain.mig.layout import NodeLayout, PlannedCard
    from controllers.domain.mig.records import CardLayout

FORMAT = "v1"
NAME = "node"
"""The only configuration in a document."""


def document(
    layout: NodeLayout, *, only: Collection[str] | None = None, indexes: Mapping[str, int] | None = None
) -> dict[str, Any] | None:
    """The layout as a document; None where it would name no card, which the format does not allow.

    `only`: the addresses to name; all, when left out. `indexes`: the index of each card by address as it is now,
    instead of the layout's own. A card without an index is left out.
    """
    entries: dict[tuple[object, ...], dict[str, Any]] = {}
    for card in layout.cards:
        index = card.index if indexes is None else indexes.get(card.address)
        if card.layout is None or index is None or (only is not None and card.address not in only):
            continue
        key = (card.vendor, card.device, card.layout.enabled, *sorted(card.layout.instances.items()))
        entries.setdefault(key, _entry(card, card.layout))["devices"].append(index)
    for entry in entries.values():
        entry["devices"].sort()
    ordered = sorted(entries.values(), key=lambda entry: entry["devices"])
    return {"version": FORMAT, "mig-configs": {NAME: ordered}} if ordered else None


def _entry(card: PlannedCard, layout: CardLayout) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "device-filter": ["0x" + f"{card.device}{card.vendor}".upper()],
        "devices": [],
        "mig-enabled": layout.enabled,
    }
    if layout.enabled:
        entry["mig-devices"] = dict(sorted(layout.instances.items()))
    return entry


def text(found: dict[str, Any]) -> str:
    """A document as YAML; equal documents make equal texts."""
    return yaml.safe_dump(found, sort_keys=False, default_flow_style=None, width=120)
