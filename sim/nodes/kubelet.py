"""Which card serves which container, and what of that a node has left: kubelet's part of allocation. Pure.

Kubelet knows the devices that the plugins list. A running pod keeps what it has, whatever the lists say. A new one gets
what our plugin prefers of those that are free; where there are not enough it gets what is there, and the rest as soon
as there is more. What ordinary init containers have beyond the others is kept for the pod and not told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from controllers.api import names as api
from controllers.domain import near
from controllers.domain.named_devices import named_devices
from controllers.domain.request import effective, lasting, profile_of, suffixes_of, whole
from nodeagent.deviceplugin.devices import offers, preferred_allocation
from nodeagent.deviceplugin.devices.records import SEPARATOR, ContainerHolding

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Container, Pod
    from nodeagent.deviceplugin.devices.records import Listed

Given = Counter[tuple[str, str, str, str]]
"""Slots by card, pod uid, container and suffix."""
Lists = Mapping[str, Sequence["Listed"]]
"""What the plugins list, by what stands after `gpu.deckhouse.io/` in the resource (`suffix`)."""
UNTOLD: Final = ""
"""In the place of a container's name: ordinary init containers, of which PodResources does not tell."""


def asks(pod: Pod) -> bool:
    """Whether a pod names a resource of ours."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(key.startswith(api.PREFIX) for c in containers for key in (*c.resources.requests, *c.resources.limits))


def demands(pod: Pod) -> dict[tuple[str, str], int]:
    """Slots by suffix and container, of those that PodResources tells: containers and sidecars."""
    try:
        need = lasting(pod.spec)
    except ValueError:
        return {}
    sidecars = (container for container in pod.spec.init_containers if container.restart_policy == "Always")
    told = (*sidecars, *pod.spec.containers)
    return {(suffix, c.name): slots for suffix in need for c in told if (slots := _slots(c, suffix))}


def untold(pod: Pod) -> dict[tuple[str, str], int]:
    """Slots by suffix that ordinary init containers had beyond that: the pod keeps them, and nobody is told of it."""
    try:
        need, told = effective(pod.spec), lasting(pod.spec)
    except ValueError:
        return {}
    return {(each, UNTOLD): total - told.get(each, 0) for each, total in need.items() if total > told.get(each, 0)}


def _slots(container: Container, suffix: str) -> int:
    key, resources = api.resource_name(suffix), container.resources
    return whole(resources.limits.get(key, resources.requests.get(key, 0)))


def holdings(devices: Iterable[GPUDevice], pods: Iterable[Pod], lists: Lists) -> tuple[ContainerHolding, ...]:
    """What the node's containers hold by our resources, as PodResources tells it.

    `pods`: those bound to the node. Only a pod that runs gets cards. What containers hold already stands in the cards'
    `allocations`: there it was told, and kubelet's own memory is nowhere here.
    """
    cards = sorted(devices, key=lambda device: device.status.inventory_id or "")
    living = {pod.metadata.uid: pod for pod in pods if not pod.finished}
    given: Given = Counter()
    for card in cards:
        for taken in card.status.allocations:
            if taken.pod_uid in living:
                suffix = _suffix_of(living[taken.pod_uid], taken.profile)
                given[card.name, taken.pod_uid, taken.container, suffix] += taken.slots
    running = [pod for pod in living.values() if pod.status.phase == "Running"]
    running.sort(key=lambda pod: (pod.metadata.creation_timestamp, pod.key))
    node = _Node(cards, living, lists, given)
    for pod in running:
        if _is_served(pod, given):
            node.serve(pod, untold(pod))  # it has had them since it was served
    for pod in running:
        node.serve(pod, demands(pod))
        node.serve(pod, untold(pod))
    return node.held()


def _suffix_of(pod: Pod, profile: str | None) -> str:
    """By which of the resources that it asks for a pod has slots of a profile."""
    return min((suffix for suffix in suffixes_of(pod) if profile_of(suffix) == profile), default="")


def _is_served(pod: Pod, given: Given) -> bool:
    """Whether kubelet has given a pod its cards before."""
    has = Counter[str]()
    for (_, owner, part, _suffix), slots in given.items():
        if owner == pod.metadata.uid:
            has[part] += slots
    return all(has[container] >= slots for (_, container), slots in demands(pod).items())


class _Node:
    """The cards of a node while kubelet gives them out."""

    def __init__(self, cards: list[GPUDevice], pods: Mapping[str, Pod], lists: Lists, given: Given) -> None:
        self._cards, self._pods, self._lists, self._given = cards, pods, lists, given

    def serve(self, pod: Pod, asked: Mapping[tuple[str, str], int]) -> None:
        """Give a pod what it lacks of what is `asked`, by suffix and container."""
        uid = pod.metadata.uid
        for (suffix, container), slots in asked.items():
            has = sum(n for (_, owner, part, _), n in self._given.items() if (owner, part) == (uid, container))
            listed = {device.id: device for device in self._lists.get(suffix, ())} if has < slots else {}
            if not listed:
                continue
            claims = self._own(pod) if container == UNTOLD else self._claims(suffix)
            places, free = near.locations(self._cards), tuple(self._free(suffix, listed.values()))
            for id_ in preferred_allocation.preferred(free, (), slots - has, listed, claims=claims, places=places):
                self._given[listed[id_].card, uid, container, suffix] += 1

    def _claims(self, suffix: str) -> tuple[preferred_allocation.Claim, ...]:
        """Whom the plugin expects, since kubelet does not say for which pod it asks."""
        return preferred_allocation.claims(suffix, self._cards, self._pods.values(), self.held())

    def _own(self, pod: Pod) -> tuple[preferred_allocation.Claim, ...]:
        """The cards that are the pod's own: what its init containers were given of them is remembered nowhere."""
        by_id = {card.status.inventory_id: card.name for card in self._cards}
        cards = tuple(by_id[name] for name in named_devices(pod) if name in by_id)
        return (preferred_allocation.Claim(cards, frozenset(range(1, len(cards) + 1))),)

    def _free(self, suffix: str, listed: Iterable[Listed]) -> Iterator[str]:
        """Ids of what is well and given to nobody: of a card as many less as containers have of it by that resource."""
        taken = Counter[str]()
        for (card, _, _, kind), slots in self._given.items():
            taken[card] += slots if kind == suffix else 0
        for device in listed:
            if taken[device.card] > 0:
                taken[device.card] -= 1
            elif device.healthy:
                yield device.id

    def held(self) -> tuple[ContainerHolding, ...]:
        """What is told of it; which of a card's slots they are is all one."""
        uuids = {card.name: offers.uuid(card) for card in self._cards}
        return tuple(
            ContainerHolding(
                self._pods[uid].metadata.namespace or "",
                self._pods[uid].name,
                container,
                tuple(f"{uuids[card]}{SEPARATOR}{number}" for number in range(slots)),
                api.resource_name(suffix),
            )
            for (card, uid, container, suffix), slots in self._given.items()
            if slots and container != UNTOLD
        )


def allocatable(lists: Lists) -> dict[str, int]:
    """The extended resources of a node with these lists: what is well in them."""
    return {api.resource_name(suffix): sum(device.healthy for device in listed) for suffix, listed in lists.items()}


def resources_patch(present: Mapping[str, str], wanted: Mapping[str, int]) -> dict[str, str | None]:
    """The change from a node's allocatable to what it is to be; None removes a key. Foreign keys stay."""
    ours = {key for key in present if key.startswith(api.PREFIX)}
    gone: dict[str, str | None] = dict.fromkeys(sorted(ours - set(wanted)))
    return gone | {key: str(count) for key, count in wanted.items() if _count(present.get(key)) != count}


def _count(quantity: str | None) -> int:
    """A quantity as kubelet wrote it (1000 is `1k`); -1 where there is none, or none that can be read."""
    try:
        return -1 if quantity is None else whole(quantity)
    except ValueError:
        return -1


def labels(node: str) -> dict[str, str]:
    """What kubelet labels its node with when it registers; DaemonSets select by them."""
    return {api.LABEL_HOSTNAME: node, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
