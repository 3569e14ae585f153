"""nodeagent validate: flags and wiring only."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names, validation
from controllers.runtime import logs
from controllers.runtime.process import Process, arguments, main
from nodeagent.host.driver_probe import PATIENCE, DriverProbe, Timing
from nodeagent.host.paths import add_path_flags, add_timing, host_paths, seconds
from nodeagent.host.program import add_node, live, own_report
from nodeagent.validate import once
from nodeagent.validate.checks import report
from nodeagent.validate.checks.difference import manager
from nodeagent.validate.cuda_trials import Trials
from nodeagent.validate.publish import Publisher
from nodeagent.validate.scanner import FABRIC_GRACE, NodeScanner

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = "Checks that the node's GPU cards can be used, and keeps its results in NodeFeature gpu-<node>."
FAILED = 1


def parser() -> argparse.ArgumentParser:
    """The program's flags; folders of the host come from the environment in a pod."""
    made = arguments(names.MANAGER_VALIDATE, DESCRIPTION)
    made.add_argument(
        "role", choices=validation.ROLES, help="driver: on the host; container: in one that has the cards"
    )
    add_node(made, once="look once, print it and end (1: not ok); needs no cluster")
    add_path_flags(made)
    own = Path(os.environ.get("CONTAINER_ROOT") or "/")
    made.add_argument(
        "--own-root", type=Path, default=own, help="root of this container (default: CONTAINER_ROOT, else /)"
    )
    add_timing(made, "--period", 30.0, "between two looks")
    about = "how long NVLink's fabric may take to come up, in seconds"
    made.add_argument("--fabric-grace", type=seconds, default=FABRIC_GRACE, help=about)
    about = "do not try CUDA on the cards, which role container else does once in a boot"
    made.add_argument("--no-cuda", dest="cuda", action="store_false", help=about)
    return made


def make_scanner(args: argparse.Namespace) -> NodeScanner:
    """What looks at the node."""
    where = host_paths(args)
    own = (args.own_root,)
    timing, patience = Timing(args.driver_period, args.driver_deadline), None if args.once else PATIENCE
    wanted = args.cuda and args.role == validation.CONTAINER
    return NodeScanner(
        args.role,
        where,
        DriverProbe(where.library_roots if args.role == validation.DRIVER else lambda: own, timing),
        args.own_root,
        trials=Trials(own, timing, patience) if wanted else None,
        fabric_grace=args.fabric_grace,
    )


async def wire(process: Process) -> None:
    """Connect the scanner and the watch of the node's report, and live."""
    args, store = process.args, own_report(process)
    looking = make_scanner(args)
    publisher = Publisher(
        process.executor, store, looking, node=args.node, period=args.period, slack=args.driver_deadline
    )
    process.health.check("the API server has this run's result", lambda: publisher.confirmed)
    process.health.check(f"the node passes as {args.role}", lambda: publisher.passes)
    await live(process, publisher.run, looking.close)


async def _once(args: argparse.Namespace) -> int:
    facts = await make_scanner(args).scan()
    found = report.evaluate(args.role, facts)
    sys.stdout.write(once.show(args.role, facts, found, args.output))
    return 0 if found.result == validation.OK else FAILED


def run(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    flags = list(sys.argv[1:] if argv is None else argv)
    args = parser().parse_args(flags)
    if args.once:
        logs.configure(names.MANAGER_VALIDATE, "Error")
        return asyncio.run(_once(args))
    return main(parser(), manager(args.role), wire, flags)


if __name__ == "__main__":
    sys.exit(run())
