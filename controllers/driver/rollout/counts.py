"""How far each kind of node is with the revision that is wanted, how long nodes are out, what that has cost. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from controllers.domain.clock import begun
from controllers.domain.driver.states import DAY, TRYING
from controllers.domain.driver.variant import revision_of, serves
from controllers.domain.driver.waves import Progress
from controllers.driver.node.work import has_failed_for, is_shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.driver.rollout.observed import Candidate, Facts, ObservedRollout

UNKNOWN: Final = 1800.0
"""Seconds out of service that are expected of a kind of node of which none has been yet."""


def stratum_of(candidate: Candidate) -> str:
    """The kind of a node; of one that is at work, that of which it was when its driver was chosen."""
    work = candidate.facts.work
    return (work.stratum if work is not None and work.stratum else None) or candidate.stratum


def has_revision(facts: Facts, revision: str) -> bool:
    """Whether the node's label names a driver of that revision, of whatever variant."""
    return facts.label is not None and revision_of(facts.label) == revision


def is_trying(facts: Facts, revision: str) -> bool:
    """Whether the node is under way to the revision."""
    work = facts.work
    if work is None or work.to is None or work.undoes is not None or work.hand_over is not None:
        return False
    return work.phase in TRYING and revision_of(work.to) == revision


def has_failed(facts: Facts, observed: ObservedRollout) -> bool:
    """Whether the revision failed on the node when it was last at work."""
    return has_failed_for(facts.last, observed.driver.name, observed.revision, observed.counted_since)


def has_soaked(candidate: Candidate, observed: ObservedRollout) -> bool:
    """Whether the node serves with the revision, and has shown of it what it was to."""
    facts, is_good = candidate.facts, observed.results.on(stratum_of(candidate)) == "Good"
    is_served = facts.label is not None and serves(facts.label, facts.node.status.node_info.kernel_version)
    serves_with = has_revision(facts, observed.revision) and is_served and facts.in_service and facts.work is None
    return serves_with and is_shown(facts.last, observed.revision, is_good=is_good)


def is_started(candidate: Candidate, observed: ObservedRollout) -> bool:
    """Whether the node counts among those that have been begun."""
    facts = candidate.facts
    return has_revision(facts, observed.revision) or is_trying(facts, observed.revision) or has_failed(facts, observed)


def progress(observed: ObservedRollout) -> dict[str, Progress]:
    """How far each kind of node is."""
    found: dict[str, Progress] = defaultdict(Progress)
    for one in observed.candidates:
        if key := stratum_of(one):
            _count(found[key], one, observed)
    return found


def _count(into: Progress, candidate: Candidate, observed: ObservedRollout) -> None:
    facts = candidate.facts
    trying, failed = is_trying(facts, observed.revision), has_failed(facts, observed)
    has = has_revision(facts, observed.revision)
    into.total += 1
    if not (trying or failed or has):
        return
    into.started += 1
    if trying:
        if facts.work is not None and facts.work.wave is not None:
            into.under_way.append(facts.work.wave)
        return
    into.finished += 1
    into.failed_alone += failed and facts.last is not None and facts.last.fault == "Node"
    into.failed_alone += not failed and facts.work is None and not facts.in_service  # gone amid its soak
    into.soaked += not failed and has_soaked(candidate, observed)


@dataclass(frozen=True, slots=True)
class Usual:
    """Seconds for which nodes of one kind are out of service when their driver is replaced."""

    median: float = UNKNOWN
    most: float = UNKNOWN
    """What 95 % of them need at most."""


def usual(observed: ObservedRollout) -> Mapping[str, Usual]:
    """By kind of node, of those that have been; a kind of which none has is not there."""
    times: dict[str, list[float]] = defaultdict(list)
    for one in observed.candidates:
        last = one.facts.last
        if last is not None and last.stratum and last.wave is not None and last.out_seconds:
            times[last.stratum].append(float(last.out_seconds))
    return {key: Usual(median(found), _most(found)) for key, found in times.items()}


def _most(found: list[float]) -> float:
    return quantiles(found, n=20, method="inclusive")[-1] if len(found) > 1 else found[0]


def spent(observed: ObservedRollout, times: Mapping[str, Usual], now: float) -> float:
    """Cards times seconds out of service in the last 24 hours for this driver's sake.

    A node that is out counts with the usual time of its kind, at least.
    """
    return sum(_spent_on(one, observed, times, now) for one in observed.candidates)


def _spent_on(candidate: Candidate, observed: ObservedRollout, times: Mapping[str, Usual], now: float) -> float:
    facts, made = candidate.facts, 0.0
    last, work = facts.last, facts.work
    if last is not None and last.driver == observed.driver.name and begun(last.at, now) > now - DAY:
        made += last.gpu_seconds
    if work is not None and work.driver == observed.driver.name:
        made += work.gpu_seconds
        if work.out_since is not None:
            least = times.get(stratum_of(candidate), Usual()).median
            made += max(now - begun(work.out_since, now), least) * len(facts.devices)
    return made


def hours(candidates: Iterable[Candidate], driver: str, now: float) -> dict[str, int]:
    """What ended works of the last 24 hours have cost, in cards times seconds, by the hour in which they ended."""
    found: dict[str, int] = defaultdict(int)
    for one in candidates:
        last = one.facts.last
        if last is not None and last.driver == driver and last.gpu_seconds and begun(last.at, now) > now - DAY:
            found[f"{last.at[:13]}:00:00Z"] += last.gpu_seconds
    return dict(sorted(found.items()))
