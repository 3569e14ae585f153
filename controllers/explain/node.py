"""Whether a node's cards can be pooled, and what is in the way. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import reasons
from controllers.api.conditions import READY_FOR_POOLING, UNASSIGNED_DEVICE
from controllers.api.conditions import find as condition
from controllers.api.reasons import NODE_OWNERS
from controllers.explain.cures import cure
from controllers.explain.driver import BAD
from controllers.explain.explanation import Explanation, Finding
from controllers.explain.pending_card import describe_pending
from controllers.explain.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controllers.api.gpunodeinventory import GPUNodeInventory, PendingCard, PendingReason
    from controllers.explain.explanation import Level


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node's record."""

    inventory: GPUNodeInventory


def explained(seen: NodeSeen) -> Explanation:
    """The node's conditions as findings, then what its cards are in."""
    inventory = seen.inventory
    ready = condition(inventory.status.conditions, READY_FOR_POOLING)
    name = f"Node {inventory.name}"
    if ready is None:
        verdict = f"{name} has not been looked at yet"
    elif ready.status == "True":
        verdict = f"{name} is ready: its cards may be in pools"
    else:
        verdict = f"{name} is not ready for pooling ({ready.reason})"
    found = (*conditions(inventory), *_driver(inventory), *_cards(inventory))
    return Explanation("GPUNodeInventory", inventory.name, verdict, found)


def conditions(inventory: GPUNodeInventory) -> Iterator[Finding]:
    """What is wrong with the node, the decisive condition first."""
    ready = condition(inventory.status.conditions, READY_FOR_POOLING)
    if ready is not None:
        level: Level = "good" if ready.status == "True" else "bad"
        yield Finding(level, f"{ready.reason}: {ready.message}", cure("node", ready, node=inventory.name))
    said = {ready.message if ready else ""}
    for kind in NODE_OWNERS:
        found = condition(inventory.status.conditions, kind)
        if found is None or kind in (READY_FOR_POOLING, UNASSIGNED_DEVICE) or found.status != "True":
            continue
        text = f"{kind} ({found.reason})" + ("" if found.message in said else f": {found.message}")
        yield Finding("warning", text, cure("node", found, node=inventory.name))
        said.add(found.message)


def _driver(inventory: GPUNodeInventory) -> Iterator[Finding]:
    """What is done to it for its driver's sake, and what to do about that."""
    work = inventory.status.driver_work
    if work is None:
        return
    level: Level = "bad" if work.phase in BAD else "note"
    doing = f"GPUDriver {work.driver} takes back revision {work.undoes}" if work.undoes else f"GPUDriver {work.driver}"
    if work.hand_over:
        doing = f"{work.hand_over} wants it for work of their own"
    why = f" ({work.reason})" if work.reason else ""
    row = reasons.of_driver_work(work.reason) if work.reason else None
    do = row.spoken(driver=work.driver, node=inventory.name) if row is not None else ""
    yield Finding(
        level, f"{doing}: {work.phase}{why} since {work.since}" + (f", {work.message}" if work.message else ""), do
    )


def _cards(inventory: GPUNodeInventory) -> Iterator[Finding]:
    status = inventory.status
    number = len(status.hw.devices) if status.hw else 0
    yield Finding("note", f"It has {counted(number, 'card')}: kubectl gpu cards --node {inventory.name}")
    if status.pools is None:
        return
    for pool in status.pools.assigned:
        yield Finding(
            "good", f"GPUPool {pool.name} has {counted(pool.slots, 'slot')} here, {pool.slots_reserved} reserved"
        )
    yield from _pending(inventory.name, status.pools.pending)


def _pending(node: str, entries: Iterable[PendingCard]) -> Iterator[Finding]:
    """The node's cards in no pool, each reason once; of a pool that is the only one its name is in the command."""
    by_reason: dict[PendingReason, list[PendingCard]] = defaultdict(list)
    for entry in entries:
        by_reason[entry.reason].append(entry)
    for reason, found in sorted(by_reason.items()):
        number = len({entry.inventory_id for entry in found})
        pools = sorted({entry.pool for entry in found if entry.pool})
        meaning, do = describe_pending(reason, node=node, pool=pools[0] if len(pools) == 1 else "")
        of = f" for {' or '.join(pools)}" if pools else ""
        yield Finding("note", f"{counted(number, 'card')} in no pool, {reason}{of}: {meaning}", do)
