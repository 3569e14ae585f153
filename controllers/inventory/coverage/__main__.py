"""gpu-nfd-coverage, the command: flags, one reading or several, output, exit status."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import yaml

from controllers.api import names
from controllers.api.record import to_json
from controllers.inventory.coverage.comparison.compare import compare
from controllers.inventory.coverage.comparison.text import render
from controllers.inventory.coverage.read import Progress, Reader
from controllers.runtime.client import Client
from controllers.runtime.errors import Busy, Forbidden, NotFound, RuntimeFault, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.inventory.coverage.comparison.result import Result

PROG = names.COVERAGE
EXIT_OK, EXIT_FINDINGS, EXIT_UNUSABLE, EXIT_INTERRUPTED = 0, 1, 2, 130
POLL_SECONDS = 2.0
DESCRIPTION = """\
Compares, for each node, the labels that NodeFeatureRule gives for what Node
Feature Discovery reports with those of the node, and the cards that the agent
there reports with the GPUDevices; lists card models that the catalogue does not
know, with an entry to add. Reads only.
"""
EXIT_STATUS = """\
exit status:
  0  all is as expected (notes and unknown models are shown and do not count,
     but for --strict)
  1  something is not: the findings say what was found, what was expected and
     what to do
  2  nothing was compared: a mistake in the command, no usable credentials, a
     missing permission, or no answer from the API server
"""


class Mistake(Exception):
    """What a person can put right; a sentence."""


def parser() -> argparse.ArgumentParser:
    """The command's flags."""
    made = argparse.ArgumentParser(
        prog=f"python -m {__package__}",
        description=DESCRIPTION,
        epilog=EXIT_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--kubeconfig", type=Path, help="kubeconfig file (default: the pod's own credentials)")
    made.add_argument(
        "--node",
        nargs="+",
        action="extend",
        default=[],
        type=_node,
        metavar="NAME",
        help="only these nodes (default: all)",
    )
    made.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="default: text")
    made.add_argument(
        "--timeout", type=_seconds, default=120.0, metavar="SECONDS", help="for one reading of the cluster (120)"
    )
    made.add_argument(
        "--wait",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="look again until all is as expected or the time is over: after an installation (0)",
    )
    made.add_argument("--strict", action="store_true", help="unknown models and notes make it fail too")
    return made


def _node(text: str) -> str:
    # Names become part of a selector.
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be the name of a node")
    return text


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"a number of seconds, 0 or more, is expected, got {text!r}")
    return number


async def check(args: argparse.Namespace) -> Result:
    """Read and compare until it holds or the time is over."""
    client = await Client.connect(args.kubeconfig, user_agent=PROG, connections=4)
    progress = Progress()
    end = time.monotonic() + args.wait
    try:
        while True:
            began = time.monotonic()
            result = await _attempt(client, progress, args, patient=time.monotonic() < end)
            left = end - time.monotonic()
            if result is not None and (result.ok or left <= 0):
                return result
            problems = "no answer yet" if result is None else "not as expected yet"
            progress.tell(f"{problems}; looking for {left:.0f} s more")
            # A large cluster is read no more than half of the time.
            pause = max(POLL_SECONDS, time.monotonic() - began)
            await asyncio.sleep(max(0.0, min(left, pause)))
    finally:
        progress.done()
        await client.close()


async def _attempt(client: Client, progress: Progress, args: argparse.Namespace, *, patient: bool) -> Result | None:
    """One comparison; None where there was no answer and there is time to try again."""
    try:
        async with asyncio.timeout(args.timeout):
            seen = await Reader(client, progress).read(args.node)
    except TimeoutError:
        raise Mistake(f"reading the cluster took more than {args.timeout:g} s; give --timeout more") from None
    except (Unreachable, Busy):
        if not patient:
            raise
        return None
    result = compare(seen, strict=args.strict)
    if absent := sorted(set(args.node) - {node.name for node in result.nodes}):
        raise Mistake(f"no node {', '.join(absent)}, and nothing on record of it")
    return result


def _json(result: Result) -> str:
    return orjson.dumps(to_json(result), option=orjson.OPT_INDENT_2).decode()


def _yaml(result: Result) -> str:
    text: str = yaml.safe_dump(to_json(result), sort_keys=False, allow_unicode=True, width=100)
    return text.rstrip("\n")


OUTPUTS: dict[str, Callable[[Result], str]] = {"text": render, "json": _json, "yaml": _yaml}


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    args = parser().parse_args(argv)
    try:
        result = asyncio.run(check(args))
        print(OUTPUTS[args.output](result), flush=True)  # noqa: T201
    except (Mistake, RuntimeFault) as error:
        print(f"{PROG}: {_error_message(error)}", file=sys.stderr)  # noqa: T201
        return EXIT_UNUSABLE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever reads the output has seen enough; Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK if result.ok else EXIT_FINDINGS
    return EXIT_OK if result.ok else EXIT_FINDINGS


def _error_message(error: Exception) -> str:
    if isinstance(error, Unreachable):
        return f"no answer from the API server ({error}); see whether it runs, and which one the kubeconfig names"
    if isinstance(error, Forbidden):
        return (
            f"the API server refuses ({error.message}); list on nodes, nodefeatures, gpudevices and gpunodeinventories"
            f" and get on nodefeaturerules are needed, as ClusterRole d8:gpu-control-plane:{PROG} gives them"
        )
    if isinstance(error, NotFound):
        return f"the API server does not serve all kinds of the module ({error.message}); install its CRDs first"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
