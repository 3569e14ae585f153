"""Which cards a person means, and what assigning or unassigning them changes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.wording import listed
from kubectl_gpu.say.faults import Mistake
from kubectl_gpu.say.words import meant

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from controllers.api.gpudevice import GPUDevice

_INVENTORY_ID = re.compile(r"(?P<node>.+)-(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one card's assignment."""

    device: GPUDevice
    before: str | None
    after: str | None

    @property
    def is_one(self) -> bool:
        """Whether anything changes."""
        return self.before != self.after


def object_name(given: str) -> str:
    """The object's name for what a person typed: that name itself, or an inventoryID.

    A node's name that is too long is shortened in the object's name; such a card is found in the list.
    """
    found = _INVENTORY_ID.fullmatch(given)
    return f"{found['node']}-{re.sub('[:.]', '-', found['address'])}" if found else given


def find(given: str, devices: Collection[GPUDevice]) -> GPUDevice:
    """The card of that name or inventoryID; raises Mistake."""
    for device in devices:
        if given in (device.name, device.status.inventory_id):
            return device
    known = [d.status.inventory_id or d.name for d in devices] if ":" in given else [d.name for d in devices]
    raise Mistake(f"There is no card {given!r}.{meant(given, known)} kubectl gpu cards lists them.")


def assigned_to(device: GPUDevice) -> str | None:
    """The pool that the card's annotation names."""
    return device.metadata.annotations.get(names.ASSIGNMENT) or None


def changes(
    named: Sequence[GPUDevice], of_node: Sequence[GPUDevice], pool: str | None
) -> tuple[list[Change], list[str]]:
    """What is to be done, and sentences about what is left alone.

    A card that is named goes to the pool; of a node, those that are in no pool, or for an
    unassignment all that are in one: nobody loses a card that was not named.
    """
    chosen = {device.name: device for device in named}
    left: list[GPUDevice] = []
    for device in of_node:
        if device.name in chosen:
            continue
        if pool is not None and assigned_to(device) not in (None, pool):
            left.append(device)
        else:
            chosen[device.name] = device
    notes = []
    if left:
        shown = listed(f"{device.name} ({assigned_to(device)})" for device in left)
        notes.append(f"Left alone, since another pool has them: {shown}. Name a card to move it.")
    made = [Change(device, assigned_to(device), pool) for _, device in sorted(chosen.items())]
    return made, notes


def spelled(change: Change) -> str:
    """The change in one line."""
    status, hardware = change.device.status, change.device.status.hardware
    about = ", ".join(part for part in (status.node_name, hardware.product if hardware else None) if part)
    now, then = change.before or "no pool", change.after or "no pool"
    what = f"stays in {now}" if not change.is_one and change.after else f"{now} → {then}"
    if not change.is_one and change.after is None:
        what = "is in no pool"
    return f"{change.device.name} ({about}): {what}{_meanwhile(change)}"


def _meanwhile(change: Change) -> str:
    """Who keeps the card after its annotation is gone."""
    if not change.is_one or change.before is None:
        return ""
    pods = sorted({f"{taken.namespace}/{taken.pod}" for taken in change.device.status.allocations})
    return f"; it serves {listed(pods)}, and leaves {change.before} when that has ended" if pods else ""


def has_arrived(device: GPUDevice, pool: str | None) -> bool:
    """Whether the card is where its assignment puts it: offered in the pool, or out of every pool."""
    status = device.status
    if pool is None:
        return status.pool_ref is None
    offered = status.published is not None and status.published.pool == pool
    return status.pool_ref is not None and status.pool_ref.name == pool and offered
