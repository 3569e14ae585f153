"""What nodes have shown of a revision, and which nodes are of one kind. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, cast

from controllers.api import reasons
from controllers.api.driver_work import counts
from controllers.domain.clock import seconds
from controllers.driver.views import Results

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controllers.api.driver_rollout import MaxFailures
    from controllers.api.gpudriver import GPUDriver, Result, RevisionStatus
    from controllers.api.reasons.typed import Reason
    from controllers.domain.driver.choice import Install
    from controllers.domain.driver.node import DriverNode
    from controllers.driver.views import Evidence

KEY_MAX: Final = 253
STRATA_MAX: Final = 64
"""Kinds of nodes that a status lists."""
ALIKE_MAX: Final = 3
ALIKE_WITHIN: Final = 3600.0
"""So many nodes that fail for one reason within so many seconds have a cause in common."""
_SERIES: Final = re.compile(r"[0-9]+[.][0-9]+")


def stratum_of(target: Install, node: DriverNode) -> str:
    """What a node has in common with all on which the same driver shows the same.

    System, kernel (its series, where modules are compiled on the node), flavour of the modules, models of cards,
    whether NVSwitches join them, which need a fabric manager that fits, and whether one of them is in MIG mode. Of a
    node without a driver that is what was told of its cards while they had one (`in_mig_mode`).
    """
    series = _SERIES.match(node.kernel)
    running = target.variant.kernel or (series.group() if series else node.kernel)
    devices = "+".join(sorted({card.device for card in node.cards}))
    parts = [target.variant.system, running, target.modules, devices]
    parts += ["nvswitch"] if node.facts is not None and node.facts.nvswitch else []
    parts += ["mig"] if node.in_mig_mode else []
    return " ".join(parts)[:KEY_MAX]


def remembered(driver: GPUDriver, revision: str) -> RevisionStatus | None:
    """What the status remembers of a revision."""
    return next((one for one in driver.status.revisions if one.hash == revision), None)


def counted_since(driver: GPUDriver, revision: str) -> str | None:
    """Since when what nodes show of a revision counts (`controllers.api.driver_work.counts`): None is from ever on."""
    known = remembered(driver, revision)
    return known.since if known is not None else None


def results(driver: GPUDriver, revision: str, evidence: Iterable[Evidence]) -> Results:
    """What is known of a revision, from what the status remembers and nodes say.

    A kind of node on which it came to serve once is proved; one on which it failed first, by its own fault, is not
    given it any more, nor is one that it served where more failed than `rollout.maxFailures` allows; no other kind is
    touched by that. As a whole it is good where it is proved on one kind, and bad where it is proved on none and has
    failed on one.
    """
    known = remembered(driver, revision)
    strata: dict[str, Result] = {one.key: one.result for one in known.strata} if known is not None else {}
    since = counted_since(driver, revision)
    said = [one for one in evidence if one.good or counts(one.since, since)]  # else it is tried again
    shown: dict[str, list[Evidence]] = defaultdict(list)
    for one in sorted(said, key=lambda one: one.since):
        if one.good or one.fault == "Revision":
            shown[one.stratum].append(one)
    for key, found_there in shown.items():
        strata[key] = _result(strata.get(key, "Unproved"), found_there, driver.spec.rollout.max_failures)
    found = {*strata.values(), known.result if known is not None else "Unproved"}
    whole: Result = "Good" if "Good" in found else "Bad" if "Bad" in found else "Unproved"
    return Results(whole, strata, reason_of(known.halted if known is not None else None) or _halted(said))


def _result(known: Result, shown: Sequence[Evidence], limits: MaxFailures) -> Result:
    """What nodes of one kind come to, by what they have `shown`, the earliest first.

    What is bad stays so until a person resumes: that another node of the roll-out serves, or that the one which failed
    is gone, proves nothing. It does where a person had it tried again on the node that failed, and it serves there.
    """
    failed = sum(not one.good for one in shown)
    if known == "Bad":
        return "Good" if not failed and any(not one.is_rolled for one in shown) else "Bad"
    if known == "Unproved" and not shown[0].good:
        return "Bad"
    return "Bad" if failed > _failures_allowed(limits, len(shown)) else "Good"


def reason_of(word: str | None) -> Reason | None:
    """A word that an object keeps, as a reason; None for what no row is about: another version may have written it."""
    return cast("Reason", word) if word and reasons.of_driver_work(word) else None


def _failures_allowed(limits: MaxFailures, begun: int) -> int:
    """How many nodes of a kind may fail with a revision that is proved there."""
    return max(limits.nodes, begun * limits.percent // 100)


def _halted(said: Iterable[Evidence]) -> Reason | None:
    """What befell so many nodes within an hour that the cause is none of theirs, such as a mirror that is away."""
    times: dict[Reason, list[float]] = defaultdict(list)
    for one in said:
        if one.fault == "Node" and one.cause is not None:
            times[one.cause].append(seconds(one.since))
    for cause, found in sorted(times.items()):
        found.sort()
        if any(late - early <= ALIKE_WITHIN for early, late in zip(found, found[ALIKE_MAX - 1 :], strict=False)):
            return cause
    return None
