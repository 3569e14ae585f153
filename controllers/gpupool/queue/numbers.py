"""What a walk over a queue found of its pool, for the conditions of pods that wait. Pure.

It is counted only when a condition is written: a queue of thousands is walked several times a second, and its pods
are told once. No card, node or pod has its name in it: whoever may read a pod is not whoever may read the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.queue.policy import policy_of
from controllers.domain.verdict.pod import cards_of
from controllers.domain.verdict.records import Asked, ReservedForOthers
from controllers.domain.verdict.shortage import counted, spelled
from controllers.domain.verdict.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.domain.node_fit import PodConstraints
    from controllers.domain.queue.entry import Member
    from controllers.domain.queue.serve import Decision, Walk
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
        waiting: Iterable[Decision],
        now: float,
        *,
        profile: str | None = None,
    ) -> None:
        """`slots`: the nodes on which something of `profile` was free before the walk; `waiting`: whom it left.

        `walk`, now over, was over pods that ask for `profile`, which is None but in a mixed layout.
        """
        self._view, self._slots, self._walk, self._now, self._profile = view, slots, walk, now, profile
        self._waiting = {member.key: (each, member) for each in waiting for member in each.entry.members}
        self._cards: dict[str, Mapping[str, NodeCards]] = {}
        self._known: dict[tuple[str, int, PodConstraints], Summary | None] = {}

    def spelled(self, key: str) -> str:
        """Why a pod found no cards, and what the pool's cards are to it; empty where that is not known.

        Pods are held against nodes by the walk alone, which bounds how much of that a namespace can cause.
        """
        decision, member = self._waiting.get(key, (None, None))
        if decision is None or member is None:
            return ""
        entry = decision.entry
        if decision.outcome == "OverLimit":
            return f"{policy_of(self._view.pool).share(entry.namespace).limit} are allowed"
        # What is kept for an entry is kept for no other; for all that nothing is kept for the cards are the same.
        whose = entry.key if entry.key in self._walk.held else ""
        kind = whose, member.units, member.constraints
        if kind not in self._known:
            self._known[kind] = self._summary(member, self._cards_for(whose))
        if (found := self._known[kind]) is None:
            return ""
        return counted(found) if entry.gang is not None else spelled(found)

    def _summary(self, member: Member, cards: Mapping[str, NodeCards]) -> Summary | None:
        fitting, asked = self._walk.fitting(member.constraints), Asked(member.units, member.constraints)
        return None if fitting is None else summarize(cards, asked, self._now, frozenset(fitting))

    def _cards_for(self, whose: str) -> Mapping[str, NodeCards]:
        """The cards after the walk, with what it keeps and gave, less what it keeps for an entry, counted once."""
        if whose not in self._cards:
            self._cards[whose] = self._cards_less(self._walk.held.get(whose, {}))
        return self._cards[whose]

    def _cards_less(self, own: Mapping[str, int]) -> Mapping[str, NodeCards]:
        """`own`: what of the slots that are kept is not kept for others, by node."""
        after = self._walk.left()
        gone = {name: each.free - after.get(name, 0) - own.get(name, 0) for name, each in self._slots.items()}
        kept = {name: ReservedForOthers(slots) for name, slots in gone.items() if slots > 0}
        return cards_of(self._view, kept, self._now, self._slots, self._profile)
