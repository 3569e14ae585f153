"""mig-parted's layouts: how many instances of which profile, on cards of which devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> dict[str, Any]:
    """Each layout's entries; one without devices is for every card, one without instances leaves MIG as it is."""
    configs = yaml.safe_load(path.read_text())["mig-configs"]
    return {"layouts": {name: [_entry(one) for one in entries] for name, entries in configs.items()}}


def _entry(one: dict[str, Any]) -> dict[str, Any]:
    filters = one.get("device-filter", [])
    ids = [filters] if isinstance(filters, str) else filters
    found = {"devices": [_device(text) for text in ids], "instances": one.get("mig-devices")}
    return {key: value for key, value in found.items() if value}


def _device(text: str) -> str:
    """`0x233010DE`."""
    assert text.upper().endswith("10DE"), text
    return text[2:6].lower()
