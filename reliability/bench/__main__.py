"""The command line of `make bench`: `python -m reliability.bench`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reliability.bench import run
from reliability.bench.rows import Sizes
from reliability.kit import command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reliability.bench",
        description="Measure against the budgets; prints a table, writes bench.json.",
    )
    parser.add_argument("--dir", type=Path, default=command.RUN, help="where its data and results go (default: .run)")
    parser.add_argument(
        "--nodes",
        type=command.count,
        default=500,
        help="nodes with 8 cards for the cold start and the changes, twice as many for monitoring (default: 500)",
    )
    parser.add_argument(
        "--large", type=command.count, default=2000, help="nodes with 8 cards for the large cold start (default: 2000)"
    )
    parser.add_argument(
        "--bare",
        type=command.count,
        default=60,
        help="nodes without a driver that join; the budgets are for 1,000 (default: 60)",
    )
    parser.add_argument(
        "--batch",
        type=command.count,
        default=1000,
        help="nodes without a driver that join at once, at most; the next when these are in service (default: 1000)",
    )
    parser.add_argument(
        "--roll",
        type=command.count,
        default=60,
        help="nodes onto which another driver version comes, 50 to a pool; the budgets are for 1,000 (default: 60)",
    )
    parser.add_argument(
        "--takeover", type=command.count, default=100, help="nodes that go over from GPU Operator (default: 100)"
    )
    parser.add_argument(
        "--only",
        action="append",
        help="one theme, such as coldstart, webhook or burst (a wrong one lists them); may be given several times",
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Measure; returns the exit status."""
    args = _parser().parse_args(argv)
    sizes = Sizes(
        args.nodes,
        large_nodes=args.large,
        monitored_nodes=2 * args.nodes,
        driver_nodes=args.bare,
        batch=args.batch,
        roll_nodes=args.roll,
        roll_pools=max(1, args.roll // 50),
        takeover_nodes=args.takeover,
    )
    return command.run(lambda: run.measure(args.dir, sizes, args.only))


if __name__ == "__main__":
    sys.exit(main())
