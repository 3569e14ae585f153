"""A node's records, GPUDevices and GPUNodeInventory, against what its agent reports. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.inventory.coverage.comparison.result import Issue
from controllers.inventory.identity import address_of, device_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.inventory.reports.discovered_cards import DiscoveredCard, DiscoveredCards

CONTROLLER = f"look at the log of {names.INVENTORY}"


def recorded(
    node: str, reading: DiscoveredCards | None, devices: Sequence[GPUDevice], *, fresh: bool
) -> tuple[int, list[Issue]]:
    """How many cards are on record as they should be, and what is said of the others."""
    cards = {device_name(node, card.address): card for card in (reading.cards if reading else ())}
    known = {device.name: device for device in devices}
    found = [_missing(name, cards[name]) for name in sorted(cards.keys() - known.keys())]
    for name, device in sorted(known.items()):
        card = cards.get(name)
        if card is None and reading is not None:
            found.append(_unexpected(node, device, fresh=fresh))
        elif (incomplete := kinds.find(device.status.conditions, kinds.INVENTORY_INCOMPLETE)) is None:
            found.append(_unjudged(device))
        elif incomplete.status != "False" and card is not None:
            found.append(_incomplete(device, card, incomplete.message or incomplete.reason))
        elif card is not None and (change := _changed(device, card)):
            found.append(_outdated(device, *change))
    good = len(cards.keys() & known.keys()) - sum(finding.about in cards for finding in found if finding.about in known)
    return good, found


def inventory(node: str, found: GPUNodeInventory | None, devices: Sequence[GPUDevice], *, wanted: bool) -> list[Issue]:
    """Whether the node's own record names its cards."""
    about = f"GPUNodeInventory {node}"
    if found is None:
        if not (wanted or devices):
            return []
        expected, todo = "the record of a node with cards", CONTROLLER
        return [Issue(reason="InventoryMissing", about=about, found="no such object", expected=expected, todo=todo)]
    listed = {card.name for card in (found.status.hw.devices if found.status.hw else ())}
    known = {device.name for device in devices}
    if listed == known:
        return []
    return [
        Issue(
            reason="InventoryDifferent",
            about=about,
            found=f"{len(listed)} cards in status.hw.devices, {len(listed - known)} of them without a GPUDevice",
            expected=f"the node's {len(known)} GPUDevices",
            todo=f"wait a moment and look again; {CONTROLLER} if it stays",
        )
    ]


def gone(node: str, devices: Sequence[GPUDevice], found: GPUNodeInventory | None) -> list[Issue]:
    """What is still on record of a node that is not there."""
    what = [f"{len(devices)} GPUDevices"] if devices else []
    what += ["a GPUNodeInventory"] if found is not None else []
    if not what:
        return []
    expected, todo = "nothing on record of it", f"they go within seconds of the node; {CONTROLLER} if they stay"
    held = " and ".join(what)
    return [Issue(reason="NodeGone", about=f"Node {node}", found=f"no such node, {held}", expected=expected, todo=todo)]


def _missing(name: str, card: DiscoveredCard) -> Issue:
    return Issue(
        reason="CardMissing",
        about=name,
        found="no such GPUDevice",
        expected=f"one for card {card.address}, which the agent reports",
        todo=f"wait a moment and look again; {CONTROLLER} if it stays away",
    )


def _unexpected(node: str, device: GPUDevice, *, fresh: bool) -> Issue:
    told = kinds.find(device.status.conditions, kinds.INVENTORY_INCOMPLETE)
    ours = device_name(node, address_of(device.name) or "") == device.name
    if not ours:
        todo = f"no process of the module made it: kubectl delete gpudevice {device.name}"
    elif told is not None and told.status == "True":
        todo = told.message or told.reason
    elif not fresh:
        todo = "a card is removed when a report of this boot does not name it: see why there is none"
    else:
        todo = f"wait a moment and look again; {CONTROLLER} if it stays"
    return Issue(
        reason="CardUnexpected",
        about=device.name,
        found="a GPUDevice",
        expected="none: the agent's report does not name this card",
        todo=todo,
    )


def _unjudged(device: GPUDevice) -> Issue:
    return Issue(
        reason="CardIncomplete",
        about=device.name,
        found=f"no condition {kinds.INVENTORY_INCOMPLETE}",
        expected=f"{kinds.INVENTORY_INCOMPLETE}=False",
        todo=f"wait a moment and look again; {CONTROLLER} if it stays so",
    )


def _incomplete(device: GPUDevice, card: DiscoveredCard, message: str) -> Issue:
    return Issue(
        reason="CardIncomplete",
        about=device.name,
        found=card.problem or message,
        expected=f"{kinds.INVENTORY_INCOMPLETE}=False",
        todo=message if message != card.problem else CONTROLLER,
    )


def _changed(device: GPUDevice, card: DiscoveredCard) -> tuple[str, str] | None:
    """What identifies the card on record and in the report, where they differ."""
    old, now = device.status.hardware, card.hardware
    if old is None or now is None:
        return None
    if (old.pci.vendor, old.pci.device) != (now.pci.vendor, now.pci.device):
        return f"{old.pci.vendor}:{old.pci.device}", f"{now.pci.vendor}:{now.pci.device}"
    return (old.uuid, now.uuid) if old.uuid and now.uuid and old.uuid != now.uuid else None


def _outdated(device: GPUDevice, old: str, now: str) -> Issue:
    return Issue(
        reason="CardOutdated",
        about=device.name,
        found=f"{old} on record",
        expected=f"{now}, which the agent reports in that slot",
        todo=f"wait a moment and look again; {CONTROLLER} if it stays",
    )
