"""Which card serves which container: kubelet's allocation, as PodResources tells it. Pure.

A running pod keeps what it has, whatever the lists say. A new one gets the cards that its
annotation names (our plugin prefers them), else the first that are free; where there are not
enough it gets what is there, and the rest as soon as there is more. What ordinary init containers
have beyond the others is kept for the pod and not told, as kubelet does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Final

from controllers.api import names as api
from controllers.api.gpudevice import Allocation
from controllers.domain.request import effective, lasting, whole
from controllers.domain.slots import named_devices

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Published
    from controllers.api.kube import Container, Pod

Held = Counter[tuple[str, str, str]]
"""Slots by card, pod uid and container."""
UNTOLD: Final = ""
"""In the place of a container's name: ordinary init containers, of which PodResources does not tell."""


def asks(pod: Pod) -> bool:
    """Whether a pod names a resource of ours."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(key.startswith(api.PREFIX) for c in containers for key in (*c.resources.requests, *c.resources.limits))


def demands(pod: Pod) -> dict[tuple[str, str], int]:
    """Slots by pool and container, of those that PodResources tells: containers and sidecars."""
    try:
        need = lasting(pod.spec)
    except ValueError:
        return {}
    sidecars = (container for container in pod.spec.init_containers if container.restart_policy == "Always")
    told = (*sidecars, *pod.spec.containers)
    return {(pool, c.name): slots for pool in need for c in told if (slots := _slots(c, pool))}


def untold(pod: Pod) -> dict[tuple[str, str], int]:
    """Slots by pool that ordinary init containers had beyond that: the pod keeps them, and nobody is told of it."""
    try:
        need, told = effective(pod.spec), lasting(pod.spec)
    except ValueError:
        return {}
    return {(pool, UNTOLD): total - told.get(pool, 0) for pool, total in need.items() if total > told.get(pool, 0)}


def _slots(container: Container, pool: str) -> int:
    key, resources = api.resource_name(pool), container.resources
    return whole(resources.limits.get(key, resources.requests.get(key, 0)))


def allocations(
    devices: Iterable[GPUDevice], pods: Iterable[Pod], wanted: Mapping[str, Published | None]
) -> dict[str, tuple[Allocation, ...]]:
    """What each GPUDevice's `allocations` are to be, by the object's name.

    `pods`: those bound to the node; `wanted`: what the plugins publish. Only a pod that runs
    gets cards.
    """
    cards = sorted(devices, key=lambda device: device.status.inventory_id or "")
    living = {pod.metadata.uid: pod for pod in pods if not pod.finished}
    held: Held = Counter()
    for card in cards:
        for taken in card.status.allocations:
            if taken.pod_uid in living:
                held[card.name, taken.pod_uid, taken.container] += taken.slots
    running = [pod for pod in living.values() if pod.status.phase == "Running"]
    running.sort(key=lambda pod: (pod.metadata.creation_timestamp, pod.key))
    for pod in running:
        if _is_served(pod, held):
            _serve(pod, untold(pod), cards, wanted, held)  # it has had them since it was served
    for pod in running:
        _serve(pod, demands(pod), cards, wanted, held)
        _serve(pod, untold(pod), cards, wanted, held)
    return {card.name: _told(card, held, living) for card in cards}


def _is_served(pod: Pod, held: Held) -> bool:
    """Whether kubelet has given a pod its cards before."""
    given = Counter[str]()
    for (_, owner, part), slots in held.items():
        if owner == pod.metadata.uid:
            given[part] += slots
    return all(given[container] >= slots for (_, container), slots in demands(pod).items())


def _serve(
    pod: Pod,
    asked: Mapping[tuple[str, str], int],
    cards: list[GPUDevice],
    wanted: Mapping[str, Published | None],
    held: Held,
) -> None:
    """Give a pod what it lacks of what is `asked`, by pool and container."""
    uid = pod.metadata.uid
    preferred = [c.name for name in named_devices(pod) for c in cards if c.status.inventory_id == name]
    for (pool, container), slots in asked.items():
        free = {c.name: p.slots for c in cards if (p := wanted.get(c.name)) is not None and p.pool == pool}
        for (card, _, _), n in held.items():
            free[card] = free.get(card, 0) - n
        lack = slots - sum(n for (_, owner, part), n in held.items() if (owner, part) == (uid, container))
        for card in islice(_picks(preferred, [c.name for c in cards], free), max(0, lack)):
            held[card, uid, container] += 1


def _picks(preferred: list[str], others: list[str], free: dict[str, int]) -> Iterator[str]:
    """Cards to take a slot of: one for each time that a card is named, then what is left of those, then others."""
    for card in chain(preferred, *(repeat(card, max(0, free.get(card, 0))) for card in (*preferred, *others))):
        if free.get(card, 0) > 0:
            free[card] -= 1
            yield card


def _told(card: GPUDevice, held: Held, living: Mapping[str, Pod]) -> tuple[Allocation, ...]:
    """The card's entries; those that were there keep their place, so that nothing is written anew."""
    before = [(taken.pod_uid, taken.container) for taken in card.status.allocations]
    now = [
        (uid, container)
        for (name, uid, container), slots in held.items()
        if name == card.name and slots and container != UNTOLD
    ]
    order = [pair for pair in dict.fromkeys(before) if pair in now] + sorted(set(now) - set(before))
    return tuple(
        Allocation(
            pod_uid=uid,
            namespace=living[uid].metadata.namespace or "",
            pod=living[uid].name,
            container=container,
            slots=held[card.name, uid, container],
        )
        for uid, container in order
    )


def labels(node: str) -> dict[str, str]:
    """What kubelet labels its node with when it registers; DaemonSets select by them."""
    return {api.LABEL_HOSTNAME: node, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
