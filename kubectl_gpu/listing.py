"""`kubectl gpu nodes`, `cards` and `pools`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.explain import lists
from controllers.explain.faults import UsageError
from controllers.explain.words import meant
from kubectl_gpu import output
from kubectl_gpu.cluster import Cluster, Found, attempt
from kubectl_gpu.finding import get_or_fail
from kubectl_gpu.terminal import warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from controllers.explain.table import Column

OK = 0


async def nodes(cluster: Cluster, args: argparse.Namespace) -> int:
    """The nodes with cards."""
    found = await cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory, labels=args.selector)
    none = "No node has cards that were found yet: kubectl gpu nodes reads GPUNodeInventories, one for each GPU node."
    return show(args, named(found, args.names, "node"), lists.NODES, lists.node, none)


async def pools(cluster: Cluster, args: argparse.Namespace) -> int:
    """The pools."""
    found = await cluster.list(resources.GPUPOOL, GPUPool, labels=args.selector)
    none = "There is no GPUPool yet: an administrator creates one, and assigns cards to it."
    return show(args, named(found, args.names, "pool"), lists.POOLS, lists.pool, none)


async def cards(cluster: Cluster, args: argparse.Namespace) -> int:
    """The cards that match every filter; the API server filters."""
    chosen = {"status.nodeName": args.node, "status.poolRef.name": args.pool, "status.state": args.state}
    fields = {key: value for key, value in chosen.items() if value is not None}
    found = await cluster.list(resources.GPUDEVICE, GPUDevice, labels=args.selector, fields=fields)
    if not found:
        await _unknown(cluster, args)
    none = "No card matches." if fields or args.selector else "No card has been found yet: kubectl gpu nodes."
    return show(args, named(found, args.names, "card"), lists.CARDS, lists.card, none)


async def _unknown(cluster: Cluster, args: argparse.Namespace) -> None:
    """Tell a node or pool that is not there from one that has no cards."""
    kinds: list[tuple[str | None, Any, type[Any], str]] = [
        (args.node, resources.GPUNODEINVENTORY, GPUNodeInventory, "node with cards"),
        (args.pool, resources.GPUPOOL, GPUPool, "GPUPool"),
    ]
    for name, resource, cls, noun in kinds:
        if name is not None:
            # Who may not read it is told nothing of it: that no card matches is the answer all the same.
            await attempt(get_or_fail(cluster, resource, cls, name, noun))


def named(found: list[Found[Any]], names: Sequence[str], noun: str) -> list[Found[Any]]:
    """Those of that name or inventoryID, in the order of the list; raises UsageError for one that is not there."""
    if not names:
        return found
    known = {found.obj.name: found for found in found}
    by_id = {getattr(f.obj.status, "inventory_id", None): f.obj.name for f in found}
    for name in names:
        if name not in known and name not in by_id:
            raise UsageError(f"There is no {noun} {name!r} here.{meant(name, known)}")
    wanted = {by_id.get(name, name) for name in names}
    return [each for name, each in known.items() if name in wanted]


def show(
    args: argparse.Namespace,
    found: Sequence[Found[Any]],
    columns: Sequence[Column],
    row: Callable[[Any, float], lists.Row],
    none: str,
) -> int:
    """Print a table of these columns, or the objects as they are; `none` is said where there are none."""
    if args.output not in output.TABLES:
        output.objects([each.raw for each in found], args.output)
        return OK
    if not found:
        warn(none)
        return OK
    now = time.time()
    output.table(columns, [row(each.obj, now) for each in found], args.output, headers=not args.no_headers)
    return OK
