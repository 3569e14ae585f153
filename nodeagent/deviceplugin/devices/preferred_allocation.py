"""GetPreferredAllocation: the device ids that kubelet should choose for a container. Pure.

Kubelet does not say for which pod it asks. So the claims are tried in order: of pods that are bound to
this node and hold nothing yet, the oldest first, then of reservations whose pod has not been seen here,
the oldest first; the first claim to as many slots as are asked for, all of them free, is taken to be
the one. What is left is chosen near to what is chosen (NVLink, then NUMA), and away from what others claim.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names as api
from controllers.domain.request import whole
from controllers.domain.slots import named_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Container, Pod
    from nodeagent.deviceplugin.devices.records import ContainerHolding, Listed


@dataclass(frozen=True, slots=True)
class Claim:
    """Cards that are meant for one pod, by name: one for each slot."""

    cards: tuple[str, ...]
    sizes: frozenset[int]
    """How many slots its containers ask for, each."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a card is."""

    numa: int | None = None
    peers: frozenset[str] = frozenset()
    """Names of the cards to which it has an NVLink."""


def preferred(
    available: Iterable[str],
    must: Iterable[str],
    size: int,
    listed: Mapping[str, Listed],
    *,
    claims: Sequence[Claim] = (),
    places: Mapping[str, Place] | None = None,
) -> tuple[str, ...]:
    """So many of the available ids, those of `must` first; fewer only where there are not so many."""
    chosen = list(dict.fromkeys(must))[: max(0, size)]
    free: dict[str, list[str]] = {}
    for id_ in sorted(set(available) - set(chosen)):
        free.setdefault(_card(id_, listed), []).append(id_)
    mine = _claim(claims, size, free, [_card(id_, listed) for id_ in chosen])
    for card in mine.cards if mine is not None else ():
        if len(chosen) < size and free.get(card):
            chosen.append(free[card].pop(0))
    others = Counter(card for claim in claims if claim is not mine for card in claim.cards)
    return (*chosen, *_near(size - len(chosen), free, [_card(id_, listed) for id_ in chosen], others, places or {}))


def _card(id_: str, listed: Mapping[str, Listed]) -> str:
    return listed[id_].card if id_ in listed else id_


def _claim(claims: Sequence[Claim], size: int, free: Mapping[str, list[str]], chosen: list[str]) -> Claim | None:
    """The first claim of that size which can still be met."""
    for claim in claims:
        missing = Counter(claim.cards) - Counter(chosen)
        met = all(len(free.get(card, ())) >= count for card, count in missing.items())
        if size in claim.sizes and (met or len(claim.cards) > size):
            return claim
    return None


def _near(
    count: int, free: dict[str, list[str]], chosen: list[str], others: Counter[str], places: Mapping[str, Place]
) -> Iterator[str]:
    """Ids one by one, each near to those before; the first decides, so that each kind of first is tried."""
    best: list[str] | None = None
    if count <= 0 or not free:
        return
    kinds: dict[object, str] = {}
    for card in sorted(free, key=lambda c: (others[c], -len(free[c]), c)):
        place = places.get(card, Place())
        kinds.setdefault((others[card], place.numa, place.peers), card)
    for seed in kinds.values() if not chosen else [None]:
        left = Counter({card: len(ids) for card, ids in free.items()})
        tried = _grow(count, left, chosen, seed=seed, others=others, places=places)
        if best is None or _cost(tried, others, places) < _cost(best, others, places):
            best = tried
    for card in best or ():
        yield free[card].pop(0)


def _grow(
    count: int,
    left: Counter[str],
    chosen: list[str],
    *,
    seed: str | None,
    others: Counter[str],
    places: Mapping[str, Place],
) -> list[str]:
    """Cards to take a slot of, one for each; greedy."""
    taken: list[str] = []
    while len(taken) < count and (open_ := [card for card, slots in left.items() if slots > 0]):
        around = [*chosen, *taken]

        def rank(card: str, around: list[str] = around) -> tuple[int, int, int, int, str]:
            place = places.get(card, Place())
            links = sum(other in place.peers for other in set(around))
            far = sum(places.get(other, Place()).numa != place.numa for other in around)
            return (max(0, others[card] - left[card] + 1), -links, far, -left[card], card)

        next_ = seed if seed is not None and not taken else min(open_, key=rank)
        left[next_] -= 1
        taken.append(next_)
    return taken


def _cost(cards: list[str], others: Counter[str], places: Mapping[str, Place]) -> tuple[int, int, int]:
    """What is bad about a choice: claimed by others, spread over NUMA nodes, without links; the less the better."""
    known = [places.get(card, Place()) for card in cards]
    links = sum(card in place.peers for place in known for card in set(cards))
    return sum(min(others[card], 1) for card in cards), len({place.numa for place in known}), -links


def claims(
    pool: str, cards: Iterable[GPUDevice], pods: Iterable[Pod], held: Iterable[ContainerHolding]
) -> tuple[Claim, ...]:
    """Who waits for cards of the pool on this node, in the order in which they are believed to be served.

    `pods`: those bound to the node; `held`: what kubelet has given out.
    """
    cards = [card for card in cards if card.status.published is not None and card.status.published.pool == pool]
    by_id = {card.status.inventory_id or "": card.name for card in cards}
    served = {(entry.namespace, entry.pod, entry.container) for entry in held}
    found = [
        Claim(tuple(by_id[name] for name in named_devices(pod) if name in by_id), sizes)
        for pod in sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
        if not pod.finished and (sizes := _sizes(pod, api.resource_name(pool), served))
    ]
    promised: dict[tuple[bool, str, str], list[str]] = {}
    for card in cards:
        for entry in card.status.reservations:
            promised.setdefault((not entry.seen, entry.since, entry.request_id), []).extend([card.name] * entry.slots)
    found += [Claim(tuple(names), frozenset({len(names)})) for _, names in sorted(promised.items())]
    return tuple(claim for claim in found if claim.cards)


def _sizes(pod: Pod, resource: str, served: set[tuple[str, str, str]]) -> frozenset[int]:
    """What the pod's containers that hold nothing yet ask for.

    Kubelet gives to all containers of a pod at once, and never tells what ordinary init containers got. So those wait
    only until one of the pod's containers holds something, or the pod runs.
    """
    spec, name = pod.spec, (pod.metadata.namespace or "", pod.name)
    containers = (*spec.init_containers, *spec.containers)
    waiting = [container for container in containers if (*name, container.name) not in served]
    if len(waiting) < len(containers) or pod.status.phase == "Running":
        untold = {container.name for container in spec.init_containers if container.restart_policy != "Always"}
        waiting = [container for container in waiting if container.name not in untold]
    return frozenset(slots for container in waiting if (slots := _asked(container, resource)))


def _asked(container: Container, resource: str) -> int:
    resources = container.resources
    try:
        return whole(resources.limits.get(resource, resources.requests.get(resource, 0)))
    except ValueError:
        return 0


def locate_cards(cards: Iterable[GPUDevice]) -> dict[str, Place]:
    """Where the cards are, by name."""
    known = {c.status.hardware.pci.address: c for c in cards if c.status.hardware is not None}
    found = {}
    for card in known.values():
        hardware = card.status.hardware
        peers = hardware.nvlink.peers if hardware is not None and hardware.nvlink is not None else ()
        linked = frozenset(known[address].name for address in peers if address in known)
        found[card.name] = Place(hardware.numa_node if hardware is not None else None, linked)
    return found
