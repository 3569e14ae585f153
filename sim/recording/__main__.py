"""Runs the commands of the pages on a cluster of their own, and writes their output.

python -m sim.recording [PAGE ...]    these pages, or all that have such commands
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim.recording.record import PAGES, record
from tools.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def main(argv: list[str] | None = None) -> int:
    """Record; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sim.recording", description="Write what the docs' commands print.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="; ".join(PAGES))
    pages = parser.parse_args(argv).pages or PAGES
    if unknown := sorted({*pages} - {*PAGES}):
        parser.error(f"nothing is run of {', '.join(unknown)}")
    try:
        record(ROOT, pages)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
