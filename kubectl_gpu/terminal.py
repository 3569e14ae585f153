"""What is written for people: colours on a terminal only, progress on standard error."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

CONTROLS = re.compile("\x1b\\[[0-9]{1,2}m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Colours as `paint` writes them, and what moves a terminal's cursor, names its window or turns a text's direction."""
TONES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def is_coloured(stream: TextIO) -> bool:
    """Whether colours may go there (no-color.org: a NO_COLOR that is not empty forbids them)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, tone: str) -> str:
    """The text in its tone, where standard output shows colours."""
    code = TONES.get(tone)
    return f"\x1b[{code}m{text}\x1b[0m" if code and is_coloured(sys.stdout) else text


def is_ascii() -> bool:
    """Whether standard output can show nothing but ASCII."""
    try:
        "✓→".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return True
    return False


def forgive() -> None:
    """Have standard output and error write `?` for what they cannot show, such as a name's letters, and go on."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def shown(text: str) -> str:
    """The text as a terminal may have it: words of files and of the cluster give it no orders, but for colours."""
    return CONTROLS.sub(lambda found: found[0] if len(found[0]) > 1 else "�", text)


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output."""
    text = shown("".join(f"{line}\n" for line in lines))
    sys.stdout.write(text.replace("→", "->").replace("…", "...") if is_ascii() else text)


def warn(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{shown(text)}\n")


class Progress:
    """One line that is written over and over on a terminal, and not at all elsewhere."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, text: str) -> None:
        """Replace the line."""
        if not sys.stderr.isatty():
            return
        sys.stderr.write(f"\r{text.ljust(self._shown)}")
        sys.stderr.flush()
        self._shown = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write(f"\r{' ' * self._shown}\r")
            self._shown = 0
