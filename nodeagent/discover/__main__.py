"""nodeagent discover: flags and wiring only."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.runtime import logs
from controllers.runtime.process import Process, arguments, main
from nodeagent.discover import once
from nodeagent.discover.publish import Publisher
from nodeagent.discover.scan import NodeScanner
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.paths import add_path_flags, add_timing, host_paths
from nodeagent.host.program import add_node, live, own_report
from nodeagent.host.sysfs import ScanError

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = "Finds the node's GPU cards and keeps NodeFeature gpu-<node> equal to what it finds."


def parser() -> argparse.ArgumentParser:
    """The program's flags; folders of the host come from the environment in a pod."""
    made = arguments(names.MANAGER_DISCOVER, DESCRIPTION)
    add_node(made, once="look once, print what is found and end; needs no cluster")
    add_path_flags(made)
    add_timing(made, "--scan-period", 10.0, "between two looks at the bus")
    return made


def scanner(args: argparse.Namespace) -> NodeScanner:
    """What looks at the node."""
    where = host_paths(args)
    return NodeScanner(where, DriverProbe(where.library_roots, Timing(args.driver_period, args.driver_deadline)))


async def wire(process: Process) -> None:
    """Connect the scanner and the watch of the node's own report, and live."""
    args, store = process.args, own_report(process)
    looking = scanner(args)
    publisher = Publisher(
        process.executor, store, looking, node=args.node, period=args.scan_period, slack=args.driver_deadline
    )
    process.health.check("the API server has this run's report", lambda: publisher.confirmed)
    process.health.check("the last scan is recent", lambda: publisher.fresh)
    await live(process, publisher.run, looking.probe.close)


async def _once(args: argparse.Namespace) -> int:
    try:
        facts = await scanner(args).scan()
    except ScanError as error:
        print(f"{names.MANAGER_DISCOVER}: {error}. Is --sys the host's sysfs?", file=sys.stderr)  # noqa: T201
        return 2
    sys.stdout.write(once.show(facts, args.output))
    return 0


def run(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    flags = list(sys.argv[1:] if argv is None else argv)
    args = parser().parse_args(flags)
    if args.once:
        logs.configure(names.MANAGER_DISCOVER, "Error")
        return asyncio.run(_once(args))
    return main(parser(), names.MANAGER_DISCOVER, wire, flags)


if __name__ == "__main__":
    sys.exit(run())
