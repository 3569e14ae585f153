"""`kubectl gpu explain`: reads what an answer needs, as far as this person may."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.domain.named_devices import named_devices
from controllers.domain.queue.gates import is_queued
from controllers.domain.request import units_by_pool
from controllers.explain import card, choice, node, pod, pool, verdict_table
from controllers.explain.explanation import Explanation, as_json, lines
from controllers.explain.faults import UsageError
from controllers.explain.misfit import explain_misfit
from controllers.explain.pod_verdict import numbers_of
from controllers.explain.records import CORE_EVENT, SeenEvent, SeenPod, Unreadable
from controllers.runtime.errors import NotFound
from kubectl_gpu import finding, output, pod_verdicts, workloads
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.finding import maybe
from kubectl_gpu.queueing import attempt_queue
from kubectl_gpu.terminal import is_ascii, paint, print_lines

if TYPE_CHECKING:
    import argparse

OK = 0


async def explain(cluster: Cluster, args: argparse.Namespace) -> int:
    """Answer about one object."""
    if args.cards:
        return await _with_cards(cluster, args)
    answers = {"pod": _pod, "card": _card, "node": _node, "pool": _pool}
    answer = answers.get(args.kind)
    made = await answer(cluster, args.name) if answer else await workloads.explained(cluster, args.kind, args.name)
    if args.output in ("json", "yaml"):
        output.structured(as_json(made), args.output)
    else:
        _print(made)
    return OK


def _print(made: Explanation) -> None:
    print_lines(paint(text, tone) for text, tone in lines(made, ascii_only=is_ascii()))


async def _with_cards(cluster: Cluster, args: argparse.Namespace) -> int:
    """A pod with the verdict on each card and node of its pool; without it where they may not be read."""
    if args.kind != "pod":
        raise UsageError("--cards goes with a pod: kubectl gpu explain pod <pod> --cards.")
    try:
        seen = await _read_pod(cluster, args.name)
    except NotFound:
        _print(await workloads.missing(cluster, args.name))
        return OK
    made = pod.explained(seen)
    found = await pod_verdicts.read(cluster, seen.pod)
    if isinstance(found, Unreadable):
        made = replace(made, unread=tuple(dict.fromkeys((*made.unread, found.reason))))
    if args.output in ("json", "yaml"):
        verdicts = [] if isinstance(found, Unreadable) else [verdict_table.as_json(each) for each in found]
        more = verdicts[0] if verdicts else {}
        others = {"otherPools": verdicts[1:]} if len(verdicts) > 1 else {}
        output.structured(as_json(made) | more | others, args.output)
    elif isinstance(found, Unreadable):
        _print(made)
    else:
        _print(replace(made, findings=()))
        for each in found:
            if len(found) > 1:
                print_lines([f"GPUPool {each.pool}:"])
            output.table(verdict_table.COLUMNS, verdict_table.rows(each, seen.now), "table", headers=True)
    return OK


async def _pod(cluster: Cluster, name: str) -> Explanation:
    try:
        return pod.explained(await _read_pod(cluster, name))
    except NotFound:
        return await workloads.missing(cluster, name)


async def _read_pod(cluster: Cluster, name: str) -> pod.PodSeen:
    """A pod with all that its cards depend on; raises NotFound."""
    namespace = cluster.namespace
    found = (await cluster.get(resources.POD, SeenPod, name, namespace)).obj
    asks = sorted(units_by_pool(found))
    wanted = asks[0] if asks else None
    the_pool, cards, events = await asyncio.gather(
        maybe(cluster, resources.GPUPOOL, GPUPool, wanted),
        attempt(_cards(cluster, found, wanted)),
        attempt(_events(cluster, namespace, {"involvedObject.name": name, "involvedObject.kind": "Pod"})),
    )
    where = found.node or _reserved_on(found, cards)
    # A developer seldom may read nodes, and needs them only where the pod is: nothing is said of it before.
    the_node, inventory = await asyncio.gather(
        maybe(cluster, resources.NODE, Node, found.node),
        maybe(cluster, resources.GPUNODEINVENTORY, GPUNodeInventory, where),
    )
    seen = pod.PodSeen(found, the_pool, cards, the_node, inventory, events, time.time())
    if wanted is None or not is_queued(found):
        return seen
    observed = await attempt_queue(cluster, wanted, namespace)
    if isinstance(observed, Unreadable):
        return replace(seen, queue=observed)
    if observed.objects is None:
        return replace(seen, queue=observed.queue)
    return replace(
        seen,
        queue=observed.queue,
        misfit=explain_misfit(observed.objects, found),
        numbers=numbers_of(observed.objects, observed.queue, found),
    )


async def _cards(cluster: Cluster, found: SeenPod, wanted: str | None) -> tuple[GPUDevice, ...]:
    """The pool's cards, and those that the pod was promised and that have left it since."""
    if wanted is None:
        return ()
    of_pool = await cluster.list(resources.GPUDEVICE, GPUDevice, fields={"status.poolRef.name": wanted})
    devices = {each.obj.name: each.obj for each in of_pool}
    for name in map(choice.object_name, named_devices(found)):
        if name not in devices and (one := await maybe(cluster, resources.GPUDEVICE, GPUDevice, name)):
            devices |= {name: one} if isinstance(one, GPUDevice) else {}
    return tuple(devices[name] for name in sorted(devices))


def _reserved_on(found: SeenPod, cards: tuple[GPUDevice, ...] | Unreadable) -> str | None:
    promised = named_devices(found)
    devices = () if isinstance(cards, Unreadable) else cards
    return next((d.status.node_name for d in devices if d.status.inventory_id in promised), None)


async def _events(cluster: Cluster, namespace: str, fields: dict[str, str]) -> tuple[SeenEvent, ...]:
    found = await cluster.list(CORE_EVENT, SeenEvent, namespace=namespace, fields=fields)
    return tuple(each.obj for each in found)


async def _card(cluster: Cluster, name: str) -> Explanation:
    device = await finding.card(cluster, name)
    inventory = await maybe(cluster, resources.GPUNODEINVENTORY, GPUNodeInventory, device.status.node_name)
    return card.explained(card.CardSeen(device, inventory, time.time()))


async def _node(cluster: Cluster, name: str) -> Explanation:
    found = await finding.get_or_fail(cluster, resources.GPUNODEINVENTORY, GPUNodeInventory, name, "node with cards")
    return node.explained(node.NodeSeen(found))


async def _pool(cluster: Cluster, name: str) -> Explanation:
    found = await finding.get_or_fail(cluster, resources.GPUPOOL, GPUPool, name, "GPUPool")
    cards = await attempt(cluster.list(resources.GPUDEVICE, GPUDevice, fields={"status.poolRef.name": name}))
    devices = cards if isinstance(cards, Unreadable) else tuple(each.obj for each in cards)
    return pool.explained(pool.PoolSeen(found, devices))
