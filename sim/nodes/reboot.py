"""A simulated node that is started anew: another boot, in the newest kernel that is installed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import orjson

from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import NODE
from sim.nodes import names

if TYPE_CHECKING:
    from controllers.runtime.client import Client

NEXT = "next-kernel="


async def reboot(client: Client, name: str) -> Node:
    """Start a node anew; returns it as it is then. What was loaded into its kernel is gone with its last boot."""
    node = adapter(Node).validate_python(orjson.loads(await client.get(NODE, name)))
    words = [word.strip() for word in node.metadata.annotations.get(names.HOST, "").split(",")]
    newer = next((word.removeprefix(NEXT) for word in words if word.startswith(NEXT)), "")
    info = {"bootID": str(uuid.uuid4())} | ({"kernelVersion": newer} if newer else {})
    if newer:
        left = ",".join(word for word in words if not word.startswith(NEXT))
        meta = {"metadata": {"uid": node.metadata.uid, "annotations": {names.HOST: left or None}}}
        await client.merge(NODE, name, meta, manager=names.HARDWARE)
    body = {"metadata": {"uid": node.metadata.uid}, "status": {"nodeInfo": info}}
    answer = await client.merge(NODE, name, body, manager=names.KUBELET, subresource="status")
    return adapter(Node).validate_json(answer)
