"""Which pod the exporter names on which card: as dcgm-exporter 4.x joins kubelet's PodResources to its samples. Pure.

It does so where its variable DCGM_EXPORTER_KUBERNETES is true and kubelet's socket is in its container, for devices of
nvidia.com/gpu and of what its variable NVIDIA_RESOURCE_NAMES lists, whole names. A device is a card by its uuid, also
where `::` and a number follow, as with slots of a card that pods share: of these the last that kubelet lists is named.
A MIG instance is not the card (dcgm-exporter, internal/pkg/transformation/kubernetes.go, toDeviceToPod).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from controllers.api import names as api
from sim.nodes import kubelet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod as AnyPod
    from sim.nodes.pods import Container, Pod

SOCKET_FOLDER: Final = "/var/lib/kubelet/pod-resources"
"""Of kubelet's socket, on the host and where the exporter looks for it."""


class User(NamedTuple):
    """A container that has a card."""

    namespace: str
    pod: str
    container: str


def mapped(exporter: Pod) -> frozenset[str]:
    """The resources whose pods an exporter names; none where it is not told to, or cannot ask kubelet."""
    for container in exporter.spec.containers[:1]:
        said = {variable.name: variable.value for variable in container.env}
        if said.get("DCGM_EXPORTER_KUBERNETES") == "true" and _reaches_kubelet(exporter, container):
            return frozenset(said.get("NVIDIA_RESOURCE_NAMES", "").split(",")) - {""}
    return frozenset()


def _reaches_kubelet(exporter: Pod, container: Container) -> bool:
    of_host = {volume.name: volume.host_path.path for volume in exporter.spec.volumes if volume.host_path}
    return any(m.mount_path == SOCKET_FOLDER == of_host.get(m.name) for m in container.volume_mounts)


def users(devices: Iterable[GPUDevice], pods: Mapping[str, AnyPod], resources: frozenset[str]) -> dict[str, User]:
    """Who is named on each card, by its address. `pods`: those that ask for cards on the node, by uid."""
    found: dict[str, User] = {}
    for device in devices:
        hardware = device.status.hardware
        if hardware is None or (hardware.mig is not None and hardware.mig.enabled):
            continue
        for taken in device.status.allocations:
            pod = pods.get(taken.pod_uid)
            asked = {suffix for suffix, name in kubelet.demands(pod) if name == taken.container} if pod else set()
            if resources & {api.resource_name(suffix) for suffix in asked}:
                found[hardware.pci.address] = User(taken.namespace, taken.pod, taken.container)
    return found
