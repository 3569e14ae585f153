"""What a soak says in the end: checks, a table, and everything as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table

from reliability.kit import report
from reliability.soak.slopes import CONFIDENCE

if TYPE_CHECKING:
    from collections import Counter

    from reliability.soak.run_loop import Course
    from reliability.soak.verdicts import Row

WIDTH = 150


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must not be, and what was found of it."""

    name: str
    found: Sequence[str] = ()

    @property
    def met(self) -> bool:
        """Whether nothing was found."""
        return not self.found


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is told."""

    machine: dict[str, Any]
    minutes: float
    seed: int
    cycles: int
    judged: int
    """Cycles after the warm-up."""
    rows: Sequence[Row]
    checks: Sequence[Check]
    done: Counter[str]
    refused: Counter[str]
    facts: dict[str, Any] = field(default_factory=dict)
    """Figures that no limit is for."""

    @property
    def met(self) -> bool:
        """Whether no slope misses its limit, and nothing was found that must not be."""
        return all(check.met for check in self.checks) and all(row.verdict != "missed" for row in self.rows)

    def to_json(self, course: Course) -> dict[str, Any]:
        """All of it, with what was read on the way; times are seconds from the churn's begin."""
        begin = course.ends[0].at
        return {
            "met": self.met,
            "minutes": self.minutes,
            "seed": self.seed,
            "cycles": self.cycles,
            "judged": self.judged,
            "machine": self.machine,
            "rows": [row.to_json() for row in self.rows],
            "checks": [{"check": one.name, "met": one.met, "found": list(one.found)} for one in self.checks],
            "done": dict(self.done),
            "refused": dict(self.refused),
            "facts": self.facts,
            "ends": [{**asdict(end), "at": round(end.at - begin, 1)} for end in course.ends],
            "readings": [
                {name: {**asdict(one), "at": round(one.at - begin, 1)} for name, one in at_once.items()}
                for at_once in course.readings
            ],
        }


def show(outcome: Outcome) -> None:
    """Print it on standard output; plain text where it is no terminal."""
    console = report.console(WIDTH)
    title = (
        f"{outcome.minutes:g} minutes of churn, {outcome.judged} of {outcome.cycles} cycles judged,"
        f" seed {outcome.seed}; {report.hardware(outcome.machine)}"
    )
    table = Table(title=title, title_justify="left")
    for name in ("process", "quantity"):
        table.add_column(name, no_wrap=True)
    for name in ("first", "last", "growth an hour", f"{CONFIDENCE:.1%} range", "limit"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    before = ""
    for row in outcome.rows:
        table.add_row(*_cells(row, before), report.verdict(row.verdict))
        before = row.process
    console.print(table)
    console.print("done: " + _counted(outcome.done), markup=False)
    console.print("came again: " + (_counted(outcome.refused) or "never"), markup=False)
    for name, value in outcome.facts.items():
        console.print(f"{name}: {value}", markup=False)
    for check in outcome.checks:
        console.print(f"{'met   ' if check.met else 'MISSED'} {check.name}", markup=False)
        for text in check.found:
            console.print(f"         {text}", markup=False)


def _cells(row: Row, before: str) -> tuple[str, ...]:
    def amount(value: float) -> str:
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"

    name = f"{row.name}, {row.unit}" if row.unit else row.name
    slope = row.slope
    return (
        row.process if row.process != before else "",
        name,
        amount(row.first),
        amount(row.last),
        f"{slope.value:+,.2f}",
        f"{slope.low:+,.2f} … {slope.high:+,.2f}",
        "" if row.limit is None else f"{row.limit:,.2f}",
    )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
