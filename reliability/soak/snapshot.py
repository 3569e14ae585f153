"""A cluster's state between cycles, as words that can be compared. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, is_true

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Node, Pod

TEAM = "soak"
"""Namespace of the pods that come and go."""
TOLD = 8
"""Differences that are told."""


def population(
    *,
    nodes: Iterable[Node],
    inventories: Iterable[GPUNodeInventory],
    devices: Iterable[GPUDevice],
    pools: Iterable[GPUPool],
    pods: Iterable[Pod],
    features: Iterable[str],
) -> dict[str, str]:
    """Everything that must be the same again, by a name for people; `features`: names of NodeFeatures."""
    found = {f"NodeFeature {name}": "there" for name in features}
    for node in nodes:
        slots = {k: v for k, v in node.status.allocatable.items() if k.startswith(names.PREFIX) and v != "0"}
        found[f"node {node.name}"] = f"ready {node.ready}, {dict(sorted(slots.items()))}"
    for inventory in inventories:
        ready = is_true(inventory.status.conditions, READY_FOR_POOLING)
        found[f"inventory {inventory.name}"] = f"ready {ready}"
    found |= {f"card {device.name}": _card(device) for device in devices}
    for pool in pools:
        capacity = pool.status.capacity
        found[f"pool {pool.name}"] = str(capacity) if capacity is not None else "uncounted"
    return found | _pods(pods)


def _card(device: GPUDevice) -> str:
    status = device.status
    pool = status.pool_ref.name if status.pool_ref is not None else "-"
    offered = status.published.pool if status.published is not None else "-"
    held = f"{len(status.reservations)} reserved, {len(status.allocations)} allocated"
    named = device.metadata.annotations.get(names.ASSIGNMENT, "-")
    return f"{status.state} in {pool}, offered in {offered}, {held}, assigned to {named}"


def _pods(pods: Iterable[Pod]) -> dict[str, str]:
    found: dict[str, str] = {}
    there: Counter[str] = Counter()
    ready: Counter[str] = Counter()
    for pod in pods:
        if pod.metadata.namespace == TEAM:
            found[f"pod {pod.name}"] = pod.status.phase
        elif pod.metadata.namespace == names.NAMESPACE:
            there[pod.node or "no node"] += 1
            ready[pod.node or "no node"] += pod.ready
    return found | {f"operands on {node}": f"{ready[node]} of {count} ready" for node, count in there.items()}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What is not as before, each in a sentence; the first few."""
    keys = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    told = [f"{key}: was {before.get(key, 'not there')}, is {now.get(key, 'not there')}" for key in keys]
    more = len(told) - TOLD
    return told[:TOLD] + ([f"and {more} more"] if more > 0 else [])
