"""`kubectl gpu assign` and `unassign`: says what it will do, asks the webhook about all, then does it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.explain import choice
from controllers.explain.faults import UsageError, describe_fault, is_refusal
from controllers.explain.records import Unreadable
from controllers.explain.words import counted, meant
from controllers.runtime.errors import RuntimeFault
from kubectl_gpu import finding, output, waiting
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from controllers.explain.choice import Change

OK, FAILED = 0, 1
UNASKED: Final = "The webhook was not asked, and may refuse what stands here: --dry-run=server asks it."
"""Of a client's dry run: it knows conditions of the cards, and none of the pool's own rules."""
AT_ONCE = 8


async def assign(cluster: Cluster, args: argparse.Namespace) -> int:
    """Put cards into a pool."""
    await _pool(cluster, args.pool)
    return await _carry_out(cluster, args, args.pool)


async def unassign(cluster: Cluster, args: argparse.Namespace) -> int:
    """Take cards out of their pools."""
    return await _carry_out(cluster, args, None)


async def _pool(cluster: Cluster, name: str) -> None:
    """Raise UsageError where there is no such pool; who may not read pools hears it from the webhook."""
    found = await attempt(cluster.list(resources.GPUPOOL, GPUPool))
    known = [each.obj.name for each in found] if not isinstance(found, Unreadable) else [name]
    if name not in known:
        raise UsageError(
            f"{names.UNKNOWN_POOL}: there is no GPUPool {name!r}.{meant(name, known)}"
            " The pool is the last word: kubectl gpu assign <card…> <pool>."
        )


async def _carry_out(cluster: Cluster, args: argparse.Namespace, pool: str | None) -> int:
    made, notes = choice.changes(*await _chosen(cluster, args), pool)
    refused: dict[str, RuntimeFault] = {}
    if args.dry_run != "client":
        # All are asked about before one is written: a refusal in the middle would leave a half.
        refused = await _write(cluster, _todo(made), dry_run=True)
    unfit = {c.device.name for c in made if pool and not c.named and is_refusal(refused.get(c.device.name))}
    notes += [f"Left alone: {name}: {describe_fault(refused.pop(name))}" for name in sorted(unfit)]
    made = [change for change in made if change.device.name not in unfit]
    unasked = (UNASKED,) if args.dry_run == "client" and _todo(made) else ()
    for note in (*notes, *choice.taken_back(made), *unasked):
        warn(note)
    if args.output == "table":
        print_lines(choice.spelled(change) for change in made)
    if unfit and not made:
        warn(f"error: no card of node {args.node} can be assigned to {pool}.")
    written = not refused and args.dry_run == "none"
    if written:
        refused = await _write(cluster, _todo(made), dry_run=False)
    _tell(made, refused, args, pool, written=written)
    if refused or (unfit and not made):
        return FAILED
    return await waiting.until_there(cluster, made, pool, args.timeout) if args.wait and written else OK


def _todo(made: Sequence[Change]) -> list[Change]:
    return [change for change in made if change.is_one]


def _tell(
    made: Sequence[Change],
    refused: dict[str, RuntimeFault],
    args: argparse.Namespace,
    pool: str | None,
    *,
    written: bool,
) -> None:
    """What was refused, what was done. `written`: whether it came to writing, or ended with asking."""
    for name, error in refused.items():
        warn(f"error: {name}: {describe_fault(error)}")
    if refused:
        warn(choice.what_changed(_todo(made), refused, written=written))
    if args.output != "table":
        # A dry run that is not refused names what would be done.
        named = args.output == "name" and args.dry_run != "none" and not refused
        _report(made, refused, choice.done(made, refused, written=written or named), args)
    elif not refused:
        print_lines([_summary(_todo(made), args.dry_run, pool)])


async def _chosen(cluster: Cluster, args: argparse.Namespace) -> tuple[list[GPUDevice], list[GPUDevice]]:
    """The cards that are named, and those of the node."""
    if not args.cards and not args.node:
        raise UsageError("Which cards? Name some (kubectl gpu cards lists them), or give --node for all of a node.")
    named = [await finding.card(cluster, given) for given in args.cards]
    if not args.node:
        return named, []
    found = await cluster.list(resources.GPUDEVICE, GPUDevice, fields={"status.nodeName": args.node})
    if not found:
        known = await attempt(cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory))
        guess = "" if isinstance(known, Unreadable) else meant(args.node, [each.obj.name for each in known])
        raise UsageError(f"Node {args.node!r} has no cards.{guess}")
    return named, [each.obj for each in found]


async def _write(cluster: Cluster, todo: Sequence[Change], *, dry_run: bool) -> dict[str, RuntimeFault]:
    """What was refused by the card's name, and how."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(change: Change) -> tuple[str, RuntimeFault] | None:
        async with turn:
            try:
                await cluster.annotate(
                    resources.GPUDEVICE, change.device, names.ASSIGNMENT, change.after, dry_run=dry_run
                )
            except RuntimeFault as error:
                return change.device.name, error
        return None

    return dict(found for found in await asyncio.gather(*map(one, todo)) if found is not None)


def _summary(todo: Sequence[Change], dry_run: str, pool: str | None) -> str:
    if not todo:
        return "Nothing to do."
    what = f"assigned to {pool}" if pool else "unassigned"
    how = {"client": " (dry run on the client)", "server": " (dry run on the server: nothing is refused)"}
    return f"{counted(len(todo), 'card')} {what}{how.get(dry_run, '')}."


def _report(made: Sequence[Change], refused: dict[str, RuntimeFault], done: set[str], args: argparse.Namespace) -> None:
    """What became of each card, for programs."""
    if args.output == "name":
        print_lines(f"gpudevice.{names.GROUP}/{change.device.name}" for change in made if change.device.name in done)
        return
    changes: list[dict[str, Any]] = [
        {
            "card": change.device.name,
            "inventoryID": change.device.status.inventory_id,
            "node": change.device.status.node_name,
            "before": change.before,
            "after": change.after,
            "done": change.device.name in done,
            "refused": describe_fault(refused[change.device.name]) if change.device.name in refused else None,
        }
        for change in made
    ]
    output.structured({"dryRun": args.dry_run, "changes": changes}, args.output)
