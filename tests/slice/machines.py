"""Simulated machines of one test: they join the shared cluster, and die."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time

from controllers.api import resources
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.domain.clock import stamp
from controllers.runtime.errors import RuntimeFault
from sim.nodes import names as sim_names
from sim.nodes.manifests import create_nodes, node_manifests
from tests.kit.waiting import PATIENCE
from tests.slice.people import People


def cards(people: People, node: str) -> list[str]:
    """Names of a node's cards."""
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


async def joins(people: People, node: str) -> None:
    """A node of four cards, whose name ends in -1, comes and is prepared."""
    await create_nodes(people.client, node_manifests(["l40s-4"], prefix=node.removesuffix("-1")))

    def ready() -> bool:
        inventory = people.view.inventories.get(node)
        return inventory is not None and is_true(inventory.status.conditions, READY_FOR_POOLING)

    waking = asyncio.create_task(_wake_kwok(people, node))
    try:
        await people.view.until(lambda: ready() and bool(cards(people, node)), PATIENCE, lambda: f"{node} is not ready")
    finally:
        waking.cancel()
        await asyncio.gather(waking, return_exceptions=True)


async def _wake_kwok(people: People, node: str) -> None:
    """Change pods of a node that are being deleted, until they are gone, as a kubelet sees to by itself.

    KWOK misses a deletion that comes just as it takes up a node which was registered again, and looks at any change.
    """
    for number in itertools.count():
        await asyncio.sleep(1.0)
        leaving = [pod for pod in people.view.pods if pod.node == node and pod.metadata.deletion_timestamp is not None]
        for pod in leaving:
            mark = {"metadata": {"annotations": {"test/woken": str(number)}}}
            with contextlib.suppress(RuntimeFault):
                await people.client.merge(
                    resources.POD, pod.name, mark, manager="test", namespace=pod.metadata.namespace
                )


async def dies(people: People, node: str) -> None:
    """Nobody plays its kubelet, nor any program there, any more."""
    marks = {"metadata": {"annotations": {sim_names.FAKE: None}}}
    await people.client.merge(resources.NODE, node, marks, manager="test")
    now = stamp(time.time())
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
    body = {"status": {"conditions": [unknown | {"message": "Kubelet stopped posting node status."}]}}
    await people.client.merge(resources.NODE, node, body, manager="test", subresource="status")
