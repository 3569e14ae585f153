"""`kubectl gpu driver`: the drivers that the module brings onto nodes; one of them with its nodes; another try."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from controllers.api import names, resources
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from kubectl_gpu import output
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.explain import driver as driver_of
from kubectl_gpu.explain.explanation import lines
from kubectl_gpu.explain.faults import UsageError
from kubectl_gpu.explain.records import Unreadable
from kubectl_gpu.finding import sure
from kubectl_gpu.listing import show
from kubectl_gpu.terminal import is_ascii, paint, print_lines, warn

if TYPE_CHECKING:
    import argparse

OK: Final = 0
STATUS, RETRY = "status", "retry"
NONE: Final = (
    "There is no GPUDriver: drivers are the hosts' own. An administrator makes one, with setting driver.enabled: "
    "docs/driver.md."
)


async def driver(cluster: Cluster, args: argparse.Namespace) -> int:
    """All drivers; or the one that is named, with its nodes; or another try of a node."""
    action, names_given = _split(args.words)
    if action == RETRY:
        return await _retry(cluster, args, names_given)
    if len(names_given) > 1:
        raise UsageError("One driver at a time: kubectl gpu driver <name>.")
    return await (_one(cluster, args, names_given[0]) if names_given else _all(cluster, args))


def _split(words: list[str]) -> tuple[str, list[str]]:
    """What is to be done, and with what; the first word is a name where it is no action."""
    if words and words[0] in (STATUS, RETRY):
        return words[0], words[1:]
    return STATUS, list(words)


async def _all(cluster: Cluster, args: argparse.Namespace) -> int:
    found = await cluster.list(resources.GPUDRIVER, GPUDriver)
    return show(args, found, driver_of.DRIVERS, driver_of.driver_row, NONE)


async def _one(cluster: Cluster, args: argparse.Namespace, name: str) -> int:
    found: GPUDriver = await sure(cluster, resources.GPUDRIVER, GPUDriver, name, "GPUDriver")
    inventories = await attempt(cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory))
    unread = (inventories.reason,) if isinstance(inventories, Unreadable) else ()
    read = [] if isinstance(inventories, Unreadable) else inventories
    works = {each.obj.name: each.obj.status.driver_work for each in read if each.obj.status.driver_work is not None}
    nodes = driver_of.placed(found, works)
    made = driver_of.explained(found, nodes, unread)
    if args.output not in output.TABLES:
        if args.output == "name":
            print_lines([f"{resources.GPUDRIVER.kind.lower()}.{names.GROUP}/{name}"])
        else:
            output.structured(driver_of.as_json(made, nodes), args.output)
        return OK
    print_lines(paint(text, tone) for text, tone in lines(made, ascii_only=is_ascii()))
    shown = [one for one in nodes if args.output == "wide" or one.phase not in driver_of.QUIET]
    if shown:
        now = time.time()
        rows = [driver_of.node_row(one, now) for one in shown]
        output.table(driver_of.NODES, rows, args.output, headers=not args.no_headers)
    if found.status.truncated:
        warn(f"Of more than {names.LIST_MAX} nodes these are the first, those in trouble before others.")
    return OK


async def _retry(cluster: Cluster, args: argparse.Namespace, given: list[str]) -> int:
    """Mark nodes to be tried again."""
    if not given:
        raise UsageError(
            "Which node? kubectl gpu driver retry <node>; kubectl gpu driver <name> lists those that failed."
        )
    for name in given:
        node: Node = await sure(cluster, resources.NODE, Node, name, "node")
        if args.dry_run != "client":
            dry = args.dry_run == "server"
            await cluster.annotate(resources.NODE, node, names.DRIVER_RETRY, "true", dry_run=dry)
        how = {"client": " (dry run on the client)", "server": " (dry run on the server)"}.get(args.dry_run, "")
        print_lines([f"Node {name} is tried again{how}."])
    return OK
