"""`kubectl gpu assign` and `unassign`: says what it will do, asks the webhook about all, then does it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.runtime.errors import NotFound, RuntimeFault
from kubectl_gpu import output
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.say import card, choice
from kubectl_gpu.say.faults import Mistake, told
from kubectl_gpu.say.records import Unread
from kubectl_gpu.say.words import counted, meant
from kubectl_gpu.terminal import Progress, say, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kubectl_gpu.say.choice import Change

OK, FAILED = 0, 1
LOOK_AGAIN = 0.5
"""Seconds between two looks at cards that are waited for."""
AT_ONCE = 8


async def assign(cluster: Cluster, args: argparse.Namespace) -> int:
    """Put cards into a pool."""
    await _pool(cluster, args.pool)
    return await _carry_out(cluster, args, args.pool)


async def unassign(cluster: Cluster, args: argparse.Namespace) -> int:
    """Take cards out of their pools."""
    return await _carry_out(cluster, args, None)


async def _pool(cluster: Cluster, name: str) -> None:
    """Raise Mistake where there is no such pool; who may not read pools hears it from the webhook."""
    found = await attempt(cluster.list(resources.GPUPOOL, GPUPool))
    known = [each.obj.name for each in found] if not isinstance(found, Unread) else [name]
    if name not in known:
        raise Mistake(
            f"{names.UNKNOWN_POOL}: there is no GPUPool {name!r}.{meant(name, known)}"
            " The pool is the last word: kubectl gpu assign <card…> <pool>."
        )


async def _carry_out(cluster: Cluster, args: argparse.Namespace, pool: str | None) -> int:
    made, notes = choice.changes(*await _chosen(cluster, args), pool)
    for note in notes:
        warn(note)
    todo = [change for change in made if change.is_one]
    people = args.output == "table"
    if people:
        say(choice.spelled(change) for change in made)
    refused: dict[str, str] = {}
    if args.dry_run != "client":
        # All are asked about before one is written: a refusal in the middle would leave a half.
        refused = await _write(cluster, todo, dry_run=True)
        if not refused and args.dry_run == "none":
            refused = await _write(cluster, todo, dry_run=False)
    for name, why in refused.items():
        warn(f"error: {name}: {why}")
    if refused:
        warn(f"{counted(len(refused), 'card')} of {len(todo)} refused.")
    if not people:
        _report(made, refused, args)
    elif not refused:
        say([_summary(todo, args.dry_run, pool)])
    if refused:
        return FAILED
    return await _wait(cluster, made, pool, args.timeout) if args.wait and args.dry_run == "none" else OK


async def _chosen(cluster: Cluster, args: argparse.Namespace) -> tuple[list[GPUDevice], list[GPUDevice]]:
    """The cards that are named, and those of the node."""
    if not args.cards and not args.node:
        raise Mistake("Which cards? Name some (kubectl gpu cards lists them), or give --node for all of a node.")
    named = [await _card(cluster, given) for given in args.cards]
    if not args.node:
        return named, []
    found = await cluster.list(resources.GPUDEVICE, GPUDevice, fields={"status.nodeName": args.node})
    if not found:
        known = [each.obj.name for each in await cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory)]
        raise Mistake(f"Node {args.node!r} has no cards.{meant(args.node, known)}")
    return named, [each.obj for each in found]


async def _card(cluster: Cluster, given: str) -> GPUDevice:
    try:
        return (await cluster.get(resources.GPUDEVICE, GPUDevice, choice.object_name(given))).obj
    except NotFound as error:
        if not error.about:
            raise  # the kind itself is not there
        return choice.find(given, [each.obj for each in await cluster.list(resources.GPUDEVICE, GPUDevice)])


async def _write(cluster: Cluster, todo: Sequence[Change], *, dry_run: bool) -> dict[str, str]:
    """The refusals by the card's name."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(change: Change) -> tuple[str, str] | None:
        async with turn:
            try:
                await cluster.annotate(
                    resources.GPUDEVICE, change.device, names.ASSIGNMENT, change.after, dry_run=dry_run
                )
            except RuntimeFault as error:
                return change.device.name, told(error)
        return None

    return dict(found for found in await asyncio.gather(*map(one, todo)) if found is not None)


def _summary(todo: Sequence[Change], dry_run: str, pool: str | None) -> str:
    if not todo:
        return "Nothing to do."
    what = f"assigned to {pool}" if pool else "unassigned"
    how = {"client": " (dry run on the client)", "server": " (dry run on the server: nothing is refused)"}
    return f"{counted(len(todo), 'card')} {what}{how.get(dry_run, '')}."


def _report(made: Sequence[Change], refused: dict[str, str], args: argparse.Namespace) -> None:
    """What became of each card, for programs."""
    if args.output == "name":
        say(f"gpudevice.{names.GROUP}/{change.device.name}" for change in made if change.device.name not in refused)
        return
    changes: list[dict[str, Any]] = [
        {
            "card": change.device.name,
            "inventoryID": change.device.status.inventory_id,
            "node": change.device.status.node_name,
            "before": change.before,
            "after": change.after,
            "refused": refused.get(change.device.name),
        }
        for change in made
    ]
    output.structured({"dryRun": args.dry_run, "changes": changes}, args.output)


async def _wait(cluster: Cluster, made: Sequence[Change], pool: str | None, patience: float) -> int:
    """Look until every card is where it belongs, or say of each that is not what keeps it."""
    progress, deadline = Progress(), time.monotonic() + patience
    left = {change.device.name: change.device for change in made}
    while True:
        for name in list(left):
            left[name] = (await cluster.get(resources.GPUDEVICE, GPUDevice, name)).obj
            if choice.has_arrived(left[name], pool):
                del left[name]
        if not left or time.monotonic() > deadline:
            break
        progress.show(f"{len(made) - len(left)} of {counted(len(made), 'card')} {_goal(pool)}")
        await asyncio.sleep(LOOK_AGAIN)
    progress.clear()
    if not left:
        if made:
            warn(f"{counted(len(made), 'card')} {_goal(pool)}.")
        return OK
    for device in left.values():
        node = device.status.node_name or ""
        inventory = await attempt(cluster.get(resources.GPUNODEINVENTORY, GPUNodeInventory, node))
        seen = card.CardSeen(device, inventory if isinstance(inventory, Unread) else inventory.obj, time.time())
        said = card.explained(seen)
        why = said.findings[0].text if said.findings else "it does not say why"
        warn(f"error: after {patience:g} s {said.verdict}: {why}")
    return FAILED


def _goal(pool: str | None) -> str:
    return f"offered in {pool}" if pool else "in no pool"
