"""What a walk over a queue found of its pool, for the conditions of pods that wait. Pure.

It is counted only when a condition is written: a queue of thousands is walked several times a second, and its pods
are told once. No card, node or pod has its name in it: whoever may read a pod is not whoever may read the others.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from controllers.domain.verdict.cards import summarize
from controllers.domain.verdict.pod import cards_of
from controllers.domain.verdict.records import Asked, Kept
from controllers.domain.verdict.shortage import counted, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.domain.queue.entry import Entry, Member
    from controllers.domain.slots import NodeSlots
    from controllers.domain.verdict.pool_cards import NodeCards
    from controllers.gpupool.queue.records import ObservedQueue


class RoundRoom:
    """A pool as one walk found and left it."""

    def __init__(
        self, view: ObservedQueue, slots: Mapping[str, NodeSlots], after: Callable[[], Mapping[str, int]], now: float
    ) -> None:
        """`slots`: the nodes on which something was free; `after`: what the walk has left free of them, by node."""
        self._view, self._slots, self._after, self._now = view, slots, after, now
        self._known: dict[tuple[Asked, bool], str] = {}

    def spelled(self, entry: Entry, member: Member) -> str:
        """Why an entry's pod found no cards, and what the pool's cards are to it."""
        asked, is_gang = Asked(member.units, member.constraints), entry.gang is not None
        if (asked, is_gang) not in self._known:
            summary = summarize(self._cards, asked, self._now)
            self._known[asked, is_gang] = counted(summary) if is_gang else spelled(summary)
        return self._known[asked, is_gang]

    @cached_property
    def _cards(self) -> Mapping[str, NodeCards]:
        after = self._after()
        gone = {name: each.free - after.get(name, 0) for name, each in self._slots.items()}
        kept = {name: Kept(slots) for name, slots in gone.items() if slots > 0}
        return cards_of(self._view, kept, self._now, self._slots)
