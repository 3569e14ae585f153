"""A cluster with drivers and nodes, for what `kubectl gpu driver` says of it and writes to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from controllers.api.record import adapter, to_json
from controllers.api.resources import GPUDRIVER, GPUNODEINVENTORY, NODE, Resource
from controllers.runtime.errors import Forbidden, NotFound
from kubectl_gpu.cluster import Found
from tests.kit import objects

SINCE = "2026-01-01T00:00:00Z"


def condition(kind: str, reason: str, message: str = "", status: str = "True") -> dict[str, str]:
    """A condition as the API has it."""
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def driver(
    name: str, annotations: dict[str, str] | None = None, rollout: dict[str, Any] | None = None, **status: Any
) -> GPUDriver:
    """A driver with this status; `rollout` of its spec."""
    metadata = {"name": name, "creationTimestamp": SINCE, "generation": 1, "annotations": annotations or {}}
    body = {"metadata": metadata, "spec": {"version": "580.178.04", "rollout": rollout or {}}}
    return adapter(GPUDriver).validate_python(body | {"status": status})


def node(name: str, **work: Any) -> GPUNodeInventory:
    """A node, with what is done to it."""
    status: dict[str, Any] = {}
    if work:
        status["driver_work"] = {"driver": "main", "since": SINCE, "node_uid": "u", **work}
    return objects.inventory(name, **status)


@dataclass
class Api:
    """A cluster with drivers and nodes."""

    drivers: tuple[GPUDriver, ...] = ()
    nodes: tuple[GPUNodeInventory, ...] = ()
    unreadable: tuple[Resource, ...] = ()
    said: dict[str, dict[str, str]] = field(default_factory=dict)
    """Annotations of nodes."""
    marked: list[tuple[str, str, str | None, bool]] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)
    """How often a kind was listed."""

    def _all(self, resource: Resource) -> list[Any]:
        if resource in self.unreadable:
            raise Forbidden(403, "Forbidden", f"dev cannot list {resource.plural}")
        there = [Node(metadata=replace(one.metadata, annotations=self.said.get(one.name, {}))) for one in self.nodes]
        return list({GPUDRIVER: self.drivers, GPUNODEINVENTORY: self.nodes, NODE: there}[resource])

    async def list(self, resource: Resource, _: type[Any], **__: Any) -> list[Found[Any]]:
        self.reads[resource.plural] += 1
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [Found(head | to_json(one), one) for one in self._all(resource)]

    async def get(self, resource: Resource, _: type[Any], name: str, __: str | None = None) -> Found[Any]:
        for one in self._all(resource):
            if one.name == name:
                return Found({}, one)
        raise NotFound(404, "NotFound", f"{name} not found", about=name)

    async def annotate(self, resource: Resource, obj: Any, key: str, value: str | None, *, dry_run: bool) -> None:
        assert resource == (GPUDRIVER if isinstance(obj, GPUDriver) else NODE)
        self.marked.append((obj.name, key, value, dry_run))
