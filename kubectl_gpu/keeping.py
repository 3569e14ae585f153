"""`kubectl gpu export` and `apply`: what people said of cards, into a file and back onto the same cards."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.runtime.errors import RuntimeFault
from kubectl_gpu import output
from kubectl_gpu.cluster import Cluster
from kubectl_gpu.listing import named
from kubectl_gpu.say import said
from kubectl_gpu.say.faults import Mistake, told
from kubectl_gpu.say.words import counted
from kubectl_gpu.terminal import say, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kubectl_gpu.say.said import Said

OK, FAILED = 0, 1
AT_ONCE = 8
LOOK_AGAIN = 2.0
"""Seconds between two tries at what could not be done."""


@dataclass(slots=True)
class Outcome:
    """What became of one card's part of the file."""

    said: Said
    changed: dict[str, dict[str, str]] = field(default_factory=dict)
    """What the card did not carry, and does now; of a dry run, would."""
    why: str = ""
    """Why it is not done; empty where it is."""


async def export(cluster: Cluster, args: argparse.Namespace) -> int:
    """Write what people said of cards."""
    fields = {"status.nodeName": args.node} if args.node else None
    found = await cluster.list(resources.GPUDEVICE, GPUDevice, labels=args.selector, fields=fields)
    made = said.exported(each.raw for each in named(found, args.names, "card"))
    output.structured(made, args.output)
    if not made["items"]:
        warn("Nobody has said anything of these cards.")
    return OK


async def apply(cluster: Cluster, args: argparse.Namespace) -> int:
    """Say of the cards that are there what a file says of them."""
    wanted = said.read(_text(args.filename), args.filename)
    deadline = time.monotonic() + args.timeout
    done: dict[str, Outcome] = {}
    while True:
        left = [one for one in wanted if one.name not in done or done[one.name].why]
        done |= {made.said.name: made for made in await _say(cluster, left, args.dry_run)}
        if not any(made.why for made in done.values()) or not args.wait or time.monotonic() >= deadline:
            break
        await asyncio.sleep(LOOK_AGAIN)
    outcomes = [done[one.name] for one in wanted]
    _tell(outcomes, args)
    return FAILED if any(made.why for made in outcomes) else OK


def _text(source: str) -> str:
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{source} cannot be read: {error}") from error


async def _say(cluster: Cluster, wanted: Sequence[Said], dry_run: str) -> list[Outcome]:
    """What can be done is done, each card for itself: of the others somebody has to see to something first."""
    there = {each.obj.name: each.obj for each in await cluster.list(resources.GPUDEVICE, GPUDevice)}
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(wish: Said) -> Outcome:
        device = there.get(wish.name)
        if (why := wish.objection(device)) is not None or device is None:
            return Outcome(wish, why=why or "")
        lacking = wish.lacking(device)
        async with turn:
            try:
                for step in wish.steps(lacking) if dry_run != "client" else ():
                    await cluster.mark(resources.GPUDEVICE, device, step, dry_run=dry_run == "server")
            except RuntimeFault as error:
                return Outcome(wish, why=told(error))
        return Outcome(wish, lacking)

    return list(await asyncio.gather(*map(one, wanted)))


def _tell(outcomes: Sequence[Outcome], args: argparse.Namespace) -> None:
    """What was done, and what is left with the reason."""
    left = [made for made in outcomes if made.why]
    for made in left:
        warn(f"error: {made.said.name} ({made.said.spelled}): {made.why}")
    if args.output == "name":
        say(f"gpudevice.{names.GROUP}/{made.said.name}" for made in outcomes if not made.why)
    elif args.output != "table":
        output.structured({"dryRun": args.dry_run, "cards": [_record(made) for made in outcomes]}, args.output)
    else:
        say(f"{made.said.name}: {made.said.spelled}" for made in outcomes if made.changed)
        say([_summary(outcomes, len(left), args.dry_run)])
    if left:
        warn("What is done stays done. Apply the file again when these are mended; --wait tries until then.")


def _record(made: Outcome) -> dict[str, Any]:
    return {
        "card": made.said.name,
        "uuid": made.said.uuid,
        "changed": made.changed,
        "done": not made.why,
        "left": made.why or None,
    }


def _summary(outcomes: Sequence[Outcome], left: int, dry_run: str) -> str:
    changed = sum(bool(made.changed) for made in outcomes)
    same = len(outcomes) - left - changed
    how = {"client": " (dry run on the client)", "server": " (dry run on the server)"}.get(dry_run, "")
    return f"{counted(changed, 'card')} restored, {same} as in the file, {left} left{how}."
