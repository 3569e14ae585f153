"""What a person may do to a card with annotations and labels (design §4, §6). Pure.

Refused is an assignment that would not be followed. A removal never is: the fence lets pods end first, so what a person
should know about it is told as a warning. Putting a card back into the pool that it is still in is a removal undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import FAULTED, IGNORED, MAINTENANCE, MISCONFIGURED, find, is_true
from controllers.domain.approval import is_automatic
from controllers.domain.slots import BLOCKING
from controllers.domain.unmatched import why_not
from controllers.domain.wording import listed
from webhook.objects.holders import counted
from webhook.objects.judged import PASSED, Judged, warned
from webhook.validate import short
from webhook.verdict import Denied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.settings import Settings

LOOKED_AT = 200
"""Pools that are asked whether they would mean a card which another does not."""


@dataclass(frozen=True, slots=True)
class CardView:
    """What is known about a card's surroundings at one moment."""

    pools: Mapping[str, GPUPool]
    """All pools by name."""
    labels: Mapping[str, str]
    """Of the card's node."""
    position: int
    """Of the card among its node's, by address."""
    ready: bool | None
    """Whether the node is ReadyForPooling; None where that could not be read."""
    holders: tuple[str, ...]
    """Pods that have the card or are about to get it."""
    neighbours: Mapping[str, int]
    """Cards of the same node that each pool has."""
    settings: Settings


def assigned_to(device: GPUDevice) -> str | None:
    """The pool that the card's annotation names."""
    return device.metadata.annotations.get(names.ASSIGNMENT) or None


def judge(old: GPUDevice, new: GPUDevice, view: CardView) -> Judged:
    """Judge a change of a card's annotations and labels."""
    before, after = assigned_to(old), assigned_to(new)
    if after is not None and after != before:
        return _assigned(new, after, view)
    return warned(
        _removed(old, new, view) if before is not None and after is None else None,
        _returned(new) if _turned_on(old, new, names.RETURN) else None,
        _ignored(new, view) if _turned_on(old, new, names.LABEL_IGNORE) else None,
    )


def _assigned(device: GPUDevice, named: str, view: CardView) -> Judged:
    pool, home = view.pools.get(named), device.status.pool_ref
    if pool is None or pool.metadata.deletion_timestamp is not None:
        return Judged(_unknown(named, pool, view))
    if home is not None and home.name == named:
        return PASSED  # the removal is taken back
    denied = _unselected(device, pool, view) or _busy(device, named, view) or _unready(device, view)
    return Judged(denied) if denied is not None else warned(_full(pool, view), _is_closed(pool))


def _unknown(named: str, pool: GPUPool | None, view: CardView) -> Denied:
    pools = listed(sorted(n for n, p in view.pools.items() if p.metadata.deletion_timestamp is None)) or "none yet"
    found = f"there is no GPUPool {short(named)!r}" if pool is None else f"GPUPool {named} is being deleted"
    return Denied(names.UNKNOWN_POOL, f"{found}. Pools here: {pools}. Name one of them, or create the pool first.")


def _unselected(device: GPUDevice, pool: GPUPool, view: CardView) -> Denied | None:
    if device.status.hardware is None:
        return None  # not ready says it better
    mismatch = why_not(pool, device, view.labels, view.position)
    if mismatch is None:
        return None
    some = list(view.pools.values())[:LOOKED_AT]
    others = sorted(
        other.name
        for other in some
        if other.metadata.deletion_timestamp is None and why_not(other, device, view.labels, view.position) is None
    )
    meant = f"Pools that mean it: {listed(others)}." if others else "No pool means it."
    return Denied(
        names.DEVICE_NOT_IN_SELECTOR,
        f"GPUPool {pool.name} does not mean card {device.name}: {mismatch}."
        f" {meant} Name one that does, or change the selectors of {pool.name}.",
    )


def _busy(device: GPUDevice, named: str, view: CardView) -> Denied | None:
    """A card that pods have goes to another pool in two steps, so that nobody counts on a card that may never come."""
    if not view.holders:
        return None
    home = device.status.pool_ref
    where = f"in GPUPool {home.name}" if home is not None else "in no pool any more"
    step = f"kubectl annotate gpudevice {device.name} {names.ASSIGNMENT}-" if home is not None else "end the pods"
    return Denied(
        names.DEVICE_BUSY,
        f"card {device.name} is {where} and held by, or promised to, {counted(view.holders)}."
        f" Take it out first ({step}), wait until it is Unassigned, then assign it to {named}.",
    )


def _unready(device: GPUDevice, view: CardView) -> Denied | None:
    node = device.status.node_name
    blocked = [c for c in device.status.conditions if c.status == "True" and c.type in BLOCKING and c.type != IGNORED]
    if blocked:
        first = min(blocked, key=lambda c: BLOCKING.index(c.type))
        found = f"its condition {first.type} is True ({first.reason}): {first.message.rstrip('.')}"
        do = f"kubectl describe gpudevice {device.name} says what to do"
    elif _says(device, names.LABEL_IGNORE) == "true":
        # Judged by the mark itself: the condition follows it a moment later, both ways.
        found = f"{names.LABEL_IGNORE}=true keeps it out of every pool"
        do = f"Remove that first: kubectl label gpudevice {device.name} {names.LABEL_IGNORE}-"
    elif device.status.hardware is None:
        found, do = "its hardware is not known yet", "Its node's agent has to report it first"
    elif view.ready is False:
        found = f"its node {node} is not ReadyForPooling"
        do = f"kubectl describe gpunodeinventory {node} says why"
    else:
        return None
    return Denied(
        names.DEVICE_NOT_READY, f"card {device.name} cannot be pooled now: {found}. {do}; then assign it again."
    )


def _full(pool: GPUPool, view: CardView) -> str | None:
    limit, there = pool.spec.allocation.max_devices_per_node, view.neighbours.get(pool.name, 0)
    if limit is None or there < limit:
        return None
    return (
        f"GPUPool {pool.name} has {there} cards of this node and its maxDevicesPerNode is {limit}:"
        " the card waits until one leaves or the limit is raised"
    )


def _is_closed(pool: GPUPool) -> str | None:
    found = find(pool.status.conditions, MISCONFIGURED)
    if found is not None and found.status == "True":
        return (
            f"GPUPool {pool.name} is Misconfigured ({found.reason}): the card is offered to pods once that is mended"
            f" (kubectl describe gpupool {pool.name})"
        )
    if not is_true(pool.status.conditions, MAINTENANCE):
        return None
    return f"GPUPool {pool.name} is in Maintenance: the card is offered to pods when that is over"


def _removed(old: GPUDevice, new: GPUDevice, view: CardView) -> str | None:
    home = old.status.pool_ref
    pool = view.pools.get(home.name if home is not None else assigned_to(old) or "")
    told = []
    if home is not None and view.holders:
        told.append(
            f"card {old.name} stays with {counted(view.holders)} until the end; it is given to no new pod, and leaves"
            f" GPUPool {home.name} then"
        )
    if pool is not None and _says(new, names.LABEL_IGNORE) != "true" and is_automatic(pool, new, view.settings):
        told.append(
            f"GPUPool {pool.name} takes this card by itself, so the annotation comes back; to keep the card out:"
            f" kubectl label gpudevice {old.name} {names.LABEL_IGNORE}=true"
        )
    return ". ".join(told) or None


def _returned(device: GPUDevice) -> str | None:
    if _says(device, names.RETURN) != "true":
        return f"{names.RETURN} is obeyed as =true only"
    if not is_true(device.status.conditions, FAULTED):
        return f"card {device.name} is not Faulted: there is nothing to return"
    return None


def _ignored(device: GPUDevice, view: CardView) -> str | None:
    if _says(device, names.LABEL_IGNORE) != "true":
        return f"{names.LABEL_IGNORE} is obeyed as =true only"
    if not view.holders:
        return None
    return f"card {device.name} stays with {counted(view.holders)} until the end; it is given to no new pod"


def _says(device: GPUDevice, key: str) -> str | None:
    """The value of a mark, which may be a label or an annotation."""
    values = device.metadata.labels.get(key), device.metadata.annotations.get(key)
    return "true" if "true" in values else next((value for value in values if value is not None), None)


def _turned_on(old: GPUDevice, new: GPUDevice, key: str) -> bool:
    return _says(new, key) is not None and _says(new, key) != _says(old, key)
