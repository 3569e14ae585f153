"""What people say of a roll-out by annotations: pause, resume, another try of a node, a node for work of their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from controllers.api import names, resources
from controllers.api.conditions import is_true
from controllers.api.gpudriver import GPUDriver
from controllers.api.kube import Node
from controllers.domain.clock import stamp
from controllers.explain.faults import UsageError
from controllers.explain.records import Unreadable
from controllers.explain.until import pause_end
from kubectl_gpu import driver_waiting
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.finding import get_or_fail
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

OK, FAILED = 0, 1
DRY: Final = {"client": " (dry run on the client)", "server": " (dry run on the server)"}
Marked = GPUDriver | Node


async def pause(cluster: Cluster, args: argparse.Namespace, given: Sequence[str]) -> int:
    """Have no node begun of these drivers, or none of these nodes, until a time."""
    until = pause_end(time.time(), until=args.until, length=args.length)
    for one in await _meant(cluster, args, given, "pause"):
        await _mark(cluster, args, one, names.PAUSE, stamp(until))
        _report(args, f"{_name(one)} is paused until {stamp(until)}: nodes that have not given up their driver go back")
    return OK


async def resume(cluster: Cluster, args: argparse.Namespace, given: Sequence[str]) -> int:
    """End a pause; and have a driver that is halted tried again."""
    status = OK
    for one in await _meant(cluster, args, given, "resume"):
        was_paused = names.PAUSE in one.metadata.annotations
        if was_paused:
            await _mark(cluster, args, one, names.PAUSE, None)
        if isinstance(one, GPUDriver) and is_true(one.status.conditions, "Halted"):
            await _mark(cluster, args, one, names.RESUME, "true")
            _report(args, f"{_name(one)} goes on: what failed before does not count any more")
        else:
            _report(args, f"{_name(one)} goes on" if was_paused else f"{_name(one)} was not paused")
        if isinstance(one, GPUDriver) and one.spec.rollout.paused:
            warn(f"error: {_name(one)} has spec.rollout.paused: true, and begins no node until that is false.")
            status = FAILED
    return status


async def retry(cluster: Cluster, args: argparse.Namespace, given: Sequence[str]) -> int:
    """Have nodes tried again that failed, or that are kept."""
    if not given:
        raise UsageError(
            "Which node? kubectl gpu driver retry <node>; kubectl gpu driver <name> lists those that failed."
        )
    for name in given:
        node: Node = await get_or_fail(cluster, resources.NODE, Node, name, "node")
        await _mark(cluster, args, node, names.DRIVER_RETRY, "true")
        _report(args, f"Node {name} is tried again")
    return OK


async def hand_over(cluster: Cluster, args: argparse.Namespace, given: Sequence[str]) -> int:
    """Ask for nodes without pods that use cards and without the module's clients of the driver; or give them back."""
    if not given:
        raise UsageError("Which node? kubectl gpu driver hand-over <node> --wait; with --back it is given back.")
    nodes: list[Node] = [await get_or_fail(cluster, resources.NODE, Node, name, "node") for name in given]
    if not args.back:
        await _tell_of_strangers(cluster, nodes)
    for node in nodes:
        holder = node.metadata.annotations.get(names.HAND_OVER)
        if args.back:
            if holder is not None:
                await _mark(cluster, args, node, names.HAND_OVER, None)
            _report(args, f"Node {node.name} is given back" if holder else f"Node {node.name} was not asked for")
            continue
        if holder and holder != args.by:
            raise UsageError(f"Node {node.name} was asked for by {holder}: --by {holder} if that is you.")
        await _mark(cluster, args, node, names.HAND_OVER, args.by)
        _report(args, f"Node {node.name} is asked for by {args.by}")
    if not args.wait or args.dry_run != "none":
        return OK
    return await driver_waiting.until_handed_over(cluster, [node.name for node in nodes], args.timeout, back=args.back)


async def _tell_of_strangers(cluster: Cluster, nodes: Sequence[Node]) -> None:
    """Say of which nodes no GPUDriver decides: they would wait for ever."""
    drivers = await attempt(cluster.list(resources.GPUDRIVER, GPUDriver))
    if isinstance(drivers, Unreadable) or any(one.obj.status.truncated for one in drivers):
        return
    known = {node.name for one in drivers for node in one.obj.status.nodes}
    for node in nodes:
        if node.name not in known:
            warn(f"No GPUDriver has node {node.name}, so nobody hands it over: one with mode Host would do.")


async def _meant(cluster: Cluster, args: argparse.Namespace, given: Sequence[str], action: str) -> list[Marked]:
    """The drivers and nodes that are named."""
    if not given and not args.node:
        raise UsageError(f"What? kubectl gpu driver {action} <driver>, or --node <node>.")
    drivers = [await get_or_fail(cluster, resources.GPUDRIVER, GPUDriver, name, "GPUDriver") for name in given]
    return [*drivers, *[await get_or_fail(cluster, resources.NODE, Node, name, "node") for name in args.node or ()]]


async def _mark(cluster: Cluster, args: argparse.Namespace, obj: Marked, key: str, value: str | None) -> None:
    resource = resources.GPUDRIVER if isinstance(obj, GPUDriver) else resources.NODE
    if args.dry_run != "client":
        await cluster.annotate(resource, obj, key, value, dry_run=args.dry_run == "server")


def _name(one: Marked) -> str:
    return f"GPUDriver {one.name}" if isinstance(one, GPUDriver) else f"Node {one.name}"


def _report(args: argparse.Namespace, text: str) -> None:
    print_lines([f"{text}{DRY.get(args.dry_run, '')}."])
