"""What an explanation is made of: one verdict, then findings, each from its symptom to its cure. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from controllers.domain.wording import format_message

Level = Literal["good", "note", "warning", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    level: Level
    text: str
    """Sentences: what was found."""
    do: str = ""
    """What to do about it; empty where there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer about one object."""

    kind: str
    name: str
    """With its namespace in front, where it has one."""
    verdict: str
    """One sentence that answers the question."""
    findings: tuple[Finding, ...] = ()
    unread: tuple[str, ...] = ()
    """Why something could not be looked at, a sentence each."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How a level looks."""

    sign: str
    plain: str
    """The same in ASCII."""
    tone: str


MARKS: dict[Level, Mark] = {
    "good": Mark("✓", "+", "green"),
    "note": Mark("·", "-", ""),
    "warning": Mark("!", "!", "yellow"),
    "bad": Mark("✗", "x", "red"),
}


def as_json(made: Explanation) -> dict[str, Any]:
    """The explanation for programs."""
    return asdict(made)


def lines(made: Explanation, *, ascii_only: bool) -> list[tuple[str, str]]:
    """The explanation for people: lines, each with its tone."""
    worst = next((f for level in ("bad", "warning") for f in made.findings if f.level == level), None)
    out = [(format_message(made.verdict), MARKS[worst.level].tone if worst else "green")]
    arrow = "->" if ascii_only else "→"
    for finding in made.findings:
        mark = MARKS[finding.level]
        out.append((f"  {mark.plain if ascii_only else mark.sign} {format_message(finding.text)}", mark.tone))
        if finding.do:
            out.append((f"    {arrow} {format_message(finding.do)}", ""))
    out += [(f"  ? {why}", "yellow") for why in made.unread]  # begins with a name, which keeps its spelling
    return out
