"""What the theme `change` found, as rows. Times in seconds where the row does not say ms."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from reliability.bench.quiet import LIMIT
from reliability.bench.rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reliability.bench.stats import Summary

OBJECTS = 2
"""What one change concerns: the card, and its node's summary, which names its memory."""


@dataclass(frozen=True, slots=True)
class Round:
    """One series of changes."""

    card: Summary
    """From the change's request being sent to the card's new value being seen."""
    answered: Summary
    """The same from the answer to that request on."""
    summary: Summary
    """From the request being sent to the node's new summary being seen."""
    late: Summary
    """How much later than planned the benchmark sent the requests."""
    writes: float
    """Of the process, by its own count."""
    changed: int
    """Different objects, cards and summaries, that the watches brought."""
    events: int
    """How often they brought them."""
    cpu_a_change: float
    """Of the process."""
    stall: float
    """The process's longest of its event loop, that for the reading of its metrics before included."""
    others: float
    """Cores that others took meanwhile."""


@dataclass(frozen=True, slots=True)
class Floor:
    """One series of raw writes."""

    card: Summary
    """From the request being sent to the card's new value being seen."""
    others: float


@dataclass(frozen=True, slots=True)
class Unread:
    """What changes in parts of reports that nobody reads have caused."""

    touched: int
    writes: float
    reconciles: float


@dataclass(frozen=True, slots=True)
class Found:
    """All that was measured."""

    rounds: list[Round]
    floors: list[Floor]
    unread: Unread
    reading: float
    """The stall of the process's event loop for one reading of its metrics."""
    rss_mb: float


def undisturbed(rounds: Sequence[Round]) -> list[Round]:
    """Those that had the machine for themselves."""
    return [one for one in rounds if one.others <= LIMIT]


def rows(found: Found, nodes: int, a_second: float) -> tuple[Row, ...]:
    """The table's rows."""
    rounds, floors = found.rounds, found.floors
    alone, quiet = undisturbed(rounds), [floor for floor in floors if floor.others <= LIMIT] or floors
    counted = alone or rounds
    changes = sum(one.card.count for one in rounds)
    note = "" if len(alone) == len(rounds) else f"{len(alone)} of {len(rounds)} rounds undisturbed"
    title = f"NodeFeature change → GPUDevice, {nodes} nodes, {a_second:g} changes/s"

    def ms(take: Callable[[Round], float]) -> float:
        return 1000 * median(take(one) for one in counted)

    def floor(take: Callable[[Summary], float]) -> float:
        return 1000 * median(take(one.card) for one in quiet)

    return (
        Row(f"{title}: p99", ms(lambda r: r.card.p99), "ms", 1, at_most=250.0, judged=bool(alone), note=note),
        Row("  p50", ms(lambda r: r.card.p50), "ms", 1),
        Row("  p99 from the change's answer on", ms(lambda r: r.answered.p99), "ms", 1),
        Row("  p50 from the change's answer on", ms(lambda r: r.answered.p50), "ms", 1),
        Row("  p99 of one raw write of a GPUDevice's status, by the same watch", floor(lambda s: s.p99), "ms", 1),
        Row("  p50 of one raw write of a GPUDevice's status, by the same watch", floor(lambda s: s.p50), "ms", 1),
        Row("  p99 to the node's summary", ms(lambda r: r.summary.p99), "ms", 1),
        Row(
            "  writes ÷ changed objects",
            sum(one.writes for one in rounds) / (OBJECTS * changes),
            exactly=1.0,
            note=f"{changes} changes of {OBJECTS} objects each",
        ),
        Row(
            "  objects changed that no change concerned",
            sum(one.changed for one in rounds) - OBJECTS * changes,
            digits=0,
            exactly=0.0,
        ),
        Row(
            f"  writes for {found.unread.touched} changes of what is not read", found.unread.writes, "", 0, exactly=0.0
        ),
        Row("  CPU for one change", ms(lambda r: r.cpu_a_change), "ms"),
        Row("  longest stall of the event loop", 1000 * max(r.stall for r in rounds), "ms", 0, at_most=50.0),
        Row("  stall for one reading of its metrics", 1000 * found.reading, "ms", 0),
        Row("  peak RSS", found.rss_mb, "MB", 0),
    )
