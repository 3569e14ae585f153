"""`kubectl gpu export` and `apply`: what people said of cards, into a file and back onto the same cards."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.explain import card_marks
from controllers.explain.faults import describe_fault
from controllers.explain.words import counted
from controllers.runtime.errors import RuntimeFault
from kubectl_gpu import output
from kubectl_gpu.cluster import Cluster
from kubectl_gpu.files import text_of
from kubectl_gpu.listing import named
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from controllers.explain.card_marks import CardMarks

OK, FAILED = 0, 1
AT_ONCE = 8
OVERWRITE = "something else was said of it; --overwrite replaces that"
LOOK_AGAIN = 2.0
"""Seconds between two tries at what could not be done."""


@dataclass(slots=True)
class Outcome:
    """What became of one card's part of the file."""

    marks: CardMarks
    changed: dict[str, dict[str, str]] = field(default_factory=dict)
    """What the card did not carry, and does now; of a dry run, would."""
    reason: str = ""
    """Why it is not done; empty where it is."""
    replaced: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What the card says otherwise, by key: its value and the file's."""
    is_final: bool = False
    """Whether trying again comes to the same: a person has to say that what is there goes."""

    @property
    def spelled(self) -> str:
        """What the file says of the card in one line, with the value that is there where that is another."""
        said = sorted({**self.marks.labels, **self.marks.annotations}.items())
        return ", ".join(_change(key, *self.replaced[key]) if key in self.replaced else f"{key}={v}" for key, v in said)


def _change(key: str, before: str, after: str) -> str:
    return f"{key}: {before} → {after}"


async def export(cluster: Cluster, args: argparse.Namespace) -> int:
    """Write what people said of cards."""
    fields = {"status.nodeName": args.node} if args.node else None
    found = await cluster.list(resources.GPUDEVICE, GPUDevice, labels=args.selector, fields=fields)
    made = card_marks.exported(each.raw for each in named(found, args.names, "card"))
    output.structured(made, args.output)
    if not made["items"]:
        warn("Nobody has said anything of these cards.")
    return OK


async def apply(cluster: Cluster, args: argparse.Namespace) -> int:
    """Say of the cards that are there what a file says of them."""
    wanted = card_marks.read(text_of(args.filename), args.filename)
    outcomes = await until_applied(cluster, wanted, dry_run=args.dry_run, wait=args.timeout if args.wait else 0.0)
    report(outcomes, args.output, args.dry_run)
    return FAILED if any(made.reason for made in outcomes) else OK


async def until_applied(
    cluster: Cluster,
    wanted: Sequence[CardMarks],
    *,
    dry_run: str = "none",
    wait: float = 0.0,
    overwrite: bool = True,
) -> list[Outcome]:
    """Say it of the cards that are there.

    `wait`: seconds for which is tried again what could not be done. `overwrite`: whether a card of which something else
    was said has it said anew; else it is left, with the reason.
    """
    deadline = time.monotonic() + wait
    done: dict[str, Outcome] = {}
    while True:
        left = [one for one in wanted if one.name not in done or _may_come(done[one.name])]
        done |= {made.marks.name: made for made in await _apply_marks(cluster, left, dry_run, overwrite=overwrite)}
        if not any(_may_come(made) for made in done.values()) or time.monotonic() >= deadline:
            return [done[one.name] for one in wanted]
        await asyncio.sleep(LOOK_AGAIN)


def _may_come(made: Outcome) -> bool:
    """Whether it is not done, and may be later."""
    return bool(made.reason) and not made.is_final


async def _apply_marks(
    cluster: Cluster, wanted: Sequence[CardMarks], dry_run: str, *, overwrite: bool
) -> list[Outcome]:
    """What can be done is done, each card for itself: of the others somebody has to see to something first."""
    there = {each.obj.name: each.obj for each in await cluster.list(resources.GPUDEVICE, GPUDevice)}
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(wish: CardMarks) -> Outcome:
        device = there.get(wish.name)
        if (why := wish.objection(device)) is not None or device is None:
            return Outcome(wish, reason=why or "")
        lacking, replaced = wish.lacking(device), wish.replacing(device)
        if replaced and not overwrite:
            return Outcome(wish, reason=OVERWRITE, replaced=replaced, is_final=True)
        async with turn:
            try:
                for step in wish.steps(lacking) if dry_run != "client" else ():
                    await cluster.mark(resources.GPUDEVICE, device, step, dry_run=dry_run == "server")
            except RuntimeFault as error:
                return Outcome(wish, reason=describe_fault(error))
        return Outcome(wish, lacking, replaced=replaced)

    return list(await asyncio.gather(*map(one, wanted)))


def report(outcomes: Sequence[Outcome], form: str, dry_run: str) -> None:
    """What was done, and what is left with the reason. `form`, `dry_run`: as the options say them."""
    left = [made for made in outcomes if made.reason]
    for made in left:
        warn(f"error: {made.marks.name} ({made.spelled}): {made.reason}")
    if form == "name":
        print_lines(f"gpudevice.{names.GROUP}/{made.marks.name}" for made in outcomes if not made.reason)
    elif form != "table":
        output.structured({"dryRun": dry_run, "cards": [_record(made) for made in outcomes]}, form)
    else:
        print_lines(f"{made.marks.name}: {made.spelled}" for made in outcomes if made.changed)
        print_lines([_summary(outcomes, len(left), dry_run)])
    if left:
        warn("What is done stays done. Apply the file again when these are mended; --wait tries until then.")


def _record(made: Outcome) -> dict[str, Any]:
    return {
        "card": made.marks.name,
        "uuid": made.marks.uuid,
        "changed": made.changed,
        "done": not made.reason,
        "left": made.reason or None,
    }


def _summary(outcomes: Sequence[Outcome], left: int, dry_run: str) -> str:
    changed = sum(bool(made.changed) for made in outcomes)
    same = len(outcomes) - left - changed
    how = {"client": " (dry run on the client)", "server": " (dry run on the server)"}.get(dry_run, "")
    return f"{counted(changed, 'card')} restored, {same} as in the file, {left} left{how}."
