"""nodeagent discover: flags and wiring only."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names, resources
from controllers.api.nodefeature import NodeFeature
from controllers.runtime import logs
from controllers.runtime.errors import ConfigurationError
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from nodeagent.discover import once
from nodeagent.discover.ask import Asker, Timing
from nodeagent.discover.publish import Publisher
from nodeagent.discover.scan import Places, Scanner
from nodeagent.discover.sysfs import ScanError

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = "Finds the node's GPU cards and keeps NodeFeature gpu-<node> equal to what it finds."


def parser() -> argparse.ArgumentParser:
    """The program's flags; folders of the host come from the environment in a pod."""
    made = arguments(names.MANAGER_DISCOVER, DESCRIPTION)
    made.add_argument("--node", default=os.environ.get("NODE_NAME", ""), help="name of this node (default: NODE_NAME)")
    made.add_argument("--once", action="store_true", help="look once, print what is found and end; needs no cluster")
    made.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text", help="form of what --once prints"
    )
    host = made.add_argument_group("where the host's files are")
    for flag, variable, usual, about in (
        ("--sys", "HOST_SYS", "/sys", "sysfs"),
        ("--proc", "HOST_PROC", "/proc", "procfs"),
        ("--root", "HOST_ROOT", "/", "folders of the toolkit and of the driver's library"),
        ("--driver-root", "HOST_DRIVER_ROOT", "", "root of a driver that is installed in a container"),
    ):
        usual_text = f", else {usual}" if usual else ""
        default = Path(value) if (value := os.environ.get(variable) or usual) else None
        host.add_argument(flag, type=Path, default=default, help=f"{about} (default: {variable}{usual_text})")
    timing, usual_timing = made.add_argument_group("looking, in seconds"), Timing()
    timing.add_argument("--scan-period", type=seconds, default=10.0, help="between two looks at the bus")
    timing.add_argument(
        "--driver-period",
        type=seconds,
        default=usual_timing.period,
        help="between two questions to the driver at rest",
    )
    timing.add_argument(
        "--driver-deadline", type=seconds, default=usual_timing.deadline, help="after which it counts as silent"
    )
    return made


def seconds(text: str) -> float:
    """A positive number of seconds; the name stands in argparse's complaint."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def scanner(args: argparse.Namespace) -> Scanner:
    """What looks at the node."""
    places = Places(args.sys, args.proc, args.root, args.driver_root)
    return Scanner(places, Asker(places.library_roots, Timing(args.driver_period, args.driver_deadline)))


async def wire(process: Process) -> None:
    """Connect the scanner and the watch of the node's own report, and live."""
    args = process.args
    if not args.node:
        raise ConfigurationError("which node is this? Set NODE_NAME, or give --node; --once needs neither")
    only = Scope(namespace=names.NAMESPACE, fields=f"metadata.name={names.agent_feature(args.node)}")
    store = process.reflect(resources.NODEFEATURE, NodeFeature, scope=only)
    looking = scanner(args)
    publisher = Publisher(
        process.executor, store, looking, node=args.node, period=args.scan_period, slack=args.driver_deadline
    )
    process.health.check("the API server has this run's report", lambda: publisher.confirmed)
    process.health.check("the last scan is recent", lambda: publisher.fresh)
    try:
        await process.run(publisher.run, lease=None, namespace=names.NAMESPACE)
    finally:
        await looking.asker.close()


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
