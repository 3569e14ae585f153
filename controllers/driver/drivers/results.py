"""What nodes have shown of a revision, and which nodes are of one kind. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controllers.driver.views import Results

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudriver import GPUDriver, Result, RevisionStatus
    from controllers.domain.driver.choice import Install
    from controllers.domain.driver.node import DriverNode
    from controllers.driver.views import Evidence

KEY_MAX: Final = 253
STRATA_MAX: Final = 64
"""Kinds of nodes that a status lists."""
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


def results(driver: GPUDriver, revision: str, evidence: Iterable[Evidence]) -> Results:
    """What is known of a revision, from what the status remembers and nodes say.

    A kind of node on which it came to serve once is proved; one on which it failed first, by its own fault, is not
    given it any more, and no other kind is touched by that. As a whole it is good where it is proved on one kind, and
    bad where it is proved on none and has failed on one.
    """
    known = remembered(driver, revision)
    strata: dict[str, Result] = {one.key: one.result for one in known.strata} if known is not None else {}
    said = sorted(evidence, key=lambda one: (not one.good, one.since))
    for one in said:
        if one.good:
            strata[one.stratum] = "Good"
        elif known is None or one.since >= known.since:  # else a person has had it tried again since
            strata.setdefault(one.stratum, "Bad")
    found = {*strata.values(), known.result if known is not None else "Unproved"}
    return Results("Good" if "Good" in found else "Bad" if "Bad" in found else "Unproved", strata)
