"""What files of tests usually take, and which control plane they ask for: hints for the order in which they run.

`usual-times.json` maps a file to {"seconds", "plane"}; `make test` on a machine with two cores wrote it
(`python -m tests.kit.usual` takes it over from `.run/test-times.json`). What is out of date there costs time and
nothing else: a file that it does not know is given to whoever is free.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USUAL = Path(__file__).with_name("usual-times.json")
TIMES = ROOT / ".run" / "test-times.json"
USAGE = "usage: python -m tests.kit.usual: keeps the times of the last `make test` as the usual ones"


@dataclass(frozen=True, slots=True)
class File:
    """One file of tests."""

    seconds: float = 0.0
    plane: str = ""
    """The name by which it asks for the worker's plane; empty where it needs none."""


@cache
def usual() -> dict[str, File]:
    """By path from the repository's root."""
    try:
        found = json.loads(USUAL.read_text())
    except FileNotFoundError:
        return {}
    return {path: File(**facts) for path, facts in found.items()}


def of(path: str) -> File:
    """What is known of a file; nothing of one that came since."""
    return usual().get(path, File())


def keep() -> int:
    """Take over what the last run measured; returns the exit status."""
    try:
        measured = json.loads(TIMES.read_text())["files"]
    except FileNotFoundError:
        sys.stderr.write(f"error: {TIMES.relative_to(ROOT)} is not there; `make test` writes it\n")
        return 1
    lines = [
        f" {json.dumps(path)}: {json.dumps({'seconds': round(facts['seconds'], 1), 'plane': facts['plane']})}"
        for path, facts in sorted(measured.items())
    ]
    USUAL.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(USAGE)
    sys.exit(keep())
