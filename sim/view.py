"""Live caches of a cluster, and waiting for something to come true: for the demo, tests, benchmarks.

Lives inside one `async with`; conditions are asked again on every change of any cache, so a
step ends the moment it is true and no sleep stands for it.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson
from pydantic import Field

from controllers.api import resources
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node, Pod
from controllers.api.meta import KubeObject, ObjectMeta
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import record
from controllers.runtime.client import Client
from controllers.runtime.reflector import Reflector
from controllers.runtime.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

START_SECONDS = 120.0


class LateError(Exception):
    """Something did not come true in its time."""


def owners(managed_fields: Iterable[Mapping[str, Any]], *path: str) -> list[str]:
    """The managers that own a field, or something below it, by the API server's managedFields.

    `path` is the field's, such as `status`, `poolRef`; an entry of a list that is kept by a
    key is `key=value`, such as `type=Ready`.
    """
    found = []
    for entry in managed_fields:
        at: Any = entry.get("fieldsV1", {})
        for part in path:
            at = at.get(_step(part)) if isinstance(at, dict) else None
        if at is not None:
            found.append(str(entry.get("manager", "")))
    return found


def _step(part: str) -> str:
    key, is_entry, value = part.partition("=")
    return f"k:{json.dumps({key: value}, separators=(',', ':'))}" if is_entry else f"f:{part}"


class View:
    """Caches of everything that the module is about."""

    def __init__(self, kubeconfig: Path) -> None:
        """Prepare; nothing is read before entering."""
        self._kubeconfig = kubeconfig
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.devices: Store[GPUDevice] = Store("GPUDevice")
        self.inventories: Store[GPUNodeInventory] = Store("GPUNodeInventory")
        self.pools: Store[GPUPool] = Store("GPUPool")
        self.drivers: Store[GPUDriver] = Store("GPUDriver")
        self.nodes: Store[Node] = Store("Node")
        self.features: Store[NodeFeature] = Store("NodeFeature")
        self.pods: Store[Pod] = Store("Pod")

    async def __aenter__(self) -> Self:
        """Fill the caches."""
        self.client = await Client.connect(self._kubeconfig, user_agent="sim-view")
        kinds: list[tuple[resources.Resource, type[Any], Store[Any]]] = [
            (resources.GPUDEVICE, GPUDevice, self.devices),
            (resources.GPUNODEINVENTORY, GPUNodeInventory, self.inventories),
            (resources.GPUPOOL, GPUPool, self.pools),
            (resources.GPUDRIVER, GPUDriver, self.drivers),
            (resources.NODE, Node, self.nodes),
            (resources.NODEFEATURE, NodeFeature, self.features),
            (resources.POD, Pod, self.pods),
        ]
        reflectors = []
        for resource, declared, store in kinds:
            store.subscribe(self._wake)
            # A release before the first GPUDriver does not serve that kind.
            optional = resource is resources.GPUDRIVER
            reflectors.append(Reflector(self.client, resource, declared, store, optional=optional))
        self._tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.gather(*(reflector.synced.wait() for reflector in reflectors))
        except BaseException as error:
            await self._stop()
            if isinstance(error, TimeoutError):
                raise LateError(f"the cluster's objects could not be listed in {START_SECONDS:.0f} s") from None
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _: object, trace: TracebackType | None) -> None:
        """Stop watching."""
        await self._stop()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    def _wake(self, _: object, __: object) -> None:
        self._changed.set()

    async def until(self, true: Callable[[], bool], seconds: float, found: Callable[[], str]) -> float:
        """Wait until it is true; returns the seconds that took. Raises LateError with what was found."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                while not true():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise LateError(f"not true after {seconds:.0f} s; found: {found()}") from None
        return time.monotonic() - started

    def available(self, pool: str) -> int:
        """Slots that a pod can get now of a pool, as its status says; 0 of one that is not there."""
        found = self.pools.get(pool)
        return found.status.capacity.available if found is not None and found.status.capacity is not None else 0

    def ready(self) -> int:
        """How many nodes are ready for pooling."""
        return sum(is_true(inventory.status.conditions, READY_FOR_POOLING) for inventory in self.inventories)

    def unready(self) -> str:
        """How many nodes are ready, and of each other one its conditions and the pods there that are not."""
        told = {
            inventory.name: ", ".join(
                f"{c.type}={c.status} ({c.reason})"
                for c in inventory.status.conditions
                if c.status == "True" or c.type == READY_FOR_POOLING
            )
            for inventory in self.inventories
            if not is_true(inventory.status.conditions, READY_FOR_POOLING)
        }
        told |= {node.name: "no record" for node in self.nodes if node.name not in {i.name for i in self.inventories}}
        idle: dict[str, list[str]] = {}
        for pod in self.pods:
            if not pod.ready:
                idle.setdefault(pod.spec.node_name or "", []).append(f"{pod.name} {pod.status.phase}")
        lines = [
            f"{node}: {why}; not ready there: {', '.join(idle.get(node, [])) or 'no pod'}" for node, why in told.items()
        ]
        return "\n  ".join([f"{self.ready()} nodes are ready", *lines])

    async def writers(self, resource: resources.Resource, name: str, namespace: str | None = None) -> list[str]:
        """Who wrote an object, from the API server's own record (managedFields), first writer first."""
        meta = orjson.loads(await self.client.get(resource, name, namespace))["metadata"]
        entries = sorted(meta.get("managedFields", []), key=lambda entry: entry.get("time", ""))
        return list(dict.fromkeys(entry["manager"] for entry in entries))

    async def owners(
        self, resource: resources.Resource, name: str, *path: str, namespace: str | None = None
    ) -> list[str]:
        """Who owns a field of an object now, from the API server's own record; see `owners` above for the path."""
        meta = orjson.loads(await self.client.get(resource, name, namespace))["metadata"]
        return owners(meta.get("managedFields", []), *path)

    async def wrote(
        self, manager: str, resource: resources.Resource, *path: str, since: int, objects: int, seconds: float
    ) -> None:
        """Wait until a manager owned a field in that many objects, in whichever version of them since one.

        For fields that others take over soon: the watch begins in the past, so nothing is
        missed. Raises LateError.
        """
        seen = _Writers(resource.kind, lambda meta: manager in owners(meta.managed_fields, *path), objects)
        following = asyncio.create_task(Reflector(self.client, resource, _Managed, seen).follow(str(since)))
        try:
            async with asyncio.timeout(seconds):
                await seen.enough.wait()
        except TimeoutError:
            field, found = ".".join(path), sorted(seen.names)
            raise LateError(
                f"expected {manager} to write {field} of {objects} {resource.plural}, found: {found}"
            ) from None
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


@record
class _ManagedMeta(ObjectMeta):
    """Metadata with the API server's record of who wrote what."""

    managed_fields: tuple[dict[str, Any], ...] = ()


@record
class _Managed(KubeObject):
    """An object with that record."""

    metadata: _ManagedMeta = Field(default_factory=_ManagedMeta)


class _Writers(Store[_Managed]):
    """Names of the objects of which some version, as a watch shows them, was written by somebody."""

    def __init__(self, kind: str, wrote: Callable[[_ManagedMeta], bool], objects: int) -> None:
        super().__init__(kind)
        self._wrote, self._objects = wrote, objects
        self.names: set[str] = set()
        self.enough = asyncio.Event()

    def on_watch_event(self, obj: _Managed, *, deleted: bool = False) -> None:
        super().on_watch_event(obj, deleted=deleted)
        if self._wrote(obj.metadata):
            self.names.add(obj.name)
        if len(self.names) >= self._objects:
            self.enough.set()
