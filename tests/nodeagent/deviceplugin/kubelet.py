"""A kubelet as its plugins see it: real gRPC over unix sockets, and the device manager's bookkeeping."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from nodeagent.deviceplugin.wire import deviceplugin_pb2 as pb
from nodeagent.deviceplugin.wire import podresources_pb2 as resources
from tests.kit.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class Endpoint:
    """A plugin that has registered."""

    channel: grpc.aio.Channel
    watch: asyncio.Task[None] | None = None
    devices: dict[str, pb.Device] = field(default_factory=dict)
    lists: list[tuple[float, dict[str, str]]] = field(default_factory=list)
    """Each list that came: when, and health by id."""

    def method(self, name: str, answer: Any, *, stream: bool = False) -> Any:
        make = self.channel.unary_stream if stream else self.channel.unary_unary
        return make(
            f"/v1beta1.DevicePlugin/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )


class Kubelet:
    """One node's kubelet; `holdings` outlive a restart, as its checkpoint does."""

    def __init__(self, folder: Path) -> None:
        self.plugins, self.pod_resources = folder / "device-plugins", folder / "pod-resources" / "kubelet.sock"
        self.plugins.mkdir()
        self.pod_resources.parent.mkdir()
        self.endpoints: dict[str, Endpoint] = {}
        self.registrations: list[pb.RegisterRequest] = []
        self.holdings: dict[tuple[str, str, str], tuple[str, tuple[str, ...]]] = {}
        """Resource and ids by namespace, pod and container."""
        self.claims: dict[tuple[str, str, str], tuple[str, str, str]] = {}
        """What ResourceClaims gave: DRA driver, device and CDI name by namespace, pod and container."""
        self.untold: set[tuple[str, str, str]] = set()
        """Those of ordinary init containers: they stay the pod's, and List does not name them."""
        self._servers: list[grpc.aio.Server] = []

    @property
    def flags(self) -> list[str]:
        """How a plugin finds it."""
        return [f"--plugin-dir={self.plugins}", f"--pod-resources={self.pod_resources}"]

    async def start(self) -> None:
        """Start as kubelet does: with every socket of the folder removed."""
        for path in self.plugins.iterdir():
            if path.is_socket():
                path.unlink()
        self.pod_resources.unlink(missing_ok=True)
        await self._serve(self.plugins / "kubelet.sock", "v1beta1.Registration", {
            "Register": (self._register, pb.RegisterRequest),
        })  # fmt: skip
        await self._serve(self.pod_resources, "v1.PodResourcesLister", {
            "List": (self._list, resources.ListPodResourcesRequest),
        })  # fmt: skip

    async def stop(self) -> None:
        """End; the plugins' streams break."""
        for endpoint in self.endpoints.values():
            if endpoint.watch is not None:
                endpoint.watch.cancel()
                await asyncio.gather(endpoint.watch, return_exceptions=True)
            await endpoint.channel.close()
        self.endpoints.clear()
        for server in self._servers:
            await server.stop(0)
        self._servers.clear()

    async def _serve(self, path: Path, service: str, methods: dict[str, tuple[Any, Any]]) -> None:
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                method, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString()
            )
            for name, (method, request) in methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append(server)

    async def _register(self, request: pb.RegisterRequest, _: Any) -> pb.Empty:
        self.registrations.append(request)
        channel = grpc.aio.insecure_channel(f"unix:{self.plugins / request.endpoint}")
        endpoint = Endpoint(channel)
        options = await endpoint.method("GetDevicePluginOptions", pb.DevicePluginOptions)(pb.Empty(), timeout=PATIENCE)
        assert options.get_preferred_allocation_available
        old = self.endpoints.get(request.resource_name)
        self.endpoints[request.resource_name] = endpoint
        endpoint.watch = asyncio.create_task(self._watch(endpoint))
        if old is not None and old.watch is not None:
            old.watch.cancel()
        return pb.Empty()

    async def _watch(self, endpoint: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        call = endpoint.method("ListAndWatch", pb.ListAndWatchResponse, stream=True)(pb.Empty())
        try:
            async for answer in call:
                endpoint.devices = {device.ID: device for device in answer.devices}
                endpoint.lists.append((loop.time(), {device.ID: device.health for device in answer.devices}))
        except grpc.aio.AioRpcError:
            for device in endpoint.devices.values():  # it has lost the plugin: nothing of it can be given
                device.health = "Unhealthy"
        finally:
            call.cancel()  # the task's own cancellation leaves the stream open until the call is garbage

    async def _list(self, _: Any, __: Any) -> resources.ListPodResourcesResponse:
        pods: dict[tuple[str, str], resources.PodResources] = {}
        for (namespace, pod, container), (resource, ids) in self.holdings.items():
            if (namespace, pod, container) in self.untold:
                continue
            made = pods.setdefault((namespace, pod), resources.PodResources(name=pod, namespace=namespace))
            held = resources.ContainerDevices(resource_name=resource, device_ids=ids)
            made.containers.append(resources.ContainerResources(name=container, devices=[held]))
        for (namespace, pod, container), (driver, device, cdi) in self.claims.items():
            made = pods.setdefault((namespace, pod), resources.PodResources(name=pod, namespace=namespace))
            given = resources.ClaimResource(driver_name=driver, device_name=device)
            given.cdi_devices.append(resources.CDIDevice(name=cdi))
            dynamic = [resources.DynamicResource(claim_resources=[given])]
            made.containers.append(resources.ContainerResources(name=container, dynamic_resources=dynamic))
        return resources.ListPodResourcesResponse(pod_resources=pods.values())

    # --- what it knows -----------------------------------------------------------------------

    def healthy(self, resource: str) -> set[str]:
        """Ids that new pods may get: allocatable."""
        return {id_ for id_, device in self.listed(resource).items() if device.health == "Healthy"}

    def listed(self, resource: str) -> dict[str, pb.Device]:
        """All ids: capacity."""
        return self.endpoints[resource].devices if resource in self.endpoints else {}

    def held(self, resource: str) -> set[str]:
        """Ids that containers have."""
        return {id_ for name, ids in self.holdings.values() if name == resource for id_ in ids}

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, f"waited {PATIENCE:g} s for {what}"
            await asyncio.sleep(0.005)

    # --- what it does ------------------------------------------------------------------------

    async def admit(
        self, namespace: str, pod: str, resource: str, count: int = 1, container: str = "main", *, init: int = 0
    ) -> pb.ContainerAllocateResponse:
        """Give a container its devices, in the order of the device manager; raises AioRpcError.

        `init`: what an ordinary init container of the pod gets before; the container uses these first.
        """
        again: tuple[str, ...] = ()
        if init:
            await self.admit(namespace, pod, resource, init, "init")
            self.untold.add((namespace, pod, "init"))
            again = self.holdings[namespace, pod, "init"][1][:count]
        free = sorted(self.healthy(resource) - self.held(resource))
        left = count - len(again)
        assert len(free) >= left, f"insufficient {resource}: {free}"
        more = ((await self.prefer(resource, free, (), left))[:left] or free[:left]) if left else []
        chosen = [*again, *more]
        answer = await self.allocate(resource, chosen)
        self.holdings[namespace, pod, container] = (resource, tuple(chosen))
        return answer

    async def prefer(self, resource: str, available: Any, must: Any, count: int) -> list[str]:
        """GetPreferredAllocation."""
        one = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=count
        )
        method = self.endpoints[resource].method("GetPreferredAllocation", pb.PreferredAllocationResponse)
        answer = await method(pb.PreferredAllocationRequest(container_requests=[one]), timeout=PATIENCE)
        return list(answer.container_responses[0].deviceIDs)

    async def allocate(self, resource: str, ids: Any) -> pb.ContainerAllocateResponse:
        """Allocate."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        method = self.endpoints[resource].method("Allocate", pb.AllocateResponse)
        answer = await method(request, timeout=PATIENCE)
        one: pb.ContainerAllocateResponse = answer.container_responses[0]
        return one

    def release(self, namespace: str, pod: str) -> None:
        """Forget what a pod had."""
        for key in [key for key in self.holdings if key[:2] == (namespace, pod)]:
            del self.holdings[key]
            self.untold.discard(key)
