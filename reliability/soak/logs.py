"""What a process's log says of trouble. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

UNHANDLED = re.compile(r"Traceback \(most recent call last\)|was never retrieved|was never awaited|Unclosed ")
SHOWN = 400
"""Characters of a line that are told."""


def errors(lines: Iterable[str]) -> list[str]:
    """Lines that tell of an error, or of an exception that nobody took."""
    return [line[:SHOWN] for line in lines if UNHANDLED.search(line) or _level(line)[0] in ("error", "critical")]


def warnings(lines: Iterable[str]) -> Counter[str]:
    """How often each event was told as a warning."""
    told = (_level(line) for line in lines)
    return Counter(event for level, event in told if level == "warning")


def _level(line: str) -> tuple[str, str]:
    try:
        entry = orjson.loads(line)
    except ValueError:
        return "", ""
    return (str(entry.get("level", "")), str(entry.get("event", ""))) if isinstance(entry, dict) else ("", "")
