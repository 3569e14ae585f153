"""`make gpu`: what of the node agent meets a card, on this machine's own cards; reads only, and keeps a recording."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.runtime import logs
from nodeagent.discover.scan import NodeScanner
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.facts.cards import is_one
from nodeagent.host.paths import add_path_flags, host_paths
from nodeagent.host.sysfs import ScanError
from nodeagent.validate.checks.facts import NVIDIA
from tests.gpu import recording
from tests.gpu.steps import FAILED, Machine

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = (
    "Discovers and validates this machine's cards (CUDA too), asks NVML for their health, has NVIDIA's toolkit name "
    "them for CDI, and offers them to a kubelet that is played. Needs no cluster, and no more rights than the device "
    "nodes ask for; changes nothing. Where there is no card, or no driver, it says so and ends with status 0."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps; 1 where one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=DESCRIPTION)
    add_path_flags(parser)
    parser.add_argument("--dev", type=Path, default=Path("/dev"), help="folder of device nodes (default: /dev)")
    parser.add_argument(
        "--own-root", type=Path, default=Path("/"), help="whose libraries and /dev are used (default: /)"
    )
    parser.add_argument("--keep", type=Path, default=Path(".run/gpu/recording.json"), help="where the recording goes")
    args = parser.parse_args(argv)
    logs.configure("gpu", "Error")
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    where = host_paths(args)
    asker = DriverProbe(where.library_roots, Timing())
    try:
        facts = await NodeScanner(where, asker).scan()
    except ScanError as error:
        return _say(f"not run: the PCI bus cannot be read here ({error})")
    finally:
        await asker.close()
    cards = [card for card in facts.bus.functions if card.vendor == NVIDIA and is_one(card)]
    if not cards:
        return _say("not run: there is no NVIDIA card on this machine's PCI bus")
    if facts.driver is None:
        return _say(f"not run: {len(cards)} NVIDIA cards, and their driver is not loaded; modprobe nvidia")
    steps = await Machine(where, args.dev, args.own_root, facts).steps()
    for step in steps:
        _say(f"{step.result:8} {step.name:19} {step.told}")
    recording.write(args.keep, facts, steps)
    _say(f"\nrecording: {args.keep}; in tests/data/gpu it is a test of every run")
    return int(any(step.result == FAILED for step in steps))


def _say(text: str) -> int:
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
