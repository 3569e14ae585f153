"""How results are shown and kept: a table on standard output, a file of JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sim.controlplane.state import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

_COLOURS = {"met": "green", "missed": "red", "info": "dim", "unsure": "yellow"}


def console(width: int) -> Console:
    """Standard output; plain text of so many columns where it is no terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else width)


def verdict(word: str) -> str:
    """A verdict (met, missed, info, unsure) in its colour, as rich's markup."""
    return f"[{_COLOURS[word]}]{word}[/]"


def hardware(machine: dict[str, Any]) -> str:
    """What the figures were measured on, of `machine.facts`, in a title's words."""
    return f"{machine['cores']} cores of {machine['cpu']}, Python {machine['python']}"


def results(started: float, **found: Any) -> dict[str, Any]:
    """What was found, with when the run began (epoch) and how many seconds it took."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started))
    return {"at": at, "seconds": round(time.time() - started, 1), **found}


def write_json(path: Path, found: dict[str, Any], default: Any = None) -> str:
    """Write results in one step; returns the text. `default`: of json.dumps, for values that JSON lacks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1, default=default) + "\n"
    write_atomically(path, text)
    return text
