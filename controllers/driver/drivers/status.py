"""The status of a GPUDriver, from its nodes. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import condition_for
from controllers.api.gpudriver import (
    DriverCounts,
    DriverNode,
    GPUDriverStatus,
    RevisionStatus,
    RunningVersion,
    Spent,
    StratumResult,
    StratumStatus,
)
from controllers.domain.clock import stamp
from controllers.domain.driver.pause import is_paused_on
from controllers.domain.driver.states import TRYING
from controllers.domain.driver.variant import revision_of
from controllers.domain.driver.waves import wave_word
from controllers.driver.drivers import conditions
from controllers.driver.drivers.progress import BEHIND, BUSY, TROUBLE, progress_of, rank
from controllers.driver.drivers.results import STRATA_MAX, remembered

if TYPE_CHECKING:
    from controllers.api.conditions import Finding
    from controllers.driver.drivers.progress import NodeProgress
    from controllers.driver.views import ObservedDriver, Results

VERSIONS_MAX = 32
WHY_MAX = 512


def driver_status(seen: ObservedDriver, now: float, *, resumed: bool = False) -> GPUDriverStatus:
    """The status as it should be. `resumed`: a person has a revision that is bad tried again."""
    driver, old = seen.driver, seen.driver.status
    found = (progress_of(member, seen) for member in seen.members)
    nodes = tuple(sorted((node for node in found if node is not None), key=rank))
    findings = conditions.findings(seen, nodes)
    revisions = _revisions(seen, now, resumed=resumed, halted=findings[conditions.HALTED])
    good = revisions[0].result == "Good"
    versions = Counter(member.version for member in seen.members if member.version)
    return GPUDriverStatus(
        observed_generation=driver.metadata.generation,
        target=seen.revision,
        current=seen.revision if good else old.current,
        revisions=revisions,
        counts=_counts(nodes),
        state=_state(seen, findings, nodes, now),
        strata=() if resumed else _strata(seen),
        spent=tuple(Spent(hour=hour, gpu_seconds=cost) for hour, cost in seen.rolled.spent.items()),
        eta=stamp(seen.rolled.eta) if seen.rolled.eta is not None else None,
        versions=tuple(
            RunningVersion(version=version, nodes=number)
            for version, number in sorted(versions.most_common(VERSIONS_MAX))
        ),
        nodes=tuple(
            DriverNode(name=node.name, phase=node.phase, reason=node.reason, since=node.since)
            for node in nodes[: names.LIST_MAX]
        ),
        truncated=len(nodes) > names.LIST_MAX or None,
        conditions=tuple(
            condition_for(old.conditions, kind, finding, now=stamp(now), generation=driver.metadata.generation)
            for kind, finding in findings.items()
        ),
    )


def _revisions(seen: ObservedDriver, now: float, *, resumed: bool, halted: Finding) -> tuple[RevisionStatus, ...]:
    """The revision that is wanted, and those before it."""
    driver = seen.driver
    known = remembered(driver, seen.revision)
    result = "Unproved" if resumed and seen.results.revision == "Bad" else seen.results.revision
    since = stamp(now) if resumed or known is None else known.since
    why = (known.why if known is not None and known.why else f"{halted.message}"[:WHY_MAX]) if result == "Bad" else None
    strata = _by_stratum(seen.results, resumed=resumed)
    first = RevisionStatus(
        hash=seen.revision,
        version=driver.spec.version,
        result=result,
        since=since,
        why=why,
        halted=None if resumed else seen.results.halted,
        strata=strata,
    )
    used = {revision_of(one.label) for one in seen.members if one.label}
    used |= {revision_of(one.work.from_) for one in seen.members if one.work is not None and one.work.from_}
    before = [one for one in driver.status.revisions if one.hash != seen.revision]
    # The last good one is what new nodes get while this one is not proved, and others still run.
    kept = [one for one in before if one.hash == driver.status.current or one.hash in used]
    order = [*kept, *(one for one in before if one not in kept)]
    limit = max(driver.spec.rollout.history_limit, 1)
    chosen = order[: max(limit - 1, len(kept))]
    return (first, *(_as_known(one, seen) for one in before if one in chosen))[:10]


def _as_known(one: RevisionStatus, seen: ObservedDriver) -> RevisionStatus:
    """A revision that was wanted before: nodes that had been begun with it may have shown more of it."""
    found = seen.former.get(one.hash)
    return replace(one, result=found.revision, strata=_by_stratum(found)) if found is not None else one


def _by_stratum(found: Results, *, resumed: bool = False) -> tuple[StratumResult, ...]:
    """What is known of a revision by kinds of nodes, those where it is bad first, as the list has an end."""
    kept = ((key, result) for key, result in found.strata.items() if not (resumed and result == "Bad"))
    order = sorted(kept, key=lambda one: (one[1] != "Bad", one[0]))
    return tuple(StratumResult(key=key, result=result) for key, result in order[:STRATA_MAX])


def _strata(seen: ObservedDriver) -> tuple[StratumStatus, ...]:
    """Kinds of nodes, with the node that tries the revision there, or did first."""
    nodes: Counter[str] = Counter(member.stratum for member in seen.members if member.stratum)
    remembers = {one.key: one for one in seen.driver.status.strata} if _is_target(seen) else {}
    trying = defaultdict(list)
    for member in seen.members:
        work = member.work
        if work is not None and work.phase in TRYING and revision_of(work.to or "") == seen.revision:
            trying[work.stratum or ""].append(member.name)
    shown: dict[str, str] = {}
    for one in sorted(seen.evidence, key=lambda one: one.since):
        shown.setdefault(one.stratum, one.node)
    made = []
    for key in sorted(nodes.keys() | seen.results.strata.keys()):
        result, known = seen.results.on(key), remembers.get(key)
        canary = known.canary if known is not None and known.result == result != "Unproved" else None
        if canary is None:
            canary = shown.get(key) if result != "Unproved" else next(iter(trying[key]), None)
        made.append(_stratum(seen, StratumStatus(key=key, nodes=nodes[key], canary=canary, result=result)))
    return tuple(sorted(made, key=lambda one: (one.result == "Unproved", -one.nodes, one.key))[:STRATA_MAX])


def _stratum(seen: ObservedDriver, made: StratumStatus) -> StratumStatus:
    """With its waves, where nodes get the revision in waves."""
    at, counted = seen.rolled.stages.get(made.key), seen.rolled.progress.get(made.key)
    if at is None or counted is None:
        return made
    wave = at.wave if counted.finished < counted.total else None
    return replace(made, wave=wave, started=counted.started, finished=counted.finished)


def _is_target(seen: ObservedDriver) -> bool:
    return seen.driver.status.target == seen.revision


def _counts(nodes: tuple[NodeProgress, ...]) -> DriverCounts:
    words: Counter[str] = Counter(node.phase for node in nodes)
    return DriverCounts(
        nodes=len(nodes),
        current=words["Current"] - sum(node.is_away for node in nodes),
        outdated=sum(words[word] for word in BEHIND),
        host=words["Host"],
        busy=sum(words[word] for word in BUSY),
        blocked=words["Blocked"],
        failed=sum(words[word] for word in TROUBLE),
    )


def _state(seen: ObservedDriver, found: dict[str, Finding], nodes: tuple[NodeProgress, ...], now: float) -> str:
    """In a word or two, the first that holds."""
    rolling = {node.phase for node in nodes if node.phase in BUSY and not node.is_waiting} & _rolled(seen)
    words = (
        (seen.driver.metadata.deletion_timestamp is not None, "Deleting"),
        (found[conditions.HALTED].status is True, "Halted"),
        (is_paused_on(seen.driver, None, now), "Paused"),
        (found[conditions.FAILED].status is True, "Failed"),
        (rolling == {"Soaking"}, "Soaking"),
        (bool(rolling), f"Rolling {_wave(seen)}".rstrip()),
        (found[conditions.PROGRESSING].status is True, "Installing"),
        (found[conditions.BLOCKED].status is True, "Blocked"),
        (found[conditions.READY].status is True, "Ready"),
        (found[conditions.READY].status is None, "NoNodes"),
        (not any(node.phase in BUSY or node.phase in BEHIND for node in nodes), "NodesOutOfService"),
    )
    return next((word for holds, word in words if holds), "Outdated")


def _wave(seen: ObservedDriver) -> str:
    """The wave of the kind of node that is least far, and how many there are; empty where no kind is in one."""
    counted = seen.rolled.progress
    at = min(
        (one.wave for key, one in seen.rolled.stages.items() if counted[key].finished < counted[key].total),
        default=None,
    )
    return "" if at is None else wave_word(at, seen.driver.spec.rollout)


def _rolled(seen: ObservedDriver) -> set[str]:
    """Words of nodes whose driver is being replaced."""
    works = (member.work for member in seen.members if member.work is not None and member.work.wave is not None)
    return {"RollingBack", *(work.phase for work in works)}
