"""How a message names several things. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN = 5
"""Things that a sentence names one by one."""


def listed(items: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    found = list(items)
    rest = len(found) - SHOWN
    return ", ".join(found[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
