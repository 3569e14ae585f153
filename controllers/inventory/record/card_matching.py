"""One card of a node: the reported hardware matched with the GPUDevice on record; keep, update or delete. Pure.

A recorded card keeps what the report no longer tells: after a reboot the agent reports before
the driver is loaded, and a card whose uuid was forgotten then could be exchanged unnoticed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api.conditions import Finding
from controllers.domain.position import is_lost
from controllers.inventory.record import conditions
from controllers.inventory.record.desired import DesiredCard, Removal
from controllers.inventory.record.remembered import is_recognised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice, Hardware
    from controllers.inventory.record.remembered import Retention
    from controllers.inventory.reports.discovered_cards import DiscoveredCard, DiscoveredCards
    from controllers.inventory.views import ObservedNode

RETENTION_EXPIRED = "its Node was deleted, and nobody recognised the card for as long as it is remembered"
REMEMBERED = ("uuid", "product", "memory_mib", "numa_node", "compute_capability", "precision", "mig", "nvlink")
"""Fields of the hardware that keep their last value while the report lacks them."""


def reported_card(
    seen: ObservedNode, memory: Retention, card: DiscoveredCard, device: GPUDevice | None
) -> DesiredCard | Removal:
    """A card that the report names, with its record if there is one."""
    if device is None:
        return DesiredCard(card.address, card.hardware, conditions.card(seen.name, card), None)
    if other := _replaced_by(device, card.hardware):
        return Removal(device, other)
    hardware = _with_last_known(device.status.hardware, card.hardware)
    if device.is_remembered and (memory.seconds_left(device) <= 0 or not is_recognised(seen, device, card)):
        return _kept_or_forgotten(memory, device, hardware)
    known = replace(card, hardware=hardware).without_filled_gaps() if _is_same_card(device, card) else card
    return DesiredCard(card.address, hardware, conditions.card(seen.name, known), device)


def unreported_card(
    seen: ObservedNode,
    reading: DiscoveredCards | None,
    address: str,
    device: GPUDevice,
    places: Mapping[str, str],
    *,
    confirmed: bool,
) -> DesiredCard | Removal:
    """A card on record that the report does not name."""
    status = device.status
    if reading is None:
        # Nobody speaks: what was last known of the card holds.
        old = kinds.find(status.conditions, kinds.INVENTORY_INCOMPLETE)
        held = kinds.carried(old) if old and old.status != "Unknown" else None
        unknown = Finding(None, "NoReport", f"{conditions.source(seen.name)} says nothing of the node's cards")
        return DesiredCard(address, status.hardware, held or unknown, device, is_lost=is_lost(status))
    place = places.get(status.hardware.uuid or "", "") if status.hardware else ""
    if confirmed and not (status.pool_ref or status.reservations or status.allocations):
        moved = f"; it is {place} now" if place else ""
        return Removal(device, f"a fresh report of node {seen.name} does not name it{moved}")
    lost = conditions.lost(seen.name, address, confirmed=confirmed, place=place)
    return DesiredCard(address, status.hardware, lost, device, is_unreported=True, is_lost=confirmed)


def missing_card(seen: ObservedNode, memory: Retention, device: GPUDevice, *, confirmed: bool) -> DesiredCard | Removal:
    """A card whose Node was deleted and is back, and that the report does not name."""
    if confirmed:
        return Removal(device, f"its Node was deleted, and a fresh report of node {seen.name} does not name it")
    return (
        _awaiting_recognition(memory, device, device.status.hardware)
        if memory.keeps(device)
        else Removal(device, RETENTION_EXPIRED)
    )


def _kept_or_forgotten(memory: Retention, device: GPUDevice, hardware: Hardware | None) -> DesiredCard | Removal:
    if memory.keeps(device):
        return _awaiting_recognition(memory, device, hardware)
    return Removal(device, RETENTION_EXPIRED)


def _awaiting_recognition(memory: Retention, device: GPUDevice, hardware: Hardware | None) -> DesiredCard:
    """A card whose Node was deleted and is back, and that is not known to be the same yet."""
    address = hardware.pci.address if hardware else ""
    finding = conditions.unrecognised(device, memory.until(device))
    return DesiredCard(address, hardware, finding, device, memory.since(device))


def _is_same_card(device: GPUDevice | None, card: DiscoveredCard) -> bool:
    """Whether the report says that the card is the one on record: then what is on record is known of it."""
    old = device.status.hardware if device else None
    now = card.hardware
    return old is not None and now is not None and now.uuid is not None and now.uuid == old.uuid


def _replaced_by(device: GPUDevice, now: Hardware | None) -> str:
    """How the card in that slot differs from the one on record; empty where it is the same."""
    old = device.status.hardware
    if old is None or now is None:
        return ""
    if (old.pci.vendor, old.pci.device) != (now.pci.vendor, now.pci.device):
        return f"PCI {now.pci.vendor}:{now.pci.device} is in its slot instead of {old.pci.vendor}:{old.pci.device}"
    if old.uuid and now.uuid and old.uuid != now.uuid:
        return f"{now.uuid} is in its slot instead of {old.uuid}"
    return ""


def _with_last_known(old: Hardware | None, now: Hardware | None) -> Hardware | None:
    """The hardware as reported, and for what the report does not tell, as last known of the card.

    What was said of a card whose uuid nobody knew may be about another one: it is dropped once a uuid is known.
    """
    if old is None or now is None:
        return now or old
    if now.uuid is not None and old.uuid is None:
        return now
    # A driver that told of MIG has been asked for links too: none means that there are none. The compute capability
    # says nothing here: a label of GFD may tell it.
    keys = [key for key in REMEMBERED if key != "nvlink" or now.mig is None]
    kept = {key: value for key in keys if getattr(now, key) is None and (value := getattr(old, key)) is not None}
    return replace(now, **kept) if kept else now
