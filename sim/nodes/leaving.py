"""A node that leaves with its pods.

Kubernetes' own collector would end the pods of a node that is gone after up to a minute, and kubelet those of a node
that comes back under its name. KWOK does neither: such a pod would stay, and keep the name's next node from its own.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from controllers.api import names, resources
from controllers.runtime.errors import NotFound, RuntimeFault
from sim.nodes.names import HARDWARE

if TYPE_CHECKING:
    from controllers.runtime.client import Client

AT_ONCE = {"gracePeriodSeconds": 0}
PATIENCE, PAUSE = 20.0, 0.1
"""Seconds until pods that stay are an error, and between two looks."""


class StuckError(RuntimeFault):
    """Pods that do not go: something else holds them, a finalizer as a rule."""


async def remove_node(client: Client, name: str) -> None:
    """Delete a node, if it is there, and its pods."""
    with suppress(NotFound):
        await client.request("DELETE", resources.NODE.path(None, name), body=AT_ONCE)
    await bury(client, name)


async def bury(client: Client, node: str) -> None:
    """Delete every pod that is bound to a node, and ask again until there is none; raises StuckError."""
    query, limit = {"fieldSelector": f"spec.nodeName={node}"}, time.monotonic() + PATIENCE
    while pods := orjson.loads(await client.request("GET", resources.POD.path(None), query=query))["items"]:
        marks = [pod["metadata"] for pod in pods]
        if time.monotonic() > limit:
            stay = ", ".join(f"{about['namespace']}/{about['name']}" for about in marks)
            raise StuckError(f"pods of node {node} that were deleted are still there after {PATIENCE:g} s: {stay}")
        for about in marks:
            with suppress(NotFound):
                if names.LABEL_DRIVER in about.get("labels", {}):  # which people end on purpose alone
                    forced = {"metadata": {"annotations": {names.FORCE: "true"}}}
                    await client.merge(
                        resources.POD, about["name"], forced, manager=HARDWARE, namespace=about["namespace"]
                    )
                await client.request("DELETE", resources.POD.path(about["namespace"], about["name"]), body=AT_ONCE)
        await asyncio.sleep(PAUSE)
