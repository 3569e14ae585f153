"""Calls to kubelet: plugin registration and the pod-resources API; and the sockets of both.

Kubelet removes every socket of its plugin folder when it starts, its own included, and makes its own
anew. So both are known by their inodes, and a look at two files tells all that has to be known.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import structlog

from controllers.api import names
from controllers.runtime.errors import ConfigurationError
from nodeagent.deviceplugin.devices.records import DRA_DRIVER, UUID, UUIDS, ContainerHolding, Holdings
from nodeagent.deviceplugin.wire import API_VERSION, LIST, REGISTER
from nodeagent.deviceplugin.wire import deviceplugin_pb2 as pb
from nodeagent.deviceplugin.wire import podresources_pb2 as resources

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.get_logger()
KUBELET_SOCKET = "kubelet.sock"
CALL_SECONDS = 5.0
PROBE_SECONDS = 1.0
SOCKET_PATH_MAX = 107
"""Bytes of a socket's path that Linux takes."""
_MESSAGE_MAX = 16 * 1024 * 1024
_OPTIONS = (("grpc.max_receive_message_length", _MESSAGE_MAX), ("grpc.enable_http_proxy", 0))


class KubeletUnavailable(Exception):
    """Kubelet does not answer, or refuses; says why."""


class SocketTaken(ConfigurationError):
    """Another program serves on the pool's socket."""


@dataclass(frozen=True, slots=True)
class Sockets:
    """The files of one pool's plugin."""

    folder: Path
    pool: str
    suffix: str = ""
    """What stands after `gpu.deckhouse.io/` in the resource, where that is not the pool alone."""

    @property
    def own(self) -> Path:
        """The plugin's socket of the resource."""
        return self.folder / f"{self.suffix or self.pool}.sock"

    @property
    def kubelet(self) -> Path:
        """The socket at which plugins register."""
        return self.folder / KUBELET_SOCKET

    def claim(self) -> None:
        """Make sure that nobody serves on the pool's socket, and remove what a dead program left.

        Raises SocketTaken, and ConfigurationError where the path can be no socket's.
        """
        if len(str(passing_name(self.own))) > SOCKET_PATH_MAX:
            raise ConfigurationError(f"{self.own} is too long for a socket ({SOCKET_PATH_MAX} bytes); see --plugin-dir")
        if not self.own.is_socket():
            if self.own.exists():
                raise ConfigurationError(f"{self.own} is there and is no socket; remove it")
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(PROBE_SECONDS)
            try:
                probe.connect(str(self.own))
            except (FileNotFoundError, ConnectionRefusedError):
                log.info("removing a socket on which nobody serves", socket=str(self.own))
                self.own.unlink(missing_ok=True)
                return
            except OSError as error:  # it takes no more connections: then somebody is there
                raise self._taken() from error
        raise self._taken()

    def _taken(self) -> SocketTaken:
        text = (
            f"the socket of pool {self.pool}, {self.own}, is served by another program. Two plugins of one pool on one"
            " node would offer cards twice: end the other one; this one will be started again"
        )
        log.error("the socket is taken; nothing is offered", reason="SocketTaken", socket=str(self.own))
        return SocketTaken(text)


def passing_name(path: Path) -> Path:
    """Where a socket is made before it is moved to its place."""
    return path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")


def inode(path: Path) -> tuple[int, int] | None:
    """Which file stands there; None without one. A number is used again soon, so the time goes with it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


async def register(sockets: Sockets) -> None:
    """Tell kubelet of the pool's socket; raises KubeletUnavailable."""
    request = pb.RegisterRequest(
        version=API_VERSION,
        endpoint=sockets.own.name,
        resource_name=names.resource_name(sockets.suffix or sockets.pool),
        options=pb.DevicePluginOptions(get_preferred_allocation_available=True),
    )
    await _call(sockets.kubelet, REGISTER, request, pb.Empty)


async def holdings(path: Path) -> Holdings:
    """What the node's containers hold of cards, by whichever resource; raises KubeletUnavailable."""
    answer = await _call(path, LIST, resources.ListPodResourcesRequest(), resources.ListPodResourcesResponse)
    ours, foreign = [], []
    for pod in answer.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                name, ids = devices.resource_name, tuple(devices.device_ids)
                if name.startswith(names.PREFIX):
                    ours.append(ContainerHolding(pod.namespace, pod.name, container.name, ids, name))
                elif cards := tuple(id_ for id_ in ids if id_.startswith(UUIDS)):
                    foreign.append(ContainerHolding(pod.namespace, pod.name, container.name, cards, name))
            for driver, ids in _claimed(container).items():
                foreign.append(ContainerHolding(pod.namespace, pod.name, container.name, ids, driver))
    return Holdings(tuple(ours), tuple(foreign))


def _claimed(container: resources.ContainerResources) -> dict[str, tuple[str, ...]]:
    """Names of cards that ResourceClaims gave to a container, by DRA driver: what may be a card's, uuid or other."""
    found: dict[str, list[str]] = {}
    for claim in container.dynamic_resources:
        for each in claim.claim_resources:
            words = [each.device_name, *(device.name.partition("=")[2] for device in each.cdi_devices)]
            cards = [uuid for word in words for uuid in UUID.findall(word)]
            if each.driver_name == DRA_DRIVER and not cards:
                cards = [each.device_name]
            if cards:
                found.setdefault(each.driver_name, []).extend(cards)
    return {driver: tuple(dict.fromkeys(ids)) for driver, ids in found.items()}


async def _call(path: Path, method: str, request: Any, answer: Any) -> Any:
    """One call on a connection of its own: calls are seconds apart, and kubelet may be another by then."""
    async with grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS) as channel:
        call = channel.unary_unary(
            method,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        try:
            return await call(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise KubeletUnavailable(f"{path}: {error.code().name}: {error.details()}") from error
