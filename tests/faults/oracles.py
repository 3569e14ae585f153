"""What a run is judged by: each function returns sentences about what is wrong, none where all is well. Pure.

Most bugs of controllers show as a difference to a run without a fault (Sieve: 45 of 46): in what there is at the end,
and in what was made and deleted on the way.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.faults import invariants
from tests.faults.picture import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.faults.picture import Picture
    from tests.faults.tap import Sent
    from tests.faults.trace import Objects, Revision

MADE_BY_US = ("GPUDevice", "GPUNodeInventory", "ConfigMap", "DaemonSet", "NodeFeatureRule", "RuntimeClass")
SHOWN = 12
"""Sentences of one oracle that are told."""
UNHANDLED = re.compile(
    r"Traceback \(most recent call last\)|was never retrieved|reconcile failed|ended by an error|was never awaited"
)
PLAIN_SECONDS = 3.0
"""A pod that asks for no card is created within this, on a machine that is busy with other control planes."""


@dataclass(frozen=True)
class Due:
    """What a fault may cost."""

    more: int = 4
    """Writes of one object beside twice as many as in the reference."""
    slack: float = 8.0
    """Seconds that something may stand which a sweep is to end."""
    recovery: float = 45.0
    """Seconds from the fault's end to rest."""
    plain: bool = True
    """Whether other pods are created as ever meanwhile: not while the API server itself is away."""


@dataclass
class Run:
    """What was seen of one run."""

    end: Picture = field(default_factory=dict)
    initial: Objects = field(default_factory=dict)
    history: Sequence[Revision] = ()
    sent: Sequence[Sent] = ()
    ended: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By process, when it was killed, monotonic."""
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lines, by process."""
    plain: Sequence[tuple[float, str]] = ()
    """Of bystanders: seconds until it was created, and its refusal or nothing."""
    until: float = 0.0
    """When it ended, epoch."""
    recovery: float = 0.0
    rested: bool = True
    """Whether nothing was written any more in the end."""
    trouble: Sequence[str] = ()
    """What people's own steps ended in."""


@dataclass
class Reference:
    """What runs without a fault looked like."""

    end: Picture
    masked: set[str]
    made: list[Counter[str]]
    """Of each: how often an object of ours was made or deleted."""
    writes: Counter[str]
    """The most of all, by process, verb and object."""
    recovery: float = 0.0


def verdict(run: Run, reference: Reference | None, due: Due) -> list[str]:
    """All oracles; without a reference those that need none."""
    found = [*run.trouble]
    if not run.rested:
        found.append("it does not come to rest")
    if reference is not None:
        found += end_state(run, reference) + made(run, reference) + writes(run, reference, due)
    found += invariants.replay(run.initial, run.history, until=run.until, slack=due.slack)
    found += invariants.conditional(run.sent) + invariants.one_leader(run.sent, run.ended)
    found += bystanders(run.plain, due) + unhandled(run.logs)
    if run.recovery > due.recovery:
        found.append(f"it took {run.recovery:.1f} s to come to rest, {due.recovery:.0f} s are due")
    return found


def end_state(run: Run, reference: Reference) -> list[str]:
    """The end is the reference's."""
    found = differences(reference.end, run.end, reference.masked)
    return _few([f"{path} is {now!r}, the reference's {then!r}" for path, (then, now) in found.items()])


def counted(history: Iterable[Revision]) -> Counter[str]:
    """How often each object of ours was made, and deleted."""
    return Counter(
        f"{revision.type} {revision.key[0]} {revision.key[1]}"
        for revision in history
        if revision.key[0] in MADE_BY_US and revision.type in ("ADDED", "DELETED")
    )


def made(run: Run, reference: Reference) -> list[str]:
    """Nothing was made or deleted more often, or less, than in one of the references."""
    now = counted(run.history)
    found = []
    for key in sorted({*now, *(k for one in reference.made for k in one)}):
        usual = {one[key] for one in reference.made}
        if now[key] not in usual:
            found.append(f"{key}: {now[key]} times, {' or '.join(map(str, sorted(usual)))} in the reference")
    return _few(found)


def tally(sent: Iterable[Sent]) -> Counter[str]:
    """How often each process wrote each object, by verb; attempts count."""
    return Counter(f"{one.process} {one.verb} {one.about}" for one in sent if one.resource != "leases")


def writes(run: Run, reference: Reference, due: Due) -> list[str]:
    """Nothing was written much more often than in the reference: no hot loop, no flapping."""
    now = tally(run.sent)
    return _few(
        [
            f"{key}: written {count} times, {reference.writes[key]} in the reference"
            for key, count in sorted(now.items())
            if count > 2 * reference.writes[key] + due.more
        ]
    )


def bystanders(plain: Iterable[tuple[float, str]], due: Due) -> list[str]:
    """A pod that asks for no card is never refused or delayed."""
    if not due.plain:
        return []
    refused = [f"a pod without a card was refused: {why}" for _, why in plain if why]
    late = [f"a pod without a card was created after {took:.1f} s" for took, _ in plain if took > PLAIN_SECONDS]
    return _few(refused + late)


def unhandled(logs: Mapping[str, Sequence[str]]) -> list[str]:
    """No task ends in an exception that nobody handles, and no reconciliation in one that was not foreseen."""
    return _few(
        [
            f"{process} logged: {line[:400]}"
            for process, lines in logs.items()
            for line in lines
            if UNHANDLED.search(line)
        ]
    )


def _few(found: list[Any]) -> list[str]:
    more = len(found) - SHOWN
    return [*map(str, found[:SHOWN]), *([f"… and {more} more of these"] if more > 0 else [])]
