"""How often a run wrote each object, and what of that exceeds its references and its fault's budget. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reliability.faults.process_proxy import Sent
    from reliability.faults.run_record import Budget, Reference, Run

SENT = ("ADDED", "MODIFIED")
PASSED_OVER = 2
"""Writes of an object for states that somebody sees where people do not wait, and nobody saw in any reference."""
SHOWN = 12
"""Sentences of one oracle that are told."""
UNCHANGED = "Unchanged by "
"""Begins the key of writes that left their object as it was."""
CONFLICT, NOT_FOUND = "Conflicts of ", "NotFound of "
"""Begin the keys of attempts that met another's write, and of those at an object that is gone."""
APART = {409: CONFLICT, 404: NOT_FOUND}
"""The same by the answer's status."""
CONFLICTS = 10
"""Attempts at one object that may meet others' writes, beside the reference's: more is a loop."""


RELEASES = "gpupool patch pods/"
"""Begins the key of the patches that take our gate off pods."""


def tally(run: Run) -> Counter[str]:
    """How often each process wrote each object, by verb, where attempts count; and how many Events each sent.

    Attempts that met another's write, or an object that is gone, are counted apart: how many there are is luck.
    """
    found = Counter(
        f"{APART[one.status]}{one.process} over {one.about}"
        if one.status in APART
        else f"{one.process} {one.verb} {one.about}"
        for one in run.sent
        if one.resource not in ("leases", "events")
    )
    found.update(f"{UNCHANGED}{one.process} {one.verb} {one.about}" for one in void(run))
    reporters = (r.object.get("reportingController") for r in run.history if r.key[0] == "Event" and r.type in SENT)
    found.update(f"Events of {reporter}" for reporter in reporters)
    return found


def void(run: Run) -> list[Sent]:
    """Writes that left their object as it was: what came before them had its version, too."""
    known = {str(obj["metadata"].get("resourceVersion", "")) for obj in run.initial.values()}
    found = []
    for one in sorted((one for one in run.sent if one.version), key=lambda one: one.at):
        if one.version in known:
            found.append(one)
        known.add(one.version)
    return found


def _kind(key: str) -> str:
    """The process, verb and resource of a key of `tally`, without the object."""
    return re.sub(r"/[^/]+", "/", key, count=1)


def writes(run: Run, reference: Reference, budget: Budget) -> list[str]:
    """Nothing was written more often than in the reference but for what the fault excuses: no hot loop, no flapping.

    Where people do not wait, each object of a kind that is written may be written as often as any of it, and for states
    that every reference happened to pass over: what somebody saw is luck.
    """
    return few([said for key, said in _more(run, reference, budget) if not key.startswith(UNCHANGED)])


def unchanged(run: Run, reference: Reference, budget: Budget) -> list[str]:
    """Nothing was written that was so already, but for what the fault excuses: no machine is a reason for that."""
    return few([said for key, said in _more(run, reference, budget) if key.startswith(UNCHANGED)])


def _more(run: Run, reference: Reference, budget: Budget) -> Iterator[tuple[str, str]]:
    """What of a tally is more than there may be, by its key."""
    most = Counter[str]()
    for key, count in reference.writes.items():
        most[_kind(key)] = max(most[_kind(key)], count)
    for key, count in sorted(tally(run).items()):
        more, usual = _due(key, budget), reference.writes[key]
        if reference.hasty and most[_kind(key)]:
            usual = most[_kind(key)] + (0 if key.startswith(("Events", *APART.values())) else PASSED_OVER)
        if count > usual + reference.spread[key] + more:
            yield key, f"{key}: written {count} times, {usual} in the reference, {more} more are due"


def _due(key: str, budget: Budget) -> int:
    """How much more than in the reference a fault with this budget excuses of a key of `tally`."""
    if key.startswith("Events"):
        return budget.events
    if key.startswith(CONFLICT):
        return CONFLICTS
    if key.startswith(NOT_FOUND):
        return max(budget.more, budget.not_found)
    return max(budget.more, budget.releases) if key.startswith(RELEASES) else budget.more


def few(found: list[Any]) -> list[str]:
    """The first of many sentences, and how many more there are."""
    more = len(found) - SHOWN
    return [*map(str, found[:SHOWN]), *([f"… and {more} more of these"] if more > 0 else [])]
