"""The library from a shell: `python -m sim.nvml build|config SHAPE`."""

from __future__ import annotations

import argparse
import sys

from sim.hardware import load
from sim.nvml.build import build
from sim.nvml.config import VARIABLE, Config
from tools.errors import UserError
from tools.programs import for_stream

EPILOG = f"""
A program that uses NVIDIA's driver library, on a machine without a card:
  python -m sim.nvml config h100-sxm-8 > cards.conf
  export {VARIABLE}=$PWD/cards.conf LD_LIBRARY_PATH=$(dirname $(python -m sim.nvml build))
The file may be changed while the program runs; all its lines are in sim/nvml/README.md.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sim.nvml",
        description="A stand-in for NVIDIA's driver library (libnvidia-ml.so.1) that serves what a text file says.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("build", help="compile the library where the cache does not have it, and print its path")
    config = commands.add_parser("config", help="print the configuration of a simulated machine")
    config.add_argument("shape", metavar="SHAPE", help="a machine of the catalogue; a wrong one lists them")
    config.add_argument("--node", default="node", help="name of the node, from which the cards' uuids follow")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit status, 1 where a person has something to repair."""
    args = _parser().parse_args(argv)
    try:
        if args.command == "build":
            sys.stdout.write(f"{build(for_stream())}\n")
        else:
            sys.stdout.write(Config.of(load().shape(args.shape), args.node).text())
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
