"""The rows of `nodes`, `cards` and `pools`. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.api.conditions import AVAILABLE, CAPACITY_LOW, MAINTENANCE, MISCONFIGURED, READY_FOR_POOLING
from controllers.api.conditions import find as condition
from controllers.domain.issuing import blocked_by
from controllers.domain.lifecycle import live
from controllers.domain.wording import listed
from controllers.explain.table import Cell, Column
from controllers.explain.words import since

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import GPUPool

Row = tuple[Cell, ...]

NODES = (
    Column("NODE"),
    Column("READY"),
    Column("REASON"),
    Column("CARDS"),
    Column("POOLS"),
    Column("PENDING"),
    Column("DRIVER"),
    Column("CUDA", wide=True),
    Column("TOOLKIT", wide=True),
    Column("PRODUCTS", wide=True),
    Column("AGE"),
)
CARDS = (
    Column("CARD"),
    Column("NODE"),
    Column("PRODUCT"),
    Column("STATE"),
    Column("POOL"),
    Column("SERVES"),
    Column("NOTE"),
    Column("INVENTORY ID", wide=True),
    Column("MIB", wide=True),
    Column("NUMA", wide=True),
    Column("MIG", wide=True),
    Column("UUID", wide=True),
    Column("AGE"),
)
POOLS = (
    Column("POOL"),
    Column("MODE"),
    Column("TOTAL"),
    Column("USED"),
    Column("RESERVED"),
    Column("UNAVAILABLE"),
    Column("AVAILABLE"),
    Column("WAITING"),
    Column("STATUS"),
    Column("NODES", wide=True),
    Column("CANDIDATES", wide=True),
    Column("ACCESS", wide=True),
    Column("AGE"),
)
STATES = {"Assigned": "green", "Reserved": "cyan", "Faulted": "red", "Unassigned": ""}
SYMBOL_NONE = "-"


def node(inventory: GPUNodeInventory, now: float) -> Row:
    """A node."""
    status = inventory.status
    ready = condition(status.conditions, READY_FOR_POOLING)
    word = ready.status if ready else "Unknown"
    cards = status.hw.devices if status.hw else ()
    driver, pools = status.driver, status.pools
    products = Counter(card.product or "unknown" for card in cards)
    return (
        Cell(inventory.name),
        Cell(word, {"True": "green", "False": "red"}.get(word, "yellow")),
        Cell(ready.reason if ready else SYMBOL_NONE),
        Cell(str(len(cards))),
        Cell(", ".join(f"{p.name} ({p.slots})" for p in pools.assigned) if pools and pools.assigned else SYMBOL_NONE),
        Cell(str(len({entry.inventory_id for entry in pools.pending}) if pools else 0)),
        Cell((driver.version if driver else None) or SYMBOL_NONE),
        Cell((driver.cuda_version if driver else None) or SYMBOL_NONE),
        Cell((driver.toolkit_version if driver else None) or SYMBOL_NONE),
        Cell(", ".join(f"{count} x {name}" for name, count in sorted(products.items())) or SYMBOL_NONE),
        Cell(since(inventory.metadata.creation_timestamp, now)),
    )


def card(device: GPUDevice, now: float) -> Row:
    """A card, with whom it serves and what is wrong with it."""
    status, hardware = device.status, device.status.hardware
    state = status.state or SYMBOL_NONE
    blocked = blocked_by(device)
    return (
        Cell(device.name),
        Cell(status.node_name or SYMBOL_NONE),
        Cell((hardware.product if hardware else None) or SYMBOL_NONE),
        Cell(state, STATES.get(state, "")),
        Cell(status.pool_ref.name if status.pool_ref else SYMBOL_NONE),
        Cell(_serves(device, now)),
        Cell(f"{blocked.type}: {blocked.reason}" if blocked else SYMBOL_NONE, "red" if blocked else ""),
        Cell(status.inventory_id or SYMBOL_NONE),
        Cell(str(hardware.memory_mib) if hardware and hardware.memory_mib is not None else SYMBOL_NONE),
        Cell(str(hardware.numa_node) if hardware and hardware.numa_node is not None else SYMBOL_NONE),
        Cell(_mig(device)),
        Cell((hardware.uuid if hardware else None) or SYMBOL_NONE),
        Cell(since(device.metadata.creation_timestamp, now)),
    )


def _serves(device: GPUDevice, now: float) -> str:
    serves = sorted({f"{taken.namespace}/{taken.pod}" for taken in device.status.allocations})
    held = sorted({f"{r.namespace}/{r.pod}" for r in device.status.reservations if live(r, now)})
    others = sorted({f"{a.namespace}/{a.pod} ({a.resource})" for a in device.status.foreign_allocations})
    return listed([*serves, *(f"{name} (reserved)" for name in held), *others]) or SYMBOL_NONE


def _mig(device: GPUDevice) -> str:
    mig = device.status.hardware.mig if device.status.hardware else None
    if mig is None or not mig.capable:
        return SYMBOL_NONE
    return ", ".join(f"{each.count} x {each.name}" for each in mig.types) if mig.types else "off"


def pool(found: GPUPool, now: float) -> Row:
    """A pool with its slots."""
    capacity, queue, word = found.status.capacity, found.status.queue, state(found)
    counts = ("total", "used", "reserved", "unavailable", "available")
    return (
        Cell(found.name),
        Cell(found.spec.allocation.mode),
        *(Cell(str(getattr(capacity, count)) if capacity else SYMBOL_NONE) for count in counts),
        Cell(str(queue.waiting if queue else 0), "yellow" if queue and queue.waiting else ""),
        Cell(
            word, {AVAILABLE: "green", CAPACITY_LOW: "yellow", "Unknown": "yellow", "Empty": "yellow"}.get(word, "red")
        ),
        Cell(str(len(found.status.nodes))),
        Cell(str(len(found.status.candidates))),
        Cell(access(found)),
        Cell(since(found.metadata.creation_timestamp, now)),
    )


def state(found: GPUPool) -> str:
    """One word for a pool: what keeps it from giving cards, before what is only worth knowing."""
    conditions = found.status.conditions
    if found.metadata.deletion_timestamp is not None:
        return "Deleting"
    for kind in (MISCONFIGURED, MAINTENANCE):
        if (it := condition(conditions, kind)) is not None and it.status == "True":
            return kind
    if found.status.capacity is not None and found.status.capacity.total == 0:
        return "Empty"
    for kind in (CAPACITY_LOW, AVAILABLE):
        if (it := condition(conditions, kind)) is not None and it.status == "True":
            return kind
    available = condition(conditions, AVAILABLE)
    return available.reason if available else "Unknown"


def access(found: GPUPool) -> str:
    """Who may use a pool."""
    lists = found.spec.access
    if lists is None:
        return "every namespace"
    parts = [
        f"{word} {listed(names)}"
        for word, names in (
            ("namespaces", lists.namespaces),
            ("service accounts", lists.service_accounts),
            ("groups", lists.dex_groups),
        )
        if names
    ]
    if lists.namespace_selector is not None:
        parts.append("namespaces by label")
    return "; ".join(parts) or "every namespace"
