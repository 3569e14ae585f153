"""What programs of the driver print, as a person reads it in a reason."""

from __future__ import annotations

from typing import Final

TEXT_MAX: Final = 400
"""Characters of it that are kept."""


def one_line(printed: str) -> str:
    """The end of what a program printed, in one line."""
    lines = (line.strip() for line in printed.splitlines())
    return " / ".join(filter(None, lines))[-TEXT_MAX:]
