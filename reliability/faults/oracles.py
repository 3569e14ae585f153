"""The oracles of a run: each function returns sentences about what is wrong, none where all is well. Pure.

Most bugs of controllers show as a difference to a run without a fault (Sieve: 45 of 46): in what there is at the end,
and in what was made and deleted on the way. Such a difference may be a rare order of what happens at once, so that it
is doubtful until it comes twice; what breaks an invariant, or an exception that nobody took, is certain.

How often a state is written, and how long something takes, depends on the machine, too: a controller that waits half a
second before it tells of a state tells of more of them where each lasts longer. That is judged only of a run that had
the CPU time that its references had. A write that changes nothing is told of whatever the machine.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from reliability.faults import driver_invariants, evictions, invariants, leader_election, webhook_trust, write_counts
from reliability.faults.eventual_invariants import united
from reliability.faults.run_record import Verdict
from reliability.faults.snapshot import differences
from reliability.faults.write_counts import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reliability.faults.eventual_invariants import Span
    from reliability.faults.process_proxy import Sent
    from reliability.faults.run_record import Budget, Reference, Run
    from reliability.faults.trace import Revision

MADE_BY_US = ("GPUDevice", "GPUNodeInventory", "ConfigMap", "DaemonSet", "NodeFeatureRule", "RuntimeClass")
ONCE_MORE = 1
UNHANDLED = re.compile(
    r"Traceback \(most recent call last\)|was never retrieved|reconcile failed|ended by an error|was never awaited"
)
SWEEPER = "gpupool"
"""The process whose sweeps end what stands too long."""


def verdict(run: Run, reference: Reference | None, budget: Budget) -> Verdict:
    """All oracles; without a reference those that need none."""
    certain = invariants.replay(
        run.initial,
        run.history,
        until=run.until,
        slack=budget.slack + budget.blind,
        away=united(run.away),
        behind=budget.behind,
    )
    certain += invariants.conditional(run.sent) + leader_election.one_leader(run.sent, run.ended, run.lease)
    certain += driver_invariants.cordons(run.sent) + evictions.wrong(run.sent, run.initial, run.history)
    certain += refused(run.plain, budget) + unhandled(run.logs)
    found = [*run.trouble]
    if not run.rested:
        found.append("it does not come to rest")
    if run.objects:
        found += webhook_trust.broken(run.objects, run.until)
        found += [f"at the end, {sentence}" for sentence in driver_invariants.at_end(run.objects)]
    paced = delayed(run.plain, budget) + ended(run.restarts, budget)
    if reference is None:
        return Verdict(certain, found, paced)
    found += end_state(run, reference) + made(run, reference) + write_counts.unchanged(run, reference, budget)
    paced += write_counts.writes(run, reference, budget)
    if (lost := recovery(run, reference)) > budget.recovery:
        paced.append(f"it took {lost:.1f} s longer than the reference, {budget.recovery:.0f} s are allowed")
    return Verdict(certain, found, paced, busy(run, reference) if paced else "")


def busy(run: Run, reference: Reference) -> str:
    """Why a run is not judged by how often it wrote and how long it took; empty where the machine gave it the time."""
    given = run.given
    if given.wait <= reference.wait:
        return ""
    return (
        f"the machine was busy: for {given.ran:.1f} s of CPU its programs waited {given.waited:.1f} s,"
        f" {given.wait:.1f} for each, its references {max(reference.waits, default=0.0):.1f} at most"
        f" ({reference.wait:.1f} with what they differ by)"
    )


def recovery(run: Run, reference: Reference) -> float:
    """Seconds that the fault cost: by which the story took longer, and then the rest."""
    return max(0.0, run.story - reference.story + max(0.0, run.after - reference.after))


def away(sent: Iterable[Sent], span: Span, pause: float, offset: float) -> list[Span]:
    """When nobody was there to sweep, epoch; `offset`: what the epoch is ahead of the monotonic clock of `span`."""
    return [(begin + offset, end + offset) for begin, end in leader_election.away(sent, SWEEPER, span, pause)]


def end_state(run: Run, reference: Reference) -> list[str]:
    """The end is the reference's."""
    found = differences(reference.end, run.end, reference.masked)
    return few([f"{path} is {now!r}, the reference's {then!r}" for path, (then, now) in found.items()])


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
    return few(found)


def refused(plain: Iterable[tuple[float, str]], budget: Budget) -> list[str]:
    """A pod that asks for no card is never refused."""
    return few([f"a pod without a card was refused: {why}" for _, why in plain if why and budget.plain])


def delayed(plain: Iterable[tuple[float, str]], budget: Budget) -> list[str]:
    """Nor delayed."""
    late = [took for took, _ in plain if took > budget.plain_seconds and budget.plain]
    return few([f"a pod without a card was created after {took:.1f} s" for took in late])


def ended(restarts: Mapping[str, int], budget: Budget) -> list[str]:
    """No process ends by itself. It does where it has lost its lease, to which a machine without time brings it."""
    return [
        f"{name} ended by itself {count} times" for name, count in restarts.items() if count > 0 and not budget.ends
    ]


def unhandled(logs: Mapping[str, Sequence[str]]) -> list[str]:
    """No task ends in an exception that nobody handles, and no reconciliation in one that was not foreseen."""
    return few(
        [
            f"{process} logged: {line[:400]}"
            for process, lines in logs.items()
            for line in lines
            if UNHANDLED.search(line)
        ]
    )
