"""The command line of `make soak`: `python -m reliability.soak`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reliability.kit import command
from reliability.soak import run
from reliability.soak.run_loop import Length


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reliability.soak",
        description="Churn for half an hour; slopes of memory, descriptors, tasks, requests.",
    )
    parser.add_argument("--dir", type=Path, default=command.RUN, help="where its data and results go (default: .run)")
    parser.add_argument("--minutes", type=_minutes, default=30.0, help="of churn (default: 30); at least 3")
    parser.add_argument(
        "--seed", type=command.count, default=1, help="another one lets pods come otherwise (default: 1)"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 3 <= minutes <= 24 * 60:
        raise argparse.ArgumentTypeError(f"minutes of churn are 3 to 1440, got {text!r}")
    return minutes


def main(argv: list[str] | None = None) -> int:
    """Soak; returns the exit status."""
    args = _parser().parse_args(argv)
    return command.run(lambda: run.soak(args.dir, Length(60 * args.minutes), args.seed, args.output))


if __name__ == "__main__":
    sys.exit(main())
