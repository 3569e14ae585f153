"""Which pods have a card, or are about to get it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.lifecycle import live
from controllers.domain.request import needs
from controllers.domain.slots import named_devices
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod


def holders(device: GPUDevice, pods: Iterable[Pod], told: Mapping[str, int], now: float) -> tuple[str, ...]:
    """Pods (namespace/name) that kubelet, a reservation or their own annotation says have the card, sorted.

    `pods`: those that are bound to the card's node, and those whose reservations it has. `told`: slots of which kubelet
    has told, by the pod's uid; what it told counts then, and not what the annotation wished.
    """
    known = {pod.key: pod for pod in pods}.values()
    placed = {pod.metadata.annotations.get(names.REQUEST_ID) for pod in known if pod.node or pod.finished}
    found = {f"{taken.namespace}/{taken.pod}" for taken in device.status.allocations}
    found |= {
        f"{promise.namespace}/{promise.pod}"
        for promise in device.status.reservations
        if live(promise, now) and promise.request_id not in placed
    }
    found |= {
        pod.key
        for pod in known
        if pod.node == device.status.node_name
        and not pod.finished
        and told.get(pod.metadata.uid, 0) < needs(pod)
        and device.status.inventory_id in named_devices(pod)
    }
    return tuple(sorted(found))


def counted(pods: tuple[str, ...]) -> str:
    """Pods in a sentence: `2 pods (team/a, team/b)`."""
    return f"{len(pods)} pod{'s' if len(pods) != 1 else ''} ({listed(pods)})"
