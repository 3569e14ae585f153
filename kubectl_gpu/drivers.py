"""`kubectl gpu driver`: the drivers that the module brings onto nodes; one of them with its nodes, once or live."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from controllers.api import names, resources
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.explain import driver as driver_of
from controllers.explain import rollout
from controllers.explain.explanation import lines
from controllers.explain.faults import UsageError
from controllers.explain.records import Unreadable
from kubectl_gpu import driver_marks, driver_waiting, output
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.finding import get_or_fail
from kubectl_gpu.listing import show
from kubectl_gpu.live import live
from kubectl_gpu.terminal import is_ascii, paint, print_lines, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from controllers.api.driver_work import DriverWork
    from kubectl_gpu.cluster import Found

OK: Final = 0
STATUS: Final = "status"
BY: Final = "kubectl-gpu"
"""Who has asked for a node, where nobody is named."""
READ_AGAIN: Final = 20.0
"""Seconds after which a live view reads all nodes again, though the driver is as it was: their messages may not be."""
NONE: Final = (
    "There is no GPUDriver: drivers are the hosts' own. An administrator makes one, with setting driver.enabled: "
    "docs/driver.md."
)
ACTIONS: Final = {
    "pause": driver_marks.pause,
    "resume": driver_marks.resume,
    "retry": driver_marks.retry,
    "hand-over": driver_marks.hand_over,
}
OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "until": ("pause",),
    "length": ("pause",),
    "node": ("pause", "resume"),
    "by": ("hand-over",),
    "back": ("hand-over",),
    "wait": ("hand-over", "status"),
    "watch": ("status",),
    "timeout": ("hand-over", "status"),
}
"""Which options go with which actions."""


class Works:
    """What is done to each node, read anew once a driver says that something has changed, or after a while."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing is read yet."""
        self._cluster = cluster
        self._of, self._at = "", 0.0
        self._read: dict[str, DriverWork] | Unreadable = {}

    async def of(self, found: GPUDriver) -> dict[str, DriverWork] | Unreadable:
        """By the name of the node; or why it may not be read."""
        now, version = time.monotonic(), found.metadata.resource_version or ""
        if not self._at or version != self._of or now - self._at > READ_AGAIN:
            inventories = await attempt(self._cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory))
            self._read = inventories if isinstance(inventories, Unreadable) else dict(_works(inventories))
            self._of, self._at = version, now
        return self._read


def _works(inventories: list[Found[GPUNodeInventory]]) -> Iterator[tuple[str, DriverWork]]:
    for each in inventories:
        if each.obj.status.driver_work is not None:
            yield each.obj.name, each.obj.status.driver_work


async def driver(cluster: Cluster, args: argparse.Namespace) -> int:
    """All drivers; or the one that is named, with its nodes; or what people say of drivers and nodes."""
    action, given = _split(args.words)
    _check(args, action)
    if action in ACTIONS:
        args.by = args.by or BY
        return await ACTIONS[action](cluster, args, given)
    if len(given) > 1:
        raise UsageError("One driver at a time: kubectl gpu driver <name>.")
    if args.watch:
        works = Works(cluster)
        return await live(lambda: _shown(cluster, args, given, works), args.timeout)
    if args.wait:
        if not given:
            raise UsageError("For which driver? kubectl gpu driver status <name> --wait.")
        status = await driver_waiting.until_everywhere(cluster, given[0], args.timeout)
        await _shown(cluster, args, given, Works(cluster))
        return status
    return await _shown(cluster, args, given, Works(cluster))


def _check(args: argparse.Namespace, action: str) -> None:
    """Raise UsageError for an option that means nothing to the action."""
    for option, actions in OPTIONS.items():
        if getattr(args, option) and action not in actions:
            name = {"length": "for"}.get(option, option)
            raise UsageError(f"--{name} goes with {' and '.join(actions)}, not with {action}.")


def _split(words: list[str]) -> tuple[str, list[str]]:
    """What is to be done, and with what; the first word is a name where it is no action."""
    if words and words[0] in (STATUS, *ACTIONS):
        return words[0], words[1:]
    return STATUS, list(words)


async def _shown(cluster: Cluster, args: argparse.Namespace, given: list[str], works: Works) -> int:
    return await (_one(cluster, args, given[0], works) if given else _all(cluster, args))


async def _all(cluster: Cluster, args: argparse.Namespace) -> int:
    found = await cluster.list(resources.GPUDRIVER, GPUDriver)
    return show(args, found, driver_of.DRIVERS, driver_of.driver_row, NONE)


async def _one(cluster: Cluster, args: argparse.Namespace, name: str, works: Works) -> int:
    found: GPUDriver = await get_or_fail(cluster, resources.GPUDRIVER, GPUDriver, name, "GPUDriver")
    read = await works.of(found)
    unread, of_nodes = ((read.reason,), {}) if isinstance(read, Unreadable) else ((), read)
    nodes, now = driver_of.placed(found, of_nodes), time.time()
    made = driver_of.explained(found, nodes, now, unread)
    if args.output not in output.TABLES:
        if args.output == "name":
            print_lines([f"{resources.GPUDRIVER.kind.lower()}.{names.GROUP}/{name}"])
        else:
            output.structured(driver_of.as_json(found, made, nodes), args.output)
        return OK
    print_lines(paint(text, tone) for text, tone in lines(made, ascii_only=is_ascii()))
    if any(one.started for one in found.status.strata):
        strata = [rollout.stratum_row(found, one, nodes, now) for one in found.status.strata]
        output.table(rollout.STRATA, strata, args.output, headers=not args.no_headers)
    shown = [one for one in nodes if args.output == "wide" or one.phase not in driver_of.UNTOUCHED]
    if shown:
        rows = [driver_of.node_row(one, now) for one in shown]
        output.table(driver_of.NODES, rows, args.output, headers=not args.no_headers)
    if found.status.truncated:
        warn(f"Of more than {names.LIST_MAX} nodes these are the first, those in trouble before others.")
    return OK
