"""Which cards a person means, and what assigning or unassigning them changes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.assignment import assigned_pool
from controllers.domain.eligibility import blocked
from controllers.domain.wording import listed
from controllers.explain.faults import UsageError
from controllers.explain.words import counted, meant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from controllers.api.gpudevice import GPUDevice

_INVENTORY_ID = re.compile(r"(?P<node>.+)-(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_TAKEN = "another pool has them"
_LEAVING = "they have not left another pool yet"
_BLOCKED = "a condition keeps them out of pools"
_CURES = {
    _TAKEN: "Name a card to move it.",
    _LEAVING: "They leave when their pods have ended.",
    _BLOCKED: "kubectl gpu explain card says what to do.",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one card's assignment."""

    device: GPUDevice
    before: str | None
    after: str | None
    named: bool = True
    """Whether the card itself was named; not where it is one of a node's."""

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
    """The card of that name or inventoryID; raises UsageError."""
    for device in devices:
        if given in (device.name, device.status.inventory_id):
            return device
    known = [d.status.inventory_id or d.name for d in devices] if ":" in given else [d.name for d in devices]
    raise UsageError(f"There is no card {given!r}.{meant(given, known)} kubectl gpu cards lists them.")


def changes(
    named: Sequence[GPUDevice], of_node: Sequence[GPUDevice], pool: str | None
) -> tuple[list[Change], list[str]]:
    """What is to be done, and sentences about what is left alone.

    A card that is named goes to the pool; of a node, those that are in no pool and that nothing
    keeps from one, or for an unassignment all that are in one: nobody loses a card that was not named.
    """
    made = {device.name: Change(device, assigned_pool(device), pool) for device in named}
    left: dict[str, list[str]] = {}
    for device in of_node:
        if device.name in made:
            continue
        if pool is not None and (unfit := _find_ineligibility(device, pool)) is not None:
            why, what = unfit
            left.setdefault(why, []).append(f"{device.name} ({what})")
        else:
            made[device.name] = Change(device, assigned_pool(device), pool, named=False)
    notes = [f"Left alone, since {why}: {listed(cards)}. {_CURES[why]}" for why, cards in left.items()]
    return [change for _, change in sorted(made.items())], notes


def _find_ineligibility(device: GPUDevice, pool: str) -> tuple[str, str] | None:
    """Why a node's card is left alone, and what of it says so."""
    claim, home = assigned_pool(device), device.status.pool_ref
    if claim not in (None, pool):
        return _TAKEN, claim or ""
    if home is not None and home.name != pool:
        return _LEAVING, home.name
    if (found := blocked(device)) is not None:
        return _BLOCKED, f"{found.kind}: {found.cause.reason}" if found.cause is not None else found.message
    return None


def taken_back(made: Iterable[Change]) -> list[str]:
    """Sentences about cards whose pool takes them by itself, so that taking them out does not last."""
    return [
        f"GPUPool {change.before} takes {change.device.name} back by itself:"
        f" kubectl label gpudevice {change.device.name} {names.LABEL_IGNORE}=true keeps it out"
        for change in made
        if change.is_one and change.after is None and change.device.status.auto_attach
    ]


def done(made: Iterable[Change], refused: Collection[str], *, written: bool) -> set[str]:
    """The cards whose assignment is now what was asked for. `written`: whether it came to writing at all."""
    return {c.device.name for c in made if not c.is_one or (written and c.device.name not in refused)}


def what_changed(todo: Sequence[Change], refused: Collection[str], *, written: bool) -> str:
    """The sentences after a refusal: how many, and what became of the others."""
    changed = len(todo) - len(refused) if written else 0
    rest = f"{changed} {'was' if changed == 1 else 'were'} changed." if changed else "Nothing was changed."
    return f"{counted(len(refused), 'card')} of {len(todo)} refused. {rest}"


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
