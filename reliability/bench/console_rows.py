"""What the theme `console` found, as rows. Times in seconds where the row does not say ms. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reliability.bench.quiet import LIMIT
from reliability.bench.rows import Row
from reliability.bench.stats import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reliability.bench.rows import Sizes

BUDGET_NODES = 1000
"""For so many nodes the budgets are: fewer are shown, not held to them."""


@dataclass(frozen=True, slots=True)
class Times:
    """What is told of many latencies."""

    count: int
    least: float
    p50: float
    p95: float
    most: float


def times(found: Iterable[float]) -> Times:
    """Reduce latencies; raises ValueError where there are none."""
    values = sorted(found)
    return Times(len(values), min(values), percentile(values, 0.5), percentile(values, 0.95), max(values))


@dataclass(frozen=True, slots=True)
class Found:
    """All that was measured."""

    filled: float
    """From the backend's start to its first answer with rows."""
    first: float
    """From the request of one viewer, the first, to its whole snapshot."""
    snapshots: list[float]
    """The same for all viewers, who ask at once."""
    again: int
    """Snapshots that viewers got anew, since they were behind."""
    snapshot_bytes: int
    sent: Times
    """From a card's change being sent to the event at a viewer, for each change and viewer."""
    answered: Times
    """The same from the API server's answer on."""
    floor: Times
    """From a card's change being sent to the API server's answer."""
    bytes_a_change: float
    """To one viewer."""
    cpu_a_change: float
    """Of the backend, for all viewers."""
    quiet_bytes: int
    """To all viewers."""
    quiet_cpu: float
    """Cores of the backend."""
    filled_mb: float
    """The backend's peak RSS before the first viewer."""
    rss_mb: float
    """The same at the end."""
    others: float
    """Cores that others took while cards changed."""


def rows(found: Found, sizes: Sizes) -> tuple[Row, ...]:
    """The table's rows."""
    whole = sizes.console_nodes >= BUDGET_NODES
    viewers, pace = sizes.console_viewers, f"{sizes.console_changes_a_second:g} changes/s"
    title = f"console, {sizes.console_nodes} nodes × 8 cards, {viewers} viewers, {pace}: card's change → event"
    note = f"others took {found.others:.2f} cores" if found.others > LIMIT else ""
    quiet = f"  bytes to {viewers} viewers in {sizes.console_quiet:.0f} s without a change"
    return (
        Row(f"{title} p95", 1000 * found.sent.p95, "ms", 0, at_most=500.0, judged=whole, note=note),
        Row("  p50", 1000 * found.sent.p50, "ms", 0),
        Row("  p95 from the change's answer on", 1000 * found.answered.p95, "ms", 0),
        Row("  p95 of the API server's answer", 1000 * found.floor.p95, "ms", 0),
        Row("  first snapshot to the first viewer", found.first, "s", at_most=1.0, judged=whole),
        Row(f"  first snapshot to {viewers} who ask at once, the last", max(found.snapshots), "s"),
        Row("  a snapshot", found.snapshot_bytes / 1000, "kB", 0),
        Row("  a change to one viewer", found.bytes_a_change, "bytes", 0),
        Row("  snapshots that were sent anew", found.again, digits=0, exactly=0.0),
        Row("  CPU of the backend for one change", 1000 * found.cpu_a_change, "ms", 0),
        Row(quiet, found.quiet_bytes, "", 0, exactly=0.0),
        Row("  cores of the backend meanwhile", found.quiet_cpu, "", 3),
        Row("  rows after the start of the backend", found.filled, "s", 1),
        Row("  peak RSS of the backend", found.rss_mb, "MB", 0, at_most=150.0, judged=whole),
        Row("  before the first viewer", found.filled_mb, "MB", 0),
    )
