"""Replicas of one process taken together. Pure.

Who asks keeps a connection to one of them until it breaks, so that connections, and the work that comes over them, move
from one replica to the other: of each alone these numbers swing, and of all they must not grow.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from reliability.soak.records import Boundary, Own, Reading, is_ours, process_of

T = TypeVar("T", Own, Reading)


def replicated(processes: Iterable[str]) -> dict[str, list[str]]:
    """The processes of which there is more than one replica, by the name under which they are told together."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in sorted(filter(is_ours, processes)):
        found[process_of(name)].append(name)
    return {f"{process}, all {len(each)}": each for process, each in found.items() if len(each) > 1}


def together(at_once: Mapping[str, Reading], told_as: str, replicas: list[str]) -> dict[str, Reading]:
    """One reading of all replicas under that name; none where one of them was away."""
    if not all(name in at_once for name in replicas):
        return {}
    return {told_as: _sum([at_once[name] for name in replicas])}


def boundary_of(end: Boundary, told_as: str, replicas: list[str]) -> Boundary:
    """The end of a cycle with that reading alone."""
    return dataclasses.replace(end, readings=together(end.readings, told_as, replicas))


def _sum(each: list[Reading]) -> Reading:
    said = [one.own for one in each if one.own is not None]
    requests = Counter[str]()
    for own in said:
        requests.update(own.requests)
    stall = max((own.stall for own in said), default=0.0)
    return _added(
        each, at=each[0].at, pid=each[0].pid, own=_added(said, requests=requests, stall=stall) if said else None
    )


def _added(each: list[T], **other: Any) -> T:
    """One of them with the sum of each number; `other` are those that are no sums."""
    fields = (field.name for field in dataclasses.fields(each[0]) if field.name not in other)
    return dataclasses.replace(each[0], **{name: sum(getattr(one, name) for one in each) for name in fields} | other)
