"""Which of the nodes that wait comes first: those whose start costs least, and ranks of one job together. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controllers.driver.rollout.observed import Candidate


def ordered(waiting: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The nodes in the order in which they are begun.

    In service before those that are out anyway, which prove less; then the fewest pods with cards, the lowest sum of
    their priorities, the name. A node that shares a job with one before it comes right after that.
    """
    rest = sorted(waiting, key=_cost)
    by_job: dict[str, list[Candidate]] = {}
    for one in rest:
        for job in one.facts.load.jobs:
            by_job.setdefault(job, []).append(one)
    if not by_job:
        return tuple(rest)
    made: dict[str, Candidate] = {}
    for one in rest:
        _add(made, one, by_job)
    return tuple(made.values())


def _cost(one: Candidate) -> tuple[bool, int, int, str]:
    facts = one.facts
    return not facts.in_service, facts.load.pods, facts.load.priority, facts.name


def _add(made: dict[str, Candidate], one: Candidate, by_job: dict[str, list[Candidate]]) -> None:
    """The node, and all that are joined with it by jobs."""
    pending: list[Candidate] = [one]
    while pending:
        first = pending.pop(0)
        if first.name in made:
            continue
        made[first.name] = first
        pending += _mates(first, by_job)


def _mates(one: Candidate, by_job: dict[str, list[Candidate]]) -> Sequence[Candidate]:
    """Who shares a job with the node; each job is followed once."""
    return [mate for job in sorted(one.facts.load.jobs) for mate in by_job.pop(job, ())]
