"""`kubectl gpu`: from the command line to an exit status. A person's mistake is a sentence, never a trace."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kubectl_gpu.parser import build
from kubectl_gpu.terminal import forgive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FAILED, INTERRUPTED = 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = build()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser, always_complete_options=False)
    forgive()
    args = parser.parse_args(argv)
    if args.command == "completion":
        from kubectl_gpu.completion import script
        from kubectl_gpu.terminal import print_lines

        print_lines([script(args.shell).rstrip("\n")])
        return 0
    return _in_cluster(args)


def _in_cluster(args: argparse.Namespace) -> int:
    import asyncio

    from controllers.explain.faults import UsageError, describe_fault
    from controllers.runtime.errors import RuntimeFault
    from kubectl_gpu.terminal import warn

    try:
        return asyncio.run(_command(args))
    except UsageError as error:
        warn(f"error: {error}")
    except RuntimeFault as error:
        warn(f"error: {describe_fault(error)}")
    except KeyboardInterrupt:
        return INTERRUPTED
    return FAILED


async def _command(args: argparse.Namespace) -> int:
    from kubectl_gpu import (
        assigning,
        backing_up,
        console,
        drivers,
        explaining,
        images,
        importing,
        keeping,
        kueue,
        listing,
        queueing,
        releasing,
        takeover,
        timeline,
        versions,
    )
    from kubectl_gpu.connecting import connected

    commands = {
        "nodes": listing.nodes,
        "cards": listing.cards,
        "pools": listing.pools,
        "versions": versions.versions,
        "driver": drivers.driver,
        "queue": queueing.queue,
        "release": releasing.release,
        "assign": assigning.assign,
        "unassign": assigning.unassign,
        "explain": explaining.explain,
        "timeline": timeline.timeline,
        "export": keeping.export,
        "apply": keeping.apply,
        "kueue": kueue.kueue,
        "takeover": takeover.takeover,
        "console": console.console,
        "backup": backing_up.backup,
        "restore": backing_up.restore,
    }
    # These need no cluster for what files tell.
    without = {"import": importing.import_, "images": images.images}
    if args.command in without and args.filename and not getattr(args, "apply", False):
        return await without[args.command](None, args)
    commands |= without
    async with connected(args, console.CONNECTIONS if args.command == "console" else 8) as cluster:
        return await commands[args.command](cluster, args)


def run() -> None:
    """The console script."""
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # `kubectl gpu cards | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = FAILED
    sys.exit(status)
