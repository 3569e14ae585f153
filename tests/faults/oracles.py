"""What a run is judged by: each function returns sentences about what is wrong, none where all is well. Pure.

Most bugs of controllers show as a difference to a run without a fault (Sieve: 45 of 46): in what there is at the end,
and in what was made and deleted on the way. Such a difference may be a rare order of what happens at once, so that it
is doubtful until it comes twice; what breaks an invariant, or an exception that nobody took, is certain.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.faults import invariants, leading, trust
from tests.faults.evidence import Verdict
from tests.faults.picture import differences
from tests.faults.standing import united

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.faults.evidence import Due, Reference, Run
    from tests.faults.standing import Span
    from tests.faults.tap import Sent
    from tests.faults.trace import Revision

MADE_BY_US = ("GPUDevice", "GPUNodeInventory", "ConfigMap", "DaemonSet", "NodeFeatureRule", "RuntimeClass")
SENT = ("ADDED", "MODIFIED")
ONCE_MORE = 1
PASSED_OVER = 2
"""Writes of an object for states that somebody sees where people do not wait, and nobody saw in any reference."""
SHOWN = 12
"""Sentences of one oracle that are told."""
CONFLICT = 409
CONFLICTS = 10
"""Attempts at one object that may meet others' writes, beside the reference's: more is a loop."""
UNHANDLED = re.compile(
    r"Traceback \(most recent call last\)|was never retrieved|reconcile failed|ended by an error|was never awaited"
)
SWEEPER = "gpupool"
"""The process whose sweeps end what stands too long."""


def verdict(run: Run, reference: Reference | None, due: Due) -> Verdict:
    """All oracles; without a reference those that need none."""
    certain = invariants.replay(
        run.initial, run.history, until=run.until, slack=due.slack + due.blind, away=united(run.away)
    )
    certain += invariants.conditional(run.sent) + leading.one_leader(run.sent, run.ended, run.lease)
    certain += refused(run.plain, due) + unhandled(run.logs)
    found = [*run.trouble]
    if not run.rested:
        found.append("it does not come to rest")
    if run.objects:
        found += trust.broken(run.objects, run.until)
    found += delayed(run.plain, due)
    found += [
        f"{name} ended by itself {count} times" for name, count in run.restarts.items() if count > 0 and not due.ends
    ]
    if reference is not None:
        found += end_state(run, reference) + made(run, reference) + writes(run, reference, due)
        if (lost := recovery(run, reference)) > due.recovery:
            found.append(f"it took {lost:.1f} s longer than the reference, {due.recovery:.0f} s are due")
    return Verdict(certain, found)


def recovery(run: Run, reference: Reference) -> float:
    """Seconds that the fault cost: by which the story took longer, and then the rest."""
    return max(0.0, run.story - reference.story + max(0.0, run.after - reference.after))


def away(sent: Iterable[Sent], span: Span, pause: float, offset: float) -> list[Span]:
    """When nobody was there to sweep, epoch; `offset`: what the epoch is ahead of the monotonic clock of `span`."""
    return [(begin + offset, end + offset) for begin, end in leading.away(sent, SWEEPER, span, pause)]


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
    """Nothing was made or deleted more often, or less, than in one of the references.

    Where people do not wait it may be less often, or once more: whether anybody saw the state in between is luck.
    """
    now = counted(run.history)
    found = []
    for key in sorted({*now, *(k for one in reference.made for k in one)}):
        usual = {one[key] for one in reference.made}
        if now[key] not in usual and not (reference.hasty and now[key] <= max(usual) + ONCE_MORE):
            found.append(f"{key}: {now[key]} times, {' or '.join(map(str, sorted(usual)))} in the reference")
    return _few(found)


def tally(run: Run) -> Counter[str]:
    """How often each process wrote each object, by verb, where attempts count; and how many Events each sent.

    Attempts that met another's write are counted apart: when several write one object at once, how many is luck.
    """
    found = Counter(
        f"Conflicts of {one.process} over {one.about}"
        if one.status == CONFLICT
        else f"{one.process} {one.verb} {one.about}"
        for one in run.sent
        if one.resource not in ("leases", "events")
    )
    reporters = (r.object.get("reportingController") for r in run.history if r.key[0] == "Event" and r.type in SENT)
    found.update(f"Events of {reporter}" for reporter in reporters)
    return found


def _kind(key: str) -> str:
    """The process, verb and resource of a key of `tally`, without the object."""
    return re.sub(r"/[^/]+", "/", key, count=1)


def writes(run: Run, reference: Reference, due: Due) -> list[str]:
    """Nothing was written more often than in the reference but for what the fault excuses: no hot loop, no flapping.

    Where people do not wait, each object of a kind that is written may be written as often as any of it, and for states
    that every reference happened to pass over: what somebody saw is luck.
    """
    found = []
    most = Counter[str]()
    for key, count in reference.writes.items():
        most[_kind(key)] = max(most[_kind(key)], count)
    for key, count in sorted(tally(run).items()):
        more = due.events if key.startswith("Events") else CONFLICTS if key.startswith("Conflicts") else due.more
        usual = reference.writes[key]
        if reference.hasty and most[_kind(key)]:
            usual = most[_kind(key)] + (0 if key.startswith(("Events", "Conflicts")) else PASSED_OVER)
        if count > usual + reference.spread[key] + more:
            found.append(f"{key}: written {count} times, {usual} in the reference, {more} more are due")
    return _few(found)


def refused(plain: Iterable[tuple[float, str]], due: Due) -> list[str]:
    """A pod that asks for no card is never refused."""
    return _few([f"a pod without a card was refused: {why}" for _, why in plain if why and due.plain])


def delayed(plain: Iterable[tuple[float, str]], due: Due) -> list[str]:
    """Nor delayed."""
    late = [took for took, _ in plain if took > due.plain_seconds and due.plain]
    return _few([f"a pod without a card was created after {took:.1f} s" for took in late])


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
