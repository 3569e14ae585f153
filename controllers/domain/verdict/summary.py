"""The verdicts on a pool's cards in numbers, without building them. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.domain.verdict.card_reason import promised_here, reason_of, reason_of_free, reason_of_pod, refused_by
from controllers.domain.verdict.records import REASONS, FreeSlots, Summary

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping

    from controllers.domain.verdict.pool_cards import NodeCards
    from controllers.domain.verdict.records import Asked, CardReason


def summarize(
    nodes: Mapping[str, NodeCards], asked: Asked, now: float, fitting: Container[str] | None = None
) -> Summary:
    """The verdicts in numbers: as many as `card_verdicts` names.

    `fitting`: names of the nodes to which the pod can go by its constraints, where somebody has looked already.
    """
    cards: Counter[CardReason] = Counter()
    open_to: list[NodeCards] = []
    for place in nodes.values():
        own = promised_here(place, asked, now)
        fits = not refused_by(place, asked.constraints) if fitting is None else place.name in fitting
        if fits:
            open_to.append(place)
        of_free = reason_of_free(place, asked.units, own)
        if own:
            cards.update(reason_of(card, asked, refused=not fits, of_free=of_free, now=now) for card in place.cards)
            continue
        for reason, number in place.tally.items():
            cards[reason_of_pod(reason, of_free, refused=not fits)] += number
    return Summary(asked.units, free_slots(nodes.values(), open_to), in_order(cards))


def in_order(counted: Mapping[CardReason, int]) -> dict[CardReason, int]:
    """The same in the order of the reasons."""
    return {reason: counted[reason] for reason in REASONS if counted.get(reason)}


def free_slots(nodes: Collection[NodeCards], there: Collection[NodeCards]) -> FreeSlots:
    """What the nodes have left. `there`: those to which the pod can go."""
    return FreeSlots(
        total=sum(place.total for place in nodes),
        free=sum(place.left for place in there),
        most=max((place.left for place in there), default=0),
        kept=sum(place.free - place.left for place in there),
        most_with_kept=max((place.free for place in there), default=0),
        most_anywhere=max((place.left for place in nodes), default=0),
    )
