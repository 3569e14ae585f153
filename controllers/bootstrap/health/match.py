"""Matches DCGM samples to GPUDevices: by uuid, else by PCI address. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.bootstrap.health.dcgm_parser import CardSample
    from controllers.bootstrap.records import Card


def match(devices: Iterable[Card], samples: Iterable[CardSample]) -> dict[str, CardSample]:
    """Samples of a node by the names of its cards' objects: by uuid, else by PCI address.

    Another uuid at a card's address is another card, of which nothing is known yet.
    """
    samples = tuple(samples)
    by_uuid = {one.uuid.lower(): one for one in samples if one.uuid}
    by_address = {one.address: one for one in samples if one.address}
    found = {}
    for device in devices:
        hardware = device.status.hardware
        if hardware is None:
            continue
        uuid = hardware.uuid.lower() if hardware.uuid else None
        sample = by_uuid.get(uuid or "") or by_address.get(hardware.pci.address)
        if sample is not None and not (uuid and sample.uuid and sample.uuid.lower() != uuid):
            found[device.name] = sample
    return found
