"""All cards and nodes of a pool for one pod, out of a pool's objects. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.named_devices import named_devices
from controllers.domain.node_fit import PodConstraints
from controllers.domain.queue.supply import node_slots
from controllers.domain.request import asked_of, suffix_for
from controllers.domain.verdict.card_reason import refused_by
from controllers.domain.verdict.cards import card_verdicts
from controllers.domain.verdict.pool_cards import CardState, NodeCards, pool_cards
from controllers.domain.verdict.records import Asked, PodVerdict
from controllers.domain.verdict.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpupool import Toleration
    from controllers.api.kube import Pod
    from controllers.api.tenant import TenantPod
    from controllers.domain.queue.supply import PoolObjects
    from controllers.domain.slots import NodeSlots
    from controllers.domain.verdict.records import NodeVerdict, ReservedForOthers


def asked_by(pod: TenantPod, pool: str, tolerated: tuple[Toleration, ...]) -> Asked:
    """What a stored pod asks of a pool. `tolerated`: what the pool's pods tolerate; it gets that with its cards."""
    request = pod.metadata.annotations.get(names.REQUEST_ID, "")
    wanted = asked_of(pod, pool)
    return Asked(wanted.units, PodConstraints.of(pod.spec, tolerated), request, wanted.profile)


def cards_of(
    seen: PoolObjects,
    kept: Mapping[str, ReservedForOthers],
    now: float,
    slots: Mapping[str, NodeSlots] | None = None,
    profile: str | None = None,
) -> dict[str, NodeCards]:
    """A pool's cards by node. `slots`: the nodes on which something may be free, where they are counted already.

    `profile`: what the cards have of this one alone, in a mixed layout.
    """
    counted = node_slots(seen, now, profile) if slots is None else slots
    return pool_cards(
        seen.pool.name, seen.members, seen.nodes, counted, tolerated=seen.tolerated, kept=kept, profile=profile
    )


def pod_verdict(
    seen: PoolObjects,
    cards: Mapping[str, NodeCards],
    asked: Asked,
    *,
    nodes: Iterable[NodeVerdict] = (),
    since: Mapping[str, str],
    now: float,
) -> PodVerdict:
    """The verdict. `nodes`: what the scheduler says of the nodes; `since`: since when pods run, by key, RFC 3339."""
    holders = (
        _holders(seen.bound) if any(_is_unreported(card) for place in cards.values() for card in place.cards) else {}
    )
    refused = {name: refused_by(place, asked.constraints) for name, place in cards.items()}
    found = card_verdicts(cards, asked, holders, since, now, refused=refused)
    summary = summarize(cards, asked, now, {name for name, why in refused.items() if not why})
    resource = names.resource_name(suffix_for(seen.pool.name, asked.profile))
    return PodVerdict(seen.pool.name, resource, asked.units, tuple(nodes), found, summary)


def _is_unreported(card: CardState) -> bool:
    """Whether somebody has the card of whom kubelet has yet to tell."""
    status = card.device.status
    return card.verdict == "InUse" and not (status.allocations or status.foreign_allocations)


def _holders(bound: Iterable[Pod]) -> dict[str, Pod]:
    """Pods that hold cards, by the inventoryIDs that were written on them."""
    return {device: pod for pod in bound if not pod.finished for device in named_devices(pod)}
