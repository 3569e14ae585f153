"""How much is asked, what came of it, and the bars that it is compared with. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from reliability.agreement.records import Question


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is asked."""

    pods: int
    nodes: int = 60
    pools: int = 5
    seed: int = 1
    examples: int = 0
    """Cases that are kept although nothing differs, each with another set of reasons."""


@dataclass(slots=True)
class Tally:
    """What came of it."""

    pods: int = 0
    bound: int = 0
    unknown: int = 0
    """Pods for which something decides that no verdict looks at."""
    asked: Counter[Question] = field(default_factory=Counter)
    differ: Counter[Question] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """How many pods were refused for a reason on at least one node."""
    lines: list[str] = field(default_factory=list)
    kinds: set[frozenset[str]] = field(default_factory=set)


BARS: Final[dict[Question, float]] = {"bound": 0.999, "node": 0.999, "reasons": 0.99}


def summary(tally: Tally) -> dict[str, Any]:
    """A tally as rows and facts."""
    rows = []
    for question, bar in BARS.items():
        asked_of, differ = tally.asked[question], tally.differ[question]
        share = (asked_of - differ) / asked_of if asked_of else 0.0
        rows.append(
            {"question": question, "asked": asked_of, "differ": differ, "share": share, "bar": bar, "met": share >= bar}
        )
    return {
        "rows": rows,
        "pods": tally.pods,
        "bound": tally.bound,
        "unknown": tally.unknown,
        "reasons": dict(tally.reasons.most_common()),
        "differences": tally.lines,
    }
