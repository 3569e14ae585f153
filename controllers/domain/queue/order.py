"""The order of a pool's queue. Pure.

FIFO goes by age, Priority by the pod's priority and then age. Fair goes by priority; among equals a namespace that has
less than its guarantee comes first, then the one with the least slots for its weight, then age. What an entry gets
counts for its namespace before the next entry is chosen, so namespaces alternate by their weights; within a namespace
age decides.

What is left of a gang of which pods run already comes before everybody: the others have their cards for nothing.

An entry that would bring its namespace above its limit keeps its place among its own, and is passed over.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from controllers.domain.queue.entry import Entry
    from controllers.domain.queue.policy import QueuePolicy


@dataclass(frozen=True, slots=True)
class Ranked:
    """An entry at its place in the order."""

    entry: Entry
    over_limit: bool = False
    """Whether its namespace has as much as it may have, or would have with the entries before this one."""


def in_order(entries: Iterable[Entry], used: Mapping[str, int], policy: QueuePolicy) -> list[Ranked]:
    """The entries, first come first. `used`: slots of the pool by namespace, had or promised."""
    usage = defaultdict(int, used)
    by_age = sorted(entries, key=lambda entry: entry.age_key)
    first = [_admitted(entry, usage) for entry in by_age if entry.is_torn]
    return [*first, *_in_order([entry for entry in by_age if not entry.is_torn], usage, policy)]


def _in_order(by_age: list[Entry], usage: dict[str, int], policy: QueuePolicy) -> Iterable[Ranked]:
    if policy.order == "FIFO":
        return _limited(by_age, usage, policy)
    by_priority = sorted(by_age, key=lambda entry: -entry.priority)
    if policy.order == "Priority":
        return _limited(by_priority, usage, policy)
    found: list[Ranked] = []
    for _, equals in groupby(by_priority, key=lambda entry: entry.priority):
        found += _fairly(equals, usage, policy)
    return found


def _limited(entries: Iterable[Entry], usage: dict[str, int], policy: QueuePolicy) -> Iterator[Ranked]:
    for entry in entries:
        yield _ranked(entry, usage, policy)


def _admitted(entry: Entry, usage: dict[str, int]) -> Ranked:
    """An entry of which a part has cards: no limit applies any more."""
    usage[entry.namespace] += entry.units
    return Ranked(entry)


def _ranked(entry: Entry, usage: dict[str, int], policy: QueuePolicy) -> Ranked:
    """The entry at its place; what it gets counts for its namespace from here on."""
    limit = policy.share(entry.namespace).limit
    if limit is not None and usage[entry.namespace] + entry.units > limit:
        return Ranked(entry, over_limit=True)
    usage[entry.namespace] += entry.units
    return Ranked(entry)


def _fairly(equals: Iterable[Entry], usage: dict[str, int], policy: QueuePolicy) -> Iterator[Ranked]:
    """Entries of one priority, which come by age."""
    waiting: dict[str, deque[Entry]] = defaultdict(deque)
    for entry in equals:
        waiting[entry.namespace].append(entry)

    def key(namespace: str) -> tuple[bool, float, tuple[str, str], str]:
        share, has = policy.share(namespace), usage[namespace]
        return has >= share.guaranteed, has / share.weight, waiting[namespace][0].age_key, namespace

    heap = [key(namespace) for namespace in waiting]
    heapify(heap)
    while heap:
        namespace = heap[0][-1]
        yield _ranked(waiting[namespace].popleft(), usage, policy)
        if waiting[namespace]:
            heapreplace(heap, key(namespace))
        else:
            heappop(heap)
