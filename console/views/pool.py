"""The page Pool: capacity, queue, Maintenance and roll-outs of drivers; without a name all pools. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.views.common import cells_of, condition_row, guarded, less, missing, notes
from console.views.queues import observed_queue
from controllers.api.record import to_json
from controllers.explain import lists
from controllers.explain.rollout import AWAY, TRYING
from controllers.explain.words import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from console.records import Row, Seen
    from controllers.api.gpudriver import DriverNode, GPUDriver
    from controllers.api.gpupool import GPUPool, PoolNode
    from controllers.explain.queue import Waiter

UNDER_WAY = AWAY | TRYING | {"Failed", "Blocked", "Broken", "RolledBack"}
"""Phases of nodes that a roll-out is at, or that keep it from going on."""


def rows(seen: Seen, params: Mapping[str, str], now: float) -> Mapping[str, Row]:
    """`pool`, its conditions, waiters in the order of the queue, nodes, roll-outs on them; parameter `pool`."""
    (name,) = cells_of(params, "pool")
    if not name:
        every = {f"pool/{each}": _pool(found) for each, found in sorted(seen.pools.items())}
        return every | notes(seen, "GPUPool")
    pool = seen.pools.get(name)
    if pool is None:
        return missing("GPUPool", name, seen.pools) | notes(seen, "GPUPool")
    queue = observed_queue(pool, seen, now)
    found: dict[str, Row] = {"pool": _pool(pool) | less(unread=[guarded(why, seen) for why in queue.limitations])}
    found |= {f"condition/{c.type}": condition_row("GPUPool", name, c) for c in pool.status.conditions}
    found |= {f"waiter/{each.key}": _waiter(each) for each in queue.waiters}
    if queue.total > (told := sum(each.position is not None for each in queue.waiters)) and seen.hidden.get("Pod"):
        found["waiter/?"] = {"kind": "hidden", "of": "Pod", "count": queue.total - told}
    found |= {f"node/{node.name}": _node(node) for node in pool.status.nodes}
    found |= dict(_rollouts(pool, seen))
    return found | notes(seen, "GPUDevice", "GPUDriver")


def _pool(pool: GPUPool) -> Row:
    capacity, queue = pool.status.capacity, pool.status.queue
    return less(
        kind="pool",
        pool=pool.name,
        mode=pool.spec.allocation.mode,
        unit=UNITS[pool.spec.allocation.mode],
        state=lists.state(pool),
        phase=pool.status.phase,
        access=lists.access(pool),
        capacity=to_json(capacity) if capacity is not None else None,
        waiting=queue.waiting if queue is not None else 0,
        waitingUnits=queue.waiting_units if queue is not None else 0,
        oldest=queue.oldest if queue is not None else None,
        reconfigured=pool.status.last_reconfigured,
    )


def _waiter(found: Waiter) -> Row:
    return less(
        kind="waiter",
        position=found.position,
        namespace=found.namespace,
        pod=found.pod,
        units=found.units,
        priority=found.priority,
        since=found.since,
        reason=found.reason,
        ahead=found.ahead,
        node=found.node,
        use=found.node_use,
    )


def _node(node: PoolNode) -> Row:
    return less(
        kind="node",
        node=node.name,
        devices=node.assigned_devices,
        slots=node.slots,
        used=node.used,
        health=node.health,
        event=node.last_event,
        notShownSince=node.not_shown_since,
    )


def _rollouts(pool: GPUPool, seen: Seen) -> Iterator[tuple[str, Row]]:
    """Drivers that are at nodes of the pool."""
    here = {node.name for node in pool.status.nodes}
    for driver in seen.drivers.values():
        nodes = {one.name: one for one in driver.status.nodes if one.name in here and one.phase in UNDER_WAY}
        if nodes:
            yield f"rollout/{driver.name}", _rollout(driver, nodes, seen)


def _rollout(driver: GPUDriver, nodes: Mapping[str, DriverNode], seen: Seen) -> Row:
    status = driver.status
    shown = {
        name: less(phase=one.phase, reason=one.reason, since=one.since, message=_message(name, driver, seen))
        for name, one in sorted(nodes.items())
    }
    return less(
        kind="rollout",
        driver=driver.name,
        version=driver.spec.version,
        state=status.state,
        eta=status.eta,
        counts=to_json(status.counts) if status.counts is not None else None,
        nodes=shown,
    )


def _message(node: str, driver: GPUDriver, seen: Seen) -> str:
    inventory = seen.inventories.get(node)
    work = inventory.status.driver_work if inventory is not None else None
    return work.message or "" if work is not None and work.driver == driver.name else ""
