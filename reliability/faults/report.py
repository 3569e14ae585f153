"""The report of a campaign as text: numbers by kind of fault and workload, each failure with its replay. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from reliability.faults import outcomes, plans
from reliability.faults.outcomes import OUTCOMES
from reliability.faults.plans import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MASKED_SHOWN = 5
MISSED_SHOWN = 30
"""Plans of which it is said by name that they found nothing to strike."""


def text(
    results: Iterable[Mapping[str, Any]],
    code: str,
    planned: Sequence[str] = (),
    masked: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The whole report; `planned`: the plans that were to be run, references aside; `masked`: paths by workload."""
    every = sorted(results, key=lambda r: r["plan"])
    chosen = planned or [str(r["plan"]) for r in every if not _is_reference(r)]
    wanted, run, missed = outcomes.counts(every, chosen)
    lines = [f"Fault campaign over code {code}: {wanted} plans, {run} run, {missed} not reached", ""]
    lines += _table("kind of fault", [name for name, *_ in plans.GROUPS], every, _group)
    lines += ["", *_table("workload", sorted({_workload(r) for r in every}), every, _workload)]
    lines += ["", *_recovery(every), ""]
    for outcome, said in (
        (outcomes.FAILED, "FAILED"),
        (outcomes.ONCE, "FAILED ONE RUN OF TWO, not counted:"),
    ):
        for result in every:
            if result["outcome"] == outcome:
                lines += _told(result, said)
    lines += each_unjudged(every) + _missed(every) + _masked(masked or {})
    numbers = Counter(result["outcome"] for result in every)
    if run < wanted:
        lines.append(f"incomplete: {wanted - run} plans were not run")
    lines += outcomes.excess(every, chosen)
    lines.append(unjudged(every, chosen))
    lines.append(f"{numbers[outcomes.ONCE]} failed one run of two and not the other")
    lines.append(f"{numbers[outcomes.FAILED]} failures")
    return "\n".join(lines)


def _told(result: Mapping[str, Any], said: str) -> Iterator[str]:
    yield f"{said} {result['plan']}" + (f" (struck: {result['struck']})" if result.get("struck") else "")
    yield from (f"    {sentence}" for sentence in result["failures"])
    yield f"    {_why(result)}"
    yield f"    replay: python -m reliability.faults run {shlex.quote(result['plan'])}"
    yield ""


def _why(result: Mapping[str, Any]) -> str:
    """How it came to count as it does."""
    if result.get("certain"):
        return "an invariant or an exception: certain, in whichever run"
    if "attempts" not in result:
        return "not run again: what fails without breaking an invariant is to fail twice"
    if result["outcome"] != outcomes.FAILED:
        return "a difference that did not come again"
    both = all(attempt["outcome"] == outcomes.FAILED for attempt in result["attempts"])
    return "failed in both runs" if both else "failed, and the other run says nothing: its fault struck nothing"


def unjudged(results: Iterable[Mapping[str, Any]], planned: Iterable[str]) -> str:
    """How many plans were not judged by all that they are to be."""
    found, names = list(results), list(planned)
    count, (_, run, _) = outcomes.unjudged(found, names), outcomes.counts(found, names)
    return f"{count} of {run} not judged by how often they wrote and how long they took, since the machine was busy"


def each_unjudged(every: Sequence[Mapping[str, Any]]) -> list[str]:
    """What would have failed on a machine that had time, with what the machine gave."""
    lines = []
    for result in every:
        if result["outcome"] == outcomes.NOT_JUDGED:
            lines += [f"not judged: {result['plan']}: {result['busy']}", *(f"    {said}" for said in result["paced"])]
    return [*lines, ""] if lines else []


def _missed(every: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [result["plan"] for result in every if result["outcome"] == outcomes.NOT_REACHED]
    more = [f"    … and {len(names) - MISSED_SHOWN} more"] if len(names) > MISSED_SHOWN else []
    return ["not reached:", *(f"    {name}" for name in names[:MISSED_SHOWN]), *more, ""] if names else []


def _table(title: str, rows: list[str], every: list[Mapping[str, Any]], of: Any) -> list[str]:
    counts = Counter((of(result), result["outcome"]) for result in every)
    lines = [f"{title:24}" + "".join(f"{outcome:>13}" for outcome in OUTCOMES)]
    for row in [*rows, "all"]:
        numbers = [
            sum(n for (found, outcome), n in counts.items() if outcome == wanted and row in (found, "all"))
            for wanted in OUTCOMES
        ]
        lines.append(f"{row:24}" + "".join(f"{number:13}" for number in numbers))
    return lines


def _recovery(every: list[Mapping[str, Any]]) -> list[str]:
    lines = [f"{'seconds that it cost':24}{'median':>13}{'worst':>13}  of"]
    for name, *_ in plans.GROUPS[1:]:
        found = sorted(
            (r.get("recovery", 0.0), r["plan"]) for r in every if _group(r) == name and r["outcome"] == "passed"
        )
        if found:
            (median, _), (worst, which) = found[len(found) // 2], found[-1]
            lines.append(f"{name:24}{median:13.1f}{worst:13.1f}  {which}")
    return lines


def _group(result: Mapping[str, Any]) -> str:
    fault = Plan.parse(result["plan"]).fault
    return next(name for name, faults, _ in plans.GROUPS if fault in faults)


def _workload(result: Mapping[str, Any]) -> str:
    return Plan.parse(result["plan"]).workload


def _masked(found: Mapping[str, Sequence[str]]) -> list[str]:
    """What nobody compares, for a person to judge: runs without a fault that end differently may be a bug, too."""
    lines = []
    for workload, paths in sorted(found.items()):
        if paths:
            more = [f"    … and {len(paths) - MASKED_SHOWN} more"] if len(paths) > MASKED_SHOWN else []
            lines += [f"not compared in {workload}, since its references differ in it:"]
            lines += [*(f"    {path}" for path in paths[:MASKED_SHOWN]), *more]
    return [*lines, ""] if lines else []


def _is_reference(result: Mapping[str, Any]) -> bool:
    return Plan.parse(result["plan"]).fault == plans.REFERENCE
