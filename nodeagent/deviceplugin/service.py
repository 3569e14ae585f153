"""The DevicePlugin gRPC service on the pool's socket: ListAndWatch, Allocate, GetPreferredAllocation.

Runs on the process's event loop. `show` puts a new list out and returns when every stream that kubelet
holds open has taken it; Allocate and GetPreferredAllocation answer from the list that was shown last,
without waiting for anything, so what has been taken off it can no longer be given.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import structlog

from nodeagent.deviceplugin import metrics
from nodeagent.deviceplugin.devices.allocate import ContainerDevices, Refused
from nodeagent.deviceplugin.kubelet import inode, passing_name
from nodeagent.deviceplugin.wire import HEALTHY, PLUGIN_SERVICE, UNHEALTHY
from nodeagent.deviceplugin.wire import deviceplugin_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nodeagent.deviceplugin.devices.records import Listed

log = structlog.get_logger()
FLUSH_SECONDS = 2.0
STOP_SECONDS = 0.5
_OPTIONS = (("grpc.so_reuseport", 0),)


class Service:
    """One socket, one resource."""

    def __init__(
        self,
        prefer: Callable[[Sequence[str], Sequence[str], int], Sequence[str]],
        devices_for: Callable[[Sequence[str]], ContainerDevices],
        after_allocate: Callable[[], None],
    ) -> None:
        """Prepare; nothing is served yet.

        `prefer(available, must, size)` chooses devices; `devices_for(ids)` raises Refused for ids that are not to be
        allocated; `after_allocate` is called after each answer.
        """
        self._prefer, self._devices_for, self._after_allocate = prefer, devices_for, after_allocate
        self._server: grpc.aio.Server | None = None
        self.listing: tuple[Listed, ...] = ()
        self._version = 0
        self._sent: dict[int, int] = {}
        self._changed = asyncio.Condition()
        self._started = 0
        self._place: tuple[tuple[int, int] | None, Path] = (None, Path())

    @property
    def streams(self) -> int:
        """How many streams kubelet holds open."""
        return len(self._sent)

    @property
    def placed(self) -> bool:
        """Whether the socket is where it was put."""
        own, path = self._place
        return own is not None and inode(path) == own

    async def start(self, path: Path) -> None:
        """Serve on a socket that nobody else serves on.

        The library removes what stands at the path it is given, when it begins and when it ends, whosever that
        is. So it gets a path of its own, and the socket that listens is moved to where kubelet looks for it.
        """
        self._server = grpc.aio.server(options=_OPTIONS)
        methods = {
            "GetDevicePluginOptions": _unary(self._options, pb.Empty),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list, request_deserializer=pb.Empty.FromString, response_serializer=_bytes
            ),
            "GetPreferredAllocation": _unary(self._preferred, pb.PreferredAllocationRequest),
            "Allocate": _unary(self._allocate, pb.AllocateRequest),
            "PreStartContainer": _unary(self._pre_start, pb.PreStartContainerRequest),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PLUGIN_SERVICE, methods),))
        passing = passing_name(path)
        self._server.add_insecure_port(f"unix:{passing}")
        await self._server.start()
        self._place = inode(passing), path
        passing.rename(path)

    async def stop(self) -> None:
        """Remove the socket, if it is ours still, and close it; kubelet then takes the devices for unhealthy."""
        server, self._server = self._server, None
        if server is not None:
            if self.placed:
                self._place[1].unlink(missing_ok=True)
            await server.stop(STOP_SECONDS)
        self._sent.clear()

    async def show(self, listing: tuple[Listed, ...]) -> None:
        """Tell kubelet; returns when it has been told, or does not listen."""
        if listing == self.listing:
            return
        self.listing = listing
        healthy = sum(device.healthy for device in listing)
        log.info("the list for kubelet", devices=len(listing), healthy=healthy)
        async with self._changed:
            self._version += 1
            version = self._version
            self._changed.notify_all()
            with suppress(TimeoutError):  # one that takes nothing any more: Allocate refuses what it has in mind
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._changed.wait_for(lambda: all(sent >= version for sent in self._sent.values()))

    async def _list(self, _: pb.Empty, context: Any) -> None:
        self._started += 1
        number = self._started
        self._sent[number] = -1
        metrics.STREAMS.inc()
        log.info("kubelet listens", stream=number)
        try:
            while True:
                version = self._version
                await context.write(_response(self.listing))
                async with self._changed:
                    self._sent[number] = version
                    self._changed.notify_all()
                    await self._changed.wait_for(lambda: self._version > version)  # noqa: B023 - awaited at once
        finally:
            self._sent.pop(number, None)
            metrics.STREAMS.dec()
            log.info("kubelet has stopped listening", stream=number)

    async def _options(self, _: pb.Empty, __: Any) -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions(get_preferred_allocation_available=True)

    async def _preferred(self, request: pb.PreferredAllocationRequest, _: Any) -> pb.PreferredAllocationResponse:
        metrics.PREFERENCES.inc()
        chosen = [
            self._prefer(r.available_deviceIDs, r.must_include_deviceIDs, r.allocation_size)
            for r in request.container_requests
        ]
        answers = [pb.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in chosen]
        return pb.PreferredAllocationResponse(container_responses=answers)

    async def _allocate(self, request: pb.AllocateRequest, context: Any) -> pb.AllocateResponse:
        started = time.perf_counter()
        try:
            answers = [_container(self._devices_for(r.devices_ids)) for r in request.container_requests]
        except Refused as refusal:
            metrics.ALLOCATIONS.labels("refused").inc()
            log.warning("refused to kubelet", why=str(refusal))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
        metrics.ALLOCATIONS.labels("given").inc(len(answers))
        for asked in request.container_requests:
            log.info("given to a container", ids=list(asked.devices_ids))
        self._after_allocate()
        metrics.ALLOCATE_SECONDS.observe(time.perf_counter() - started)
        return pb.AllocateResponse(container_responses=answers)

    async def _pre_start(self, _: pb.PreStartContainerRequest, __: Any) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()


def _unary(method: Any, request: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        method, request_deserializer=request.FromString, response_serializer=_bytes
    )


def _bytes(message: Any) -> bytes:
    made: bytes = message.SerializeToString()
    return made


def _response(listing: tuple[Listed, ...]) -> pb.ListAndWatchResponse:
    return pb.ListAndWatchResponse(
        devices=[
            pb.Device(
                ID=device.id,
                health=HEALTHY if device.healthy else UNHEALTHY,
                topology=None if device.numa is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=device.numa)]),
            )
            for device in listing
        ]
    )


def _container(given: ContainerDevices) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=given.environment,
        devices=[pb.DeviceSpec(container_path=path, host_path=path, permissions="rw") for path in given.nodes],
        mounts=[pb.Mount(host_path=path, container_path=place) for path, place in given.mounts],
        cdi_devices=[pb.CDIDevice(name=name) for name in given.cdi],
    )
