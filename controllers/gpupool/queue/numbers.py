"""What a walk over a queue found of its pool, for the conditions of pods that wait. Pure.

It is counted only when a condition is written: a queue of thousands is walked several times a second, and its pods
are told once. No card, node or pod has its name in it: whoever may read a pod is not whoever may read the others.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from controllers.domain.verdict.pod import cards_of
from controllers.domain.verdict.records import Asked, Kept
from controllers.domain.verdict.shortage import counted, spelled
from controllers.domain.verdict.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.domain.node_fit import PodConstraints
    from controllers.domain.queue.entry import Entry, Member
    from controllers.domain.queue.serve import Walk
    from controllers.domain.slots import NodeSlots
    from controllers.domain.verdict.pool_cards import NodeCards
    from controllers.domain.verdict.records import Summary
    from controllers.gpupool.queue.records import ObservedQueue


class QueueNumbers:
    """A pool as one walk found and left it."""

    def __init__(
        self,
        view: ObservedQueue,
        slots: Mapping[str, NodeSlots],
        walk: Walk,
        now: float,
        profile: str | None = None,
    ) -> None:
        """`slots`: the nodes on which something was free before the walk, of `profile`; `walk`: once it is over."""
        self._view, self._slots, self._walk, self._now, self._profile = view, slots, walk, now, profile
        self._known: dict[tuple[int, PodConstraints], Summary | None] = {}

    def spelled(self, entry: Entry, member: Member) -> str:
        """Why an entry's pod found no cards, and what the pool's cards are to it; empty where that is not known.

        Pods are held against nodes by the walk alone, which bounds how much of that a namespace can cause.
        """
        own = self._walk.held.get(entry.key)
        kind = member.units, member.constraints
        if own is not None:
            found = self._summary(member, self._cards_less(own))  # what is kept for it is kept for no other
        else:
            if kind not in self._known:
                self._known[kind] = self._summary(member, self._cards)
            found = self._known[kind]
        if found is None:
            return ""
        return counted(found) if entry.gang is not None else spelled(found)

    def _summary(self, member: Member, cards: Mapping[str, NodeCards]) -> Summary | None:
        fitting, asked = self._walk.fitting(member.constraints), Asked(member.units, member.constraints)
        return None if fitting is None else summarize(cards, asked, self._now, frozenset(fitting))

    @cached_property
    def _cards(self) -> Mapping[str, NodeCards]:
        return self._cards_less({})

    def _cards_less(self, own: Mapping[str, int]) -> Mapping[str, NodeCards]:
        """The cards after the walk, with what it keeps and gave; `own`: what of it is the pod's, by node."""
        after = self._walk.left()
        gone = {name: each.free - after.get(name, 0) - own.get(name, 0) for name, each in self._slots.items()}
        kept = {name: Kept(slots) for name, slots in gone.items() if slots > 0}
        return cards_of(self._view, kept, self._now, self._slots, self._profile)
