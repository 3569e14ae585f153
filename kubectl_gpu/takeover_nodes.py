"""One node goes from the operator's device plugin to the module's, while no pod has a card by the former."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names, resources
from controllers.api.kube import Node
from controllers.api.record import to_json
from controllers.runtime.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubectl_gpu.cluster import Cluster
    from kubectl_gpu.takeover_reads import Reads

LOOK_AGAIN: Final = 0.2
"""Seconds between two looks at whether a pool offers the node's cards."""
TRIES: Final = 20
"""Writes of a node's taints, should somebody else write the node at the same time."""


async def switched(cluster: Cluster, reads: Reads, name: str, limit: float) -> float | None:
    """Have a node go over; returns for how many seconds nobody offered its cards, None where they still are not.

    A taint keeps new pods off meanwhile: one that is bound between the look and the end of the plugin would be refused
    by kubelet. It goes in any case; one that stays of a command that was cut off goes with the next step (`untaint`).
    """
    await _taint(cluster, name, on=True)
    try:
        (found,) = await reads.nodes((name,))
        if found.word != "Ready":
            return None
        began = time.monotonic()
        await remove(cluster, found.others)
        while time.monotonic() < began + limit:
            if await reads.is_offered(name):
                return time.monotonic() - began
            await asyncio.sleep(LOOK_AGAIN)
        return None
    finally:
        await _taint(cluster, name, on=False)


async def remove(cluster: Cluster, pods: Iterable[dict[str, Any]]) -> None:
    """Delete exactly these pods."""
    for pod in pods:
        await cluster.delete(resources.POD, pod)


async def untaint(cluster: Cluster) -> None:
    """Take off every node the taint that a command left there which was cut off."""
    for each in await cluster.list(resources.NODE, Node):
        if any(taint.key == names.TAKEOVER_TAINT for taint in each.obj.spec.taints):
            await _taint(cluster, each.obj.name, on=False)


async def _taint(cluster: Cluster, name: str, *, on: bool) -> None:
    """Put the taint on the node, or take it off; all others stay as they are."""
    for left in reversed(range(TRIES)):
        found = await cluster.get(resources.NODE, Node, name)
        node = found.obj
        before = [to_json(one) for one in node.spec.taints]
        after = [one for one in before if one["key"] != names.TAKEOVER_TAINT]
        if on:
            after.append({"key": names.TAKEOVER_TAINT, "effect": "NoSchedule"})
        if after == before:
            return
        meta = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
        body = {"metadata": meta, "spec": {"taints": after}}
        try:
            await cluster.merge(resources.NODE, found.raw, body)
        except Conflict:  # kubelet writes nodes, too
            if not left:
                raise
        else:
            return
