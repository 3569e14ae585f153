"""Allocate: the device nodes, CDI names and environment of a container for the ids that kubelet chose. Pure.

By CDI the runtime is told names and does the rest. Without it the container gets the driver's device
nodes, and the environment that NVIDIA's runtime and its prestart hook read; where neither serves the
pod, the card can be used as far as the image brings the driver's libraries.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from nodeagent.host.mpsfiles import PIPE, ROOT, SHM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodeagent.deviceplugin.devices.records import Listed, NodeScan

AUTO, CDI, DEVICE_SPECS = "auto", "cdi", "device-specs"
STRATEGIES: Final = (AUTO, CDI, DEVICE_SPECS)
KIND = "nvidia.com/gpu"
SHARED_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
CAPABILITIES: Final = "nvidia-caps"


class Refused(Exception):
    """Kubelet asks for what cannot be given; the text says why."""


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """What one container gets."""

    environment: dict[str, str]
    nodes: tuple[str, ...] = ()
    """Paths of device nodes, on the host and in the container alike."""
    cdi: tuple[str, ...] = ()
    """CDI names."""
    mounts: tuple[tuple[str, str], ...] = ()
    """Folders of the host, each with its place in the container."""


SHARES_NOTHING: Final = ContainerDevices({})


@dataclass(frozen=True, slots=True)
class AllocationContext:
    """On what the answer stands."""

    pool: str
    listed: Mapping[str, Listed] = field(default_factory=dict)
    """By id: all that may be given now."""


def container_devices(
    ids: Iterable[str], context: AllocationContext, seen: NodeScan, strategy: str
) -> ContainerDevices:
    """What a container with those ids gets; raises Refused."""
    devices = [_known(id_, context) for id_ in ids]
    uuids = list(dict.fromkeys(device.uuid for device in devices))
    shared = _shared(context, uuids) if any(device.daemon for device in devices) else SHARES_NOTHING
    by_cdi = tuple(f"{KIND}={uuid}" for uuid in uuids)
    if strategy == CDI or (strategy == AUTO and seen.runtime_cdi and set(by_cdi) <= seen.cdi):
        return replace(shared, environment={names.VISIBLE_DEVICES: names.NO_DEVICES} | shared.environment, cdi=by_cdi)
    environment = {names.VISIBLE_DEVICES: ",".join(uuids)} | shared.environment
    return replace(shared, environment=environment, nodes=_nodes(devices, seen))


def _shared(context: AllocationContext, uuids: list[str]) -> ContainerDevices:
    """What makes a container a client of its card's MPS control daemon; raises Refused.

    A process is a client of one daemon, and each card has its own. The daemon's log tells of other pods: it stays out.
    """
    if len(uuids) > 1:
        raise Refused(
            f"a container gets clients of one card, and kubelet gave it clients of {len(uuids)} cards of pool"
            f" {context.pool}. Ask for one {names.resource_name(context.pool)} in each container"
        )
    folder = f"{ROOT}/{context.pool}"
    pipe = f"{ROOT}/{PIPE}"
    return ContainerDevices(
        {"CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_LOG_DIRECTORY": "/tmp"},  # noqa: S108 - of the container
        mounts=((f"{folder}/{uuids[0]}/{PIPE}", pipe), (f"{folder}/{SHM}", "/dev/shm")),  # noqa: S108
    )


def _known(id_: str, context: AllocationContext) -> Listed:
    device = context.listed.get(id_)
    if device is None:
        raise Refused(
            f"pool {context.pool} does not offer device {id_} on this node (any more): it was withdrawn or is unknown."
            " The pod can be created again, and gets another card"
        )
    if not device.healthy:
        raise Refused(f"card {device.card} of pool {context.pool} is not healthy; see its conditions: kubectl describe")
    return device


def _nodes(devices: list[Listed], seen: NodeScan) -> tuple[str, ...]:
    """The device nodes that are there: those of the cards, of their instances, and those that every user needs."""
    wanted: list[str] = []
    for device in devices:
        minor = seen.minors.get(device.address)
        if minor is not None:
            wanted.append(f"nvidia{minor}")
        if device.instance is not None:
            wanted += [f"{CAPABILITIES}/nvidia-cap{number}" for number in seen.access.get(device.uuid, ())]
    return tuple(f"/dev/{name}" for name in dict.fromkeys((*wanted, *SHARED_NODES)) if name in seen.nodes)
