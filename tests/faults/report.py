"""The report of a campaign as text: numbers by kind of fault and workload, each failure with its replay. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.faults import plans
from tests.faults.plans import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OUTCOMES = ("passed", "failed", "not reached")


def text(results: Iterable[Mapping[str, Any]], code: str) -> str:
    """The whole report."""
    every = sorted(results, key=lambda r: r["plan"])
    lines = [f"Fault campaign over code {code}: {len(every)} runs", ""]
    lines += _table("kind of fault", [name for name, *_ in plans.GROUPS], every, _group)
    lines += ["", *_table("workload", sorted({_workload(r) for r in every}), every, _workload)]
    lines += ["", *_recovery(every), ""]
    failed = [r for r in every if r["outcome"] == "failed"]
    for result in failed:
        lines.append(f"FAILED {result['plan']}" + (f" (struck: {result['struck']})" if result.get("struck") else ""))
        lines += [f"    {sentence}" for sentence in result["failures"]]
        lines += [f"    replay: python -m tests.faults run {result['plan']}", ""]
    lines.append(f"{len(failed)} failures")
    return "\n".join(lines)


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
    lines = [f"{'time to rest, seconds':24}{'median':>13}{'worst':>13}  of"]
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
