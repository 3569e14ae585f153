"""`python -m controllers.install crds | cleanup`: flags, and the exit status (0 done, 1 not done, 2 cannot begin)."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from controllers.api import names
from controllers.install.work import clean, install, write_log
from controllers.runtime import logs
from controllers.runtime.client import Client
from controllers.runtime.errors import ConfigurationError, RuntimeFault

PROGRAM = "controllers.install"


def parser() -> argparse.ArgumentParser:
    """The flags."""
    made = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}", description="What comes before the module's processes and after them."
    )
    verbs = made.add_subparsers(dest="verb", required=True)
    crds = verbs.add_parser(
        "crds",
        help="install and upgrade the custom resources' definitions",
        description="Applies the definitions of the module's custom resources and waits until they are served. That of"
        " ModuleConfig is made only where nobody else has made it. Refuses a downgrade by which stored objects lose.",
    )
    crds.add_argument("--allow-downgrade", action="store_true", help="write definitions that lack what is stored, too")
    cleanup = verbs.add_parser(
        "cleanup",
        help="take everything away that the module's processes made",
        description="Ends the module's processes, then removes what they made: operands, labels and taints of nodes,"
        " finalizers, the custom resources and their definitions. Pods that run keep their cards. Can be repeated.",
    )
    cleanup.add_argument("--keep-records", action="store_true", help="keep the custom resources and their definitions")
    for verb, seconds in ((crds, 120.0), (cleanup, 300.0)):
        verb.add_argument("--kubeconfig", type=Path, help="kubeconfig file (default: the pod's own credentials)")
        verb.add_argument(
            "--timeout", type=float, default=seconds, metavar="SECONDS", help="give up after (default: %(default)g)"
        )
    return made


async def run(args: argparse.Namespace) -> bool:
    """The program that was asked for; returns whether it is through."""
    manager = names.MANAGER_CRDS if args.verb == "crds" else names.MANAGER_CLEANUP
    client = await Client.connect(args.kubeconfig, user_agent=manager)
    try:
        if args.verb == "crds":
            return await install(client, args.timeout, allow_downgrade=args.allow_downgrade)
        return await clean(client, args.timeout, keep_records=args.keep_records)
    finally:
        await client.close()


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    args = parser().parse_args(argv)
    logs.configure(PROGRAM, "Warn")
    try:
        return 0 if asyncio.run(run(args)) else 1
    except ConfigurationError as error:
        write_log(str(error))
        return 2
    except RuntimeFault as error:
        write_log(f"not done: {error}. It can be run again.")
        return 1


if __name__ == "__main__":
    sys.exit(main())
