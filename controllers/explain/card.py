"""Why a card is where it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import CONFIGURED, READY_FOR_POOLING
from controllers.api.conditions import find as condition
from controllers.domain.assignment import assigned_pool
from controllers.domain.issuing import BLOCKING, blocked_by, is_offered, not_issued
from controllers.domain.lifecycle import live
from controllers.domain.request import suffix_for
from controllers.domain.wording import listed
from controllers.explain.cures import cure
from controllers.explain.explanation import Explanation, Finding
from controllers.explain.pending_card import describe_pending
from controllers.explain.records import Unreadable
from controllers.explain.words import card_name, counted, since

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice, PoolRef
    from controllers.api.gpunodeinventory import GPUNodeInventory


@dataclass(frozen=True, slots=True)
class CardSeen:
    """A card and its node's record."""

    device: GPUDevice
    inventory: GPUNodeInventory | Unreadable | None
    now: float


def explained(seen: CardSeen) -> Explanation:
    """Where the card is, whom it serves, and what is in its way."""
    unread = (seen.inventory.reason,) if isinstance(seen.inventory, Unreadable) else ()
    findings = (*find_blockers(seen.device), *_node(seen), *_place(seen), *_serves(seen))
    return Explanation("GPUDevice", seen.device.name, _verdict(seen), findings, unread)


def find_blockers(device: GPUDevice) -> Iterator[Finding]:
    """What keeps the card from being pooled and issued, by its own conditions."""
    for kind in BLOCKING:
        found = condition(device.status.conditions, kind)
        if found is not None and found.status == "True":
            yield Finding(
                "bad",
                f"Condition {kind} of card {device.name} is True ({found.reason}): {found.message}",
                cure("card", found, card=device.name, node=device.status.node_name or ""),
            )


def _verdict(seen: CardSeen) -> str:
    status, home = seen.device.status, seen.device.status.pool_ref
    name, named = card_name(seen.device), assigned_pool(seen.device)
    kept = not_issued(seen.device, home.name) if home is not None else None
    if status.foreign_allocations or blocked_by(seen.device) is not None:
        where = f"is in GPUPool {home.name}" if home else "is in no pool"
        return f"Card {name} {where} and cannot be issued now"
    if home is None:
        return f"Card {name} is in no pool" + (f", though its annotation names {named}" if named else "")
    if kept == "Leaving":
        return f"Card {name} is leaving GPUPool {home.name}"
    if status.allocations:
        what = "serves pods"
    elif kept is not None:
        what = "cannot be issued now"
    else:
        what = "is reserved" if any(live(r, seen.now) for r in status.reservations) else "is free"
    return f"Card {name} is in GPUPool {home.name} and {what}"


def _node(seen: CardSeen) -> Iterator[Finding]:
    if seen.inventory is None:
        node = seen.device.status.node_name
        yield Finding("bad", f"Node {node} of the card has no GPUNodeInventory", f"kubectl get node {node}")
    if seen.inventory is None or isinstance(seen.inventory, Unreadable):
        return
    ready = condition(seen.inventory.status.conditions, READY_FOR_POOLING)
    if ready is None or ready.status != "True":
        why = f"({ready.reason}): {ready.message}" if ready else "and says nothing yet"
        node = seen.inventory.name
        yield Finding("bad", f"Node {node} is not ReadyForPooling {why}", f"kubectl gpu explain node {node}")


def _place(seen: CardSeen) -> Iterator[Finding]:
    """What its annotation, its pool and its plugin say."""
    device, status = seen.device, seen.device.status
    home, named = status.pool_ref, assigned_pool(device)
    configured = condition(status.conditions, CONFIGURED)
    if configured is not None and configured.status != "True":
        text = configured.message or f"Configured is {configured.status} ({configured.reason})"
        yield Finding("warning", text, cure("card", configured, card=device.name, pool=named or ""))
    elif home is not None:
        yield _offered(device, home)
    if home is not None and named != home.name:
        to = f"its annotation now names {named}" if named else "its annotation was removed"
        yield Finding("note", f"It leaves GPUPool {home.name} when nobody uses it any more: {to}")
    if home is None and named is None:
        yield from _pending(seen)


def _offered(device: GPUDevice, home: PoolRef) -> Finding:
    """Whether the node's device plugin offers the card for the pool that it is in."""
    published = device.status.published
    if published is None:
        return Finding("note", "The node's device plugin does not offer the card now")
    if not is_offered(device, home.name):
        other = published.pool != home.name
        what = f"offers the card for GPUPool {published.pool} still" if other else "has yet to withdraw the card"
        return Finding("note", f"The node's device plugin {what}")
    by_profile = (
        f"{names.resource_name(suffix_for(home.name, each.profile))} ({each.slots})"
        for each in published.profiles or ()
    )
    resources = listed(by_profile) or home.resource
    slots = counted(published.slots, "slot")
    return Finding("good", f"The node's device plugin offers it as {resources}, {slots}")


def _pending(seen: CardSeen) -> Iterator[Finding]:
    """What the pool controller says of a card that is in no pool."""
    pools = None if seen.inventory is None or isinstance(seen.inventory, Unreadable) else seen.inventory.status.pools
    entries = [e for e in (pools.pending if pools else ()) if e.inventory_id == seen.device.status.inventory_id]
    for entry in entries:
        node = seen.device.status.node_name or ""
        meaning, do = describe_pending(entry.reason, card=seen.device.name, node=node, pool=entry.pool or "")
        of = f" (GPUPool {entry.pool})" if entry.pool else ""
        yield Finding("note", f"{entry.reason}{of}: {meaning}", do)


def _serves(seen: CardSeen) -> Iterator[Finding]:
    status = seen.device.status
    if status.allocations:
        pods = sorted({f"{a.namespace}/{a.pod}" for a in status.allocations})
        yield Finding("good", f"It serves {listed(pods)}, as kubelet reports")
    for taken in status.foreign_allocations:
        yield Finding(
            "bad",
            f"Pod {taken.namespace}/{taken.pod} (container {taken.container}) has it by {taken.resource}, as kubelet"
            " reports: the module offers it to nobody until that pod has ended",
            "docs/coexistence.md says how both live on one node",
        )
    for held in status.reservations:
        if live(held, seen.now):
            yield Finding(
                "note",
                f"It is reserved for pod {held.namespace}/{held.pod} since {since(held.since, seen.now)}",
                f"kubectl gpu explain pod {held.pod} -n {held.namespace}" if held.seen else "",
            )
