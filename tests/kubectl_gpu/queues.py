"""Pods that wait in the queue of a pool, with its cards and nodes, in few words."""

from __future__ import annotations

from typing import Any

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.domain.clock import stamp
from controllers.explain.queue_seen import QueueSeen
from controllers.explain.records import SeenPod
from tests.kit import objects
from tests.kit.pods import pod_body
from tests.kubectl_gpu.test_say import NOW, POOL

GATE = {"name": names.CARDS_GATE}
KUEUE = {"name": "kueue.x-k8s.io/admission"}


def condition(reason: str, message: str = "", status: str = "True") -> dict[str, Any]:
    """The pod's condition, as gpupool-controller writes it."""
    at = stamp(NOW - 60)
    return {"type": names.QUEUED, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def queued_body(name: str, units: int = 1, *, age: float = 60, team: str = "team", **more: Any) -> dict[str, Any]:
    """A pod behind our gate; `says` is the reason of its condition, `gates` are all that it has."""
    gates, says = more.pop("gates", (GATE,)), more.pop("says", None)
    meta = {"namespace": team, "creationTimestamp": stamp(NOW - age), "resourceVersion": "7", **more.pop("meta", {})}
    made = pod_body(name, units, schedulingGates=list(gates), **{"pool": POOL} | more)
    made["metadata"] |= meta
    made["status"] |= {"conditions": [condition(says)]} if says else {}
    return made


def queued(name: str, units: int = 1, **more: Any) -> SeenPod:
    """The same, read."""
    return adapter(SeenPod).validate_python(queued_body(name, units, **more))


def cards(node: str, count: int, **status: Any) -> list[GPUDevice]:
    """Cards of the pool on a node."""
    return [objects.card(node, at, pool=POOL, **status) for at in range(1, count + 1)]


def node(name: str, **labels: str) -> Node:
    """A node of the pool."""
    return objects.node(name, labels={names.pool_node_label(POOL): "true", **labels})


def used(node: str, count: int, team: str = "team") -> list[GPUDevice]:
    """Cards of the pool on a node, all of which pods have."""
    found = []
    for at in range(1, count + 1):
        taken = objects.allocation(f"runs-{at}", f"u-{node}-{at}", namespace=team)
        found.append(objects.card(node, at, pool=POOL, allocations=[taken]))
    return found


def seen(*pods: SeenPod, on: list[GPUDevice], nodes: Any = None, pool: dict[str, Any] | None = None) -> QueueSeen:
    """The pool's queue with its cards; nodes as plain ones."""
    there = {device.status.node_name or "" for device in on}
    found = {name: node(name) for name in there} if nodes is None else nodes
    return QueueSeen(objects.pool(POOL, **(pool or {})), pods, tuple(on), found, (), NOW)
