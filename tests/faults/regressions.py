"""Plans that found a bug, each with what it found; the smoke runs those of its workloads, a campaign all."""

from __future__ import annotations

from typing import Final

from tests.faults.plans import Plan

FOUND: Final[dict[str, str]] = {}
"""What each found, by the plan's name."""
REGRESSIONS: Final = tuple(map(Plan.parse, FOUND))
