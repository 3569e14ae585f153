"""GetPreferredAllocation: the device ids that kubelet should choose for a container. Pure.

Kubelet does not say for which pod it asks. So the claims are tried in order: of pods that are bound to
this node and hold nothing yet, the oldest first, then of reservations whose pod has not been seen here,
the oldest first; the first claim to as many slots as are asked for, all of them free, is taken to be
the one. What is left is chosen by the module's rule of nearness, and away from what others claim.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names as api
from controllers.domain.named_devices import named_devices
from controllers.domain.near import CardLocation, CardOption, nearest
from controllers.domain.request import pool_of, profile_of, whole
from controllers.domain.slots import is_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Container, Pod
    from nodeagent.deviceplugin.devices.records import ContainerHolding, Listed


@dataclass(frozen=True, slots=True)
class Claim:
    """Cards that are meant for one pod, by name: one for each slot."""

    cards: tuple[str, ...]
    sizes: frozenset[int]
    """How many slots its containers ask for, each."""


def preferred(
    available: Iterable[str],
    must: Iterable[str],
    size: int,
    listed: Mapping[str, Listed],
    *,
    claims: Sequence[Claim] = (),
    places: Mapping[str, CardLocation] | None = None,
) -> tuple[str, ...]:
    """So many of the available ids, those of `must` first; fewer only where there are not so many.

    `places`: where the cards are (`domain.near`), by name.
    """
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
    count: int,
    free: Mapping[str, list[str]],
    chosen: Sequence[str],
    others: Counter[str],
    places: Mapping[str, CardLocation],
) -> list[str]:
    """Ids, near to what is chosen and to each other; those that others claim only where the rest does not suffice."""
    left = {card: list(ids) for card, ids in free.items()}
    around = [_place(card, places) for card in chosen]
    picked: list[str] = []
    for claimed in (False, True):
        options = _options(free, others, places, claimed=claimed)
        slots = [(option.location, option.free) for option in options]
        for option in nearest(options, slots, count - len(picked), around) if len(picked) < count else ():
            ids = left[option.card]
            number = max(0, min(option.free, count - len(picked)))
            picked += ids[:number]
            around += [option.location] * number
            del ids[:number]
    return picked


def _options(
    free: Mapping[str, list[str]], others: Counter[str], places: Mapping[str, CardLocation], *, claimed: bool
) -> list[CardOption]:
    """Cards with ids that others claim, or with such that nobody does; those with the most free ids first."""
    found = []
    for at, card in enumerate(sorted(free, key=lambda card: (-len(free[card]), card))):
        unclaimed = max(0, len(free[card]) - others[card])
        if slots := len(free[card]) - unclaimed if claimed else unclaimed:
            found.append(CardOption(card, slots, (-slots, at), _place(card, places)))
    return found


def _place(card: str, places: Mapping[str, CardLocation]) -> CardLocation:
    """Where a card is; one of which nothing is known is near to none."""
    return places.get(card, CardLocation.unknown(card))


def claims(
    suffix: str, cards: Iterable[GPUDevice], pods: Iterable[Pod], held: Iterable[ContainerHolding]
) -> tuple[Claim, ...]:
    """Who waits for cards of a resource on this node, in the order in which they are believed to be served.

    `suffix`: what stands after `gpu.deckhouse.io/` in it; `pods`: those bound to the node; `held`: what kubelet has
    given out.
    """
    pool, profile = pool_of(suffix), profile_of(suffix)
    cards = [card for card in cards if card.status.published is not None and card.status.published.pool == pool]
    by_id = {card.status.inventory_id or "": card.name for card in cards}
    served = {(entry.namespace, entry.pod, entry.container) for entry in held}
    found = [
        Claim(tuple(by_id[name] for name in named_devices(pod) if name in by_id), sizes)
        for pod in sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
        if not pod.finished and (sizes := _sizes(pod, api.resource_name(suffix), served))
    ]
    promised: dict[tuple[bool, str, str], list[str]] = {}
    for card in cards:
        for entry in card.status.reservations:
            if not is_of(profile, entry.profile):
                continue
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
