"""A fleet as large as a test wants it: for pictures, and for how fast the page is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.meta import Condition, KubeObject
from tests.console.page.serving import Fed
from tests.console.views.world import queued, seen_pod, sized
from tests.kit.objects import LONG_AGO, address, allocation, card, condition, inventory, pool

EACH = 8
POOLS = ("training", "inference")
PRODUCTS = ("NVIDIA H100 80GB HBM3", "NVIDIA L40S")


def cards(nodes: int) -> Iterator[GPUDevice]:
    """Eight cards of each node, those of even nodes joined by NVLink; most in use, some faulted, some free."""
    for at in range(nodes):
        name, kind = f"gpu-{at + 1:04}", at % 2
        for place in range(1, EACH + 1):
            peers = [address(other) for other in range(1, EACH + 1) if other != place] if kind == 0 else []
            hardware = {"product": PRODUCTS[kind], "memory_mib": 81559, "nvlink": {"peers": peers}}
            yield _card(name, place, (at * EACH + place) % 17, POOLS[kind], hardware)


def _card(name: str, place: int, chance: int, of: str, hardware: dict[str, Any]) -> GPUDevice:
    if chance == 0:
        return card(name, place, hardware=hardware)
    if chance == 1:
        fault = condition("Faulted", reason="CriticalXid", message="XID 79: the card has fallen off the bus")
        return card(name, place, pool=of, hardware=hardware, conditions=(fault,))
    if chance < 6:
        return card(name, place, pool=of, hardware=hardware)
    return card(name, place, pool=of, hardware=hardware, allocations=(allocation(f"job-{place}", f"u{place}"),))


def fed(nodes: int) -> Fed:
    """A feed of such a fleet, with two pools and a queue."""
    every = list(cards(nodes))
    by_node: dict[str, list[GPUDevice]] = {}
    for one in every:
        by_node.setdefault(one.status.node_name or "", []).append(one)
    capacity = {"unit": "card", "total": 300, "used": 210, "reserved": 6, "unavailable": 18, "available": 66}
    listed = [
        {"name": name, "total_devices": EACH, "assigned_devices": EACH, "slots": EACH, "used": 6, "health": "Healthy"}
        for name in list(by_node)[:8]
    ]
    ready = condition("ReadyForPooling", reason="Ready", message="the node's cards may be in pools")
    available = condition("Available", reason="SlotsAvailable")
    status = {"capacity": capacity, "nodes": listed, "last_reconfigured": LONG_AGO}
    objects: dict[str, list[KubeObject]] = {
        "cards": [*every],
        "nodes": [sized(name, 8, {names.pool_node_label(one): "" for one in POOLS}) for name in by_node],
        "inventories": [_inventory(name, of, ready) for name, of in by_node.items()],
        "pools": [pool(name, conditions=[available], status=status) for name in POOLS],
        "pods": [queued("big", units=8), queued("small", "team-b"), seen_pod("job-1", nodeName="gpu-0001")],
    }
    feed = Fed()
    feed.fill(**objects)
    return feed


def _inventory(name: str, of: list[GPUDevice], ready: Condition) -> KubeObject:
    waits = [one for one in of if one.status.pool_ref is None]
    pending = [
        {"inventory_id": one.status.inventory_id, "reason": "AwaitingApproval", "pool": POOLS[0]} for one in waits
    ]
    return inventory(name, of, conditions=[ready], pools={"pending": pending}, driver={"version": "580.95.05"})
