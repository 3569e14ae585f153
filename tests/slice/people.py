"""What people do to the cluster in the tests: with their own requests, as administrator."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from typing import Any, Self

import orjson

from controllers.api import names, resources
from controllers.api.conversions import LATEST
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import Capacity
from controllers.api.kube import Pod
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, ApiError, NotFound, RuntimeFault
from sim import controlplane
from sim.controlplane import ControlPlane
from sim.view import View
from sim.workload import gpu_pod, gpupool
from tests.kit.waiting import PATIENCE, until


class People:
    """Verbs over one cluster; each raises what the API server answers."""

    def __init__(self, plane: ControlPlane, view: View) -> None:
        self.plane, self.view, self.client = plane, view, view.client

    async def namespace(self, name: str) -> None:
        try:
            await self.client.create(resources.NAMESPACE, {"metadata": {"name": name}}, manager="test")
        except AlreadyExists:
            return
        # Pods are refused until the controller has made the default ServiceAccount.
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        await self.eventually(lambda: self.client.request("GET", path))

    @asynccontextmanager
    async def tenant(self, namespace: str) -> AsyncIterator[Self]:
        """Somebody who may do everything in one namespace, and nothing outside it."""
        rule, kind = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, "rbac.authorization.k8s.io"
        role = {"metadata": {"name": "tenant"}, "rules": [rule]}
        subject = {"apiGroup": kind, "kind": "User", "name": f"tenant-{namespace}"}
        about = {"apiGroup": kind, "kind": "Role", "name": "tenant"}
        binding = {"metadata": {"name": "tenant"}, "roleRef": about, "subjects": [subject]}
        for plural, body in (("roles", role), ("rolebindings", binding)):
            await self.client.request("POST", f"/apis/{kind}/v1/namespaces/{namespace}/{plural}", body=body)
        made = copy(self)
        made.client = await Client.connect(self.plane.kubeconfig, user_agent="test")
        made.client._session.headers["Impersonate-User"] = subject["name"]
        try:
            await made.eventually(lambda: made.client.request("GET", resources.POD.path(namespace)))
            yield made
        finally:
            await made.client.close()

    async def eventually(self, call: Any, seconds: float = PATIENCE) -> bytes:
        """Repeat a request until it succeeds; raises the last refusal."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                answer: bytes = await call()
            except RuntimeFault:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
            else:
                return answer

    async def pool(self, name: str, **spec: Any) -> None:
        """Create a pool, which refuses pods that it has no cards for; what waits is `test_queue`'s."""
        spec.setdefault("queue", {"onShortage": "Refuse"})
        await self.client.create(resources.GPUPOOL, gpupool(name, **spec), manager="test")

    async def annotate(self, device: str, pool: str | None) -> None:
        body = {"metadata": {"annotations": {names.ASSIGNMENT: pool}}}
        await self.client.merge(resources.GPUDEVICE, device, body, manager="test")

    async def annotate_unjudged(self, device: str, pool: str) -> None:
        """What the webhook refuses to a person, as it may be there all the same: the pool was another then."""
        identity = self.plane.dir / "pki" / "identities" / f"{names.POOL_CONTROLLER}.kubeconfig"
        client = await Client.connect(identity, user_agent="test")
        try:
            body = {"metadata": {"annotations": {names.ASSIGNMENT: pool}}}
            await client.merge(resources.GPUDEVICE, device, body, manager="test")
        finally:
            await client.close()

    async def pod(self, name: str, namespace: str, pool: str | None, units: int = 1, **spec: Any) -> bytes:
        return await self.client.create(resources.POD, gpu_pod(name, pool, units, **spec), namespace, manager="test")

    async def remove(self, resource: resources.Resource, name: str, namespace: str | None = None) -> None:
        path = resource.path(namespace, name)
        await self.client.request("DELETE", path, body={"gracePeriodSeconds": 0})

    async def refused(self, name: str, namespace: str, pool: str, units: int = 1, **spec: Any) -> str:
        """The message with which the API server refuses a pod."""
        try:
            await self.pod(name, namespace, pool, units, **spec)
        except ApiError as error:
            return error.message
        raise AssertionError(f"pod {name} should have been refused")

    async def resize(self, name: str, namespace: str, limits: dict[str, str]) -> str:
        """Change what a pod's first container asks for, by subresource resize; returns how that was refused."""
        containers = orjson.loads(await self.client.get(resources.POD, name, namespace))["spec"]["containers"]
        asked = containers[0].setdefault("resources", {})
        for kind in ("limits", "requests"):
            asked[kind] = asked.get(kind, {}) | limits
        body = {"spec": {"containers": containers}}
        try:
            await self.client.merge(
                resources.POD, name, body, manager="test", namespace=namespace, subresource="resize"
            )
        except ApiError as error:
            return error.message
        return ""

    async def ready_nodes(self, count: int = 4) -> None:
        # Where a test begins, not what it is about: a machine that is busy with other things gets its time.
        await self.view.until(lambda: self.view.ready() >= count, PATIENCE, self.view.unready)

    def cards(self, pool: str) -> list[GPUDevice]:
        return sorted(
            (d for d in self.view.devices if d.status.pool_ref and d.status.pool_ref.name == pool), key=lambda d: d.name
        )

    def pods(self, namespace: str) -> list[Pod]:
        return [pod for pod in self.view.pods if pod.metadata.namespace == namespace]

    def capacity(self, pool: str) -> tuple[int, int, int, int] | None:
        """total, used, reserved, available"""
        found = self.view.pools.get(pool)
        c: Capacity | None = found.status.capacity if found else None
        return (c.total, c.used, c.reserved, c.available) if c else None

    async def filled(self, pool: str, devices: list[str], **spec: Any) -> None:
        """A pool whose cards are offered."""
        await self.pool(pool, **spec)
        for device in devices:
            await self.annotate(device, pool)
        await self.offered(pool, len(devices))

    async def offered(self, pool: str, count: int) -> None:
        key = names.resource_name(pool)

        def allocatable() -> int:
            return sum(int(node.status.allocatable.get(key, 0)) for node in self.view.nodes)

        def found() -> str:
            return f"{allocatable()} of {key} are allocatable"

        await self.view.until(lambda: allocatable() == count, PATIENCE, found)
        await self.view.until(
            lambda: (self.capacity(pool) or (0,))[0] == count, PATIENCE, lambda: f"capacity {self.capacity(pool)}"
        )

    async def running(self, namespace: str, count: int) -> None:
        await self.view.until(
            lambda: sum(pod.ready for pod in self.pods(namespace)) == count,
            PATIENCE,
            lambda: str([(pod.name, pod.status.phase) for pod in self.pods(namespace)]),
        )

    async def settled(self, pool: str, expected: tuple[int, int, int, int]) -> None:
        await self.view.until(
            lambda: self.capacity(pool) == expected, PATIENCE, lambda: f"{self.capacity(pool)}, expected {expected}"
        )

    async def retire(self, pool: str) -> None:
        """Delete a pool whose pods are gone, and wait until nothing of it is left."""
        await self.remove(resources.GPUPOOL, pool)
        await self.view.until(
            lambda: self.view.pools.get(pool) is None and not self.cards(pool),
            PATIENCE,
            lambda: f"cards {self.cards(pool)}",
        )
        for device in list(self.view.devices):
            if device.metadata.annotations.get(names.ASSIGNMENT) == pool:
                await self.annotate(device.name, None)

    async def settings(self, version: int = LATEST, /, **settings: Any) -> None:
        """Set the ModuleConfig."""
        body = {"spec": {"enabled": True, "version": version, "settings": settings}}
        obj = {
            "apiVersion": "deckhouse.io/v1alpha1",
            "kind": "ModuleConfig",
            "metadata": {"name": names.MODULE},
            **body,
        }
        await self.client.apply(resources.MODULECONFIG, names.MODULE, obj, manager="test")

    async def no_settings(self) -> None:
        try:
            await self.remove(resources.MODULECONFIG, names.MODULE)
        except NotFound:
            return

    def kill(self, process: str) -> int:
        """kill -9 of a process of the cluster; returns its restarts so far."""
        found = controlplane.status(self.plane.dir).processes[process]
        assert found.pid is not None
        os.kill(found.pid, signal.SIGKILL)
        return found.restarts

    def restarts(self) -> dict[str, int]:
        return {name: p.restarts for name, p in controlplane.status(self.plane.dir).processes.items()}

    async def back(self, process: str, restarts: int) -> None:
        """Wait until a killed process has been started again and is ready."""

        def is_back() -> bool:
            found = controlplane.status(self.plane.dir).processes[process]
            return found.restarts > restarts and found.phase == "ready"

        await until(is_back, f"{process} to come back")

    async def told(self, reason: str, *words: str, about: str = "", namespace: str = "default") -> None:
        """Wait for an Event with these words: Events are sent after what they tell of is done."""

        async def found() -> bool:
            items = orjson.loads(await self.client.request("GET", resources.EVENT.path(namespace)))["items"]
            return any(
                item["reason"] == reason
                and about in ("", item["regarding"]["name"])
                and all(word in item["note"] for word in words)
                for item in items
            )

        await until(found, f"an Event {reason} with {words}")
