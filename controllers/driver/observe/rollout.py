"""The view of a GPUDriver's roll-out: its nodes, and what is out of service beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.driver.choice import Blocked, Install
from controllers.domain.driver.variant import revision_of
from controllers.domain.driver.windows import schedule
from controllers.driver.caches import BY_DRIVER, BY_PHASE
from controllers.driver.drivers.results import counted_since
from controllers.driver.observe.replaced import way_back
from controllers.driver.observe.target import bounded_target
from controllers.driver.rollout.counts import hours
from controllers.driver.rollout.eta import eta
from controllers.driver.rollout.observed import Candidate, Group, ObservedRollout, PoolRules
from controllers.driver.rollout.plan import plan_rollout
from controllers.driver.views import Rolled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpupool import PoolPhase
    from controllers.domain.driver.choice import Choice
    from controllers.driver.observe.sources import Sources
    from controllers.driver.records import Pool
    from controllers.driver.rollout.observed import Facts

IN_MAINTENANCE: Final[frozenset[PoolPhase]] = frozenset(("Draining", "Rebuilding", "Applying"))
"""Phases in which a pool's cards are configured anew, which ends by itself."""


def observe_rollout(sources: Sources, name: str) -> ObservedRollout | None:
    """The roll-out of one GPUDriver; None where nothing is to be rolled out."""
    driver = sources.caches.drivers.get(name)
    if driver is None or driver.metadata.deletion_timestamp is not None or not sources.enabled:
        return None
    revision = sources.decisions.revision(driver)
    has = sources.decisions.nodes_of(name)
    at_work = {one.name for one in sources.caches.inventories.by(BY_DRIVER, name)}
    mine, leaving = _facts(sources, has), _facts(sources, at_work - has)
    own = Group()
    for facts in (*mine, *(one for one in leaving if one.is_planned)):
        own.count(facts, len(facts.devices))
    cluster, pools = sources.roster.totals()
    found = tuple(_with_way_back(sources, driver, revision, _candidates(sources, driver, mine)))
    return ObservedRollout(
        driver=driver,
        revision=revision,
        candidates=found,
        results=sources.proofs.results(driver),
        counted_since=counted_since(driver, revision),
        is_missing=bool(sources.missing_contents(driver)),
        own=own,
        cluster=cluster,
        pools=pools,
        rules={one.name: _rules(one) for one in sources.caches.pools},
        percent=sources.max_unavailable_percent,
        looks=sources.settings.prefetch_parallel - sources.caches.inventories.count(BY_PHASE, "Preflight"),
    )


def rolled(sources: Sources, name: str) -> Rolled:
    """How far a GPUDriver's roll-out is, and what its nodes wait for."""
    observed, now = observe_rollout(sources, name), sources.clock()
    if observed is None:
        return Rolled()
    made = plan_rollout(observed, now)
    costs = hours(observed.candidates, name, now)
    return Rolled(made.waiting, made.stages, made.progress, costs, eta(observed, made, now))


def _facts(sources: Sources, nodes: Iterable[str]) -> list[Facts]:
    """Those of the nodes that are there, in the order of their names."""
    found = (sources.roster.facts(name) for name in sorted(nodes))
    return [facts for facts in found if facts is not None]


def _rules(pool: Pool) -> PoolRules:
    asked = pool.spec.disruption
    return PoolRules(
        max_cards=asked.max_unavailable_cards if asked is not None else None,
        schedule=schedule(asked.windows if asked is not None else ()),
        in_maintenance=pool.status.phase in IN_MAINTENANCE,
    )


def _candidates(sources: Sources, driver: GPUDriver, mine: list[Facts]) -> Iterator[Candidate]:
    """The driver's nodes with what it comes to there, as the nodes' own plans have it."""
    bounded: dict[str, Choice] = {}
    for facts in mine:
        found = sources.decided(facts.name, driver)
        choice = found.choice if found is not None else None
        if isinstance(choice, Install):
            value = choice.variant.value
            if value not in bounded:
                bounded[value] = bounded_target(sources, choice)
            choice = bounded[value] if isinstance(bounded[value], Blocked) else choice
        yield Candidate(facts, choice, found.stratum if found is not None else "")


def _with_way_back(
    sources: Sources, driver: GPUDriver, revision: str, candidates: Iterator[Candidate]
) -> Iterator[Candidate]:
    """With the former driver of nodes that serve with a revision which is bad on their kind, where they get it back."""
    rollback = driver.spec.rollout.rollback
    bad = {key for key, result in sources.proofs.results(driver, revision).strata.items() if result == "Bad"}
    if rollback not in ("Wave", "All") or not bad:
        yield from candidates
        return
    known = tuple(candidates)
    waves = _last_waves(known, revision)
    for one in known:
        has = _serves_with(one, revision) and one.stratum in bad
        wanted = has and (rollback == "All" or _wave_of(one.facts, revision) == waves.get(one.stratum))
        found = sources.decided(one.name, driver) if wanted else None
        back = way_back(sources, driver, one.facts.node, one.facts.work, found) if found is not None else None
        yield Candidate(one.facts, one.choice, one.stratum, back) if back is not None else one


def _last_waves(candidates: tuple[Candidate, ...], revision: str) -> Mapping[str, int]:
    """The last wave of each kind of node that was begun with the revision."""
    found: dict[str, int] = {}
    for one in candidates:
        if (wave := _wave_of(one.facts, revision)) is not None:
            found[one.stratum] = max(wave, found.get(one.stratum, wave))
    return found


def _wave_of(facts: Facts, revision: str) -> int | None:
    """The wave in which a node got the revision, or failed with it."""
    work, last = facts.work, facts.last
    if work is not None and revision in (work.undoes, revision_of(work.to or "")):
        return work.wave
    return last.wave if last is not None and last.revision == revision else None


def _serves_with(one: Candidate, revision: str) -> bool:
    """Whether the node is in service with the revision, and nothing more is to come of it but proof."""
    work, label = one.facts.work, one.facts.label
    return label is not None and revision_of(label) == revision and (work is None or work.phase == "Soaking")
