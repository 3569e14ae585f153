"""How sentences say times: as ages for who reads them once, as times for who keeps them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from controllers.domain import clock
from controllers.explain.words import since, span


@dataclass(frozen=True, slots=True)
class Times:
    """Times in words."""

    now: float
    absolute: bool = False
    """Whether they are said as they are, in UTC: the sentence then stays the same while time passes."""

    def remaining(self, end: float) -> str:
        """`for 4m more`, or `until 2026-01-01T00:04:00Z`; `end` in Unix seconds."""
        return f"until {clock.stamp(end)}" if self.absolute else f"for {span(end - self.now)} more"

    def ago(self, stamp: str | None) -> str:
        """`4m ago`, or `at 2026-01-01T00:04:00Z`; `stamp` in RFC 3339."""
        return f"at {stamp or '<unknown>'}" if self.absolute else f"{since(stamp, self.now)} ago"

    def lasting(self, stamp: str | None) -> str:
        """`for 4m`, or `since 2026-01-01T00:04:00Z`; `stamp` in RFC 3339."""
        return f"since {stamp or '<unknown>'}" if self.absolute else f"for {since(stamp, self.now)}"
