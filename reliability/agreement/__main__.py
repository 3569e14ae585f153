"""The command line of `make agreement`: `python -m reliability.agreement`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reliability.agreement import run
from reliability.agreement.tally import Sizes
from reliability.kit import command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reliability.agreement",
        description="Random pods on the real scheduler: how often the verdicts on nodes say the same.",
    )
    parser.add_argument("--dir", type=Path, default=command.RUN, help="where its data and results go (default: .run)")
    parser.add_argument("--pods", type=_some, default=1000, help="pods that are asked about (default: 1000)")
    parser.add_argument("--nodes", type=_some, default=60, help="nodes of a fleet, at most 99 (default: 60)")
    parser.add_argument("--pools", type=_some, default=5, help="pools of a fleet (default: 5)")
    parser.add_argument("--seed", type=command.count, default=1, help="another one asks otherwise (default: 1)")
    parser.add_argument(
        "--keep", type=Path, help="where pods on which they differ are kept (default: agreement-cases below --dir)"
    )
    parser.add_argument(
        "--examples",
        type=command.count,
        default=0,
        help="keep so many pods on which they agree, too, each refused for other reasons (default: 0)",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


def _some(text: str) -> int:
    if (number := command.count(text)) == 0:
        raise argparse.ArgumentTypeError("at least 1 is needed, got 0")
    return number


def main(argv: list[str] | None = None) -> int:
    """Ask and compare; returns the exit status."""
    args = _parser().parse_args(argv)
    sizes = Sizes(args.pods, args.nodes, args.pools, args.seed, args.examples)
    keep = args.keep or args.dir / "agreement-cases"
    return command.run(lambda: run.agree(args.dir, sizes, keep, args.output))


if __name__ == "__main__":
    sys.exit(main())
