"""Files that people name on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from controllers.explain.faults import UsageError


def text_of(source: str) -> str:
    """The text of a file, `-` for standard input; raises UsageError."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source} cannot be read: {error}") from error
