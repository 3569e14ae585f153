"""Writes of the node agents: under tokens bound to their node, and what comes back goes into the cache at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from controllers.api import names as api
from controllers.api.gpudevice import GPUDevice
from controllers.api.record import adapter
from controllers.api.resources import GPUDEVICE, NODEFEATURE
from controllers.runtime.errors import Forbidden
from controllers.runtime.executor import Executor
from sim.nodes.report import Report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from controllers.api.kube import Node
    from controllers.runtime.client import Client
    from controllers.runtime.events import Recorder
    from sim.nodes.cluster import Cluster
    from sim.nodes.identity import Identities

T = TypeVar("T")
UNAUTHORIZED = 401


class Writes:
    """The writer of all agents; safe to use for different nodes at once."""

    def __init__(self, cluster: Cluster, identities: Identities, recorder: Recorder) -> None:
        """Prepare."""
        self._cluster, self._identities, self._recorder = cluster, identities, recorder

    def as_agent(self, account: str, node: Node) -> Client:
        """The API server as a node agent's ServiceAccount on that node."""
        return self._identities.client(account, node)

    def executor(self, account: str, node: Node, manager: str = "") -> Executor:
        """A node agent's own way to write, under its ServiceAccount on that node.

        `manager`: its field manager, where that is not named as the account.
        """
        made = Executor(self.as_agent(account, node), manager or account, self._recorder)
        made.register_cache(GPUDEVICE, GPUDevice, self._cluster.devices)
        made.register_cache(NODEFEATURE, Report, self._cluster.reports)
        return made

    def forget(self, node: str) -> None:
        """Drop the tokens of a node that is gone."""
        self._identities.forget(node)

    async def report(self, client: Client, body: dict[str, Any], known: Report | None, manager: str) -> None:
        """Write a NodeFeature; one that was deleted meanwhile is not made anew by an old uid."""
        meta = body["metadata"]
        if known is None and await self._is_there(client, meta):
            return  # somebody made it by hand a moment ago: the watch brings it
        uid = {"uid": known.metadata.uid} if known is not None else {}
        full = {"apiVersion": NODEFEATURE.api_version, "kind": "NodeFeature"} | body | {"metadata": meta | uid}
        answer = await self.guarded(
            client.apply(NODEFEATURE, meta["name"], full, manager=manager, namespace=meta["namespace"]),
            meta["labels"][api.NFD_NODE_NAME],
        )
        self._cluster.reports.on_own_write(adapter(Report).validate_json(answer))

    async def _is_there(self, client: Client, meta: Mapping[str, Any]) -> bool:
        """By a list, which the real agent may ask for, too; it has no right to a single get."""
        query, path = {"fieldSelector": f"metadata.name={meta['name']}"}, NODEFEATURE.path(meta["namespace"])
        answer = await self.guarded(client.request("GET", path, query=query), meta["labels"][api.NFD_NODE_NAME])
        return bool(orjson.loads(answer)["items"])

    async def guarded(self, request: Awaitable[T], node: str) -> T:
        """What is done under a node's token; a token that is refused is not used again."""
        try:
            return await request
        except Forbidden as error:
            if error.status == UNAUTHORIZED:
                self.forget(node)
            raise
