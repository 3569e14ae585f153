"""Asks the real scheduler about one pod at a time: a fleet on a real API server, and what comes of each pod."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api.resources import NAMESPACE as NAMESPACES
from controllers.api.resources import NODE, POD, RUNTIMECLASS
from reliability.agreement import wishes
from reliability.agreement.answers import Answers
from reliability.agreement.fleet import NAMESPACE, SENTINEL, TURN
from reliability.agreement.records import Outcome
from reliability.kit.progress import for_each

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from reliability.agreement.cluster import Cluster
    from reliability.agreement.fleet import Fleet

Json = dict[str, Any]
MANAGER: Final = "agreement"
APISERVER_FLAGS: Final = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
"""Here no controller makes ServiceAccounts or takes back the taint of a new node."""
NOW: Final = {"gracePeriodSeconds": 0}
"""Nobody plays kubelet here, who would let a bound pod go."""


class Scheduler:
    """The scheduler of a control plane, and the fleet that it has now."""

    def __init__(self, client: Client) -> None:
        """`client`: of an administrator."""
        self._client = client
        self._answers = Answers(client)
        self._turn = 0

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Prepare what pods need, and follow them inside the block."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self._client.create(NAMESPACES, space, manager=MANAGER)
        heavy = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": wishes.HEAVY}}
        heavy |= {"handler": wishes.HEAVY, "overhead": {"podFixed": wishes.OVERHEAD}}
        await self._client.create(RUNTIMECLASS, heavy, manager=MANAGER)
        async with self._answers.following():
            yield

    async def bring(self, fleet: Fleet, cluster: Cluster) -> None:
        """Put a fleet in the place of the last one, and wait until the scheduler has seen it."""
        await self._clear(POD, NAMESPACE)
        await self._clear(NODE)
        nodes = fleet.make_nodes()
        residents = [pod for node in nodes[:-1] for pod in fleet.residents(node["metadata"]["name"])]

        async def make_node(node: Json) -> None:
            cluster.put_node(orjson.loads(await self._client.create(NODE, node, manager=MANAGER)))

        async def make_resident(pod: Json) -> None:
            stored = await self._create(pod)
            if "status" in pod:
                stored = await self._merge(POD, stored["metadata"]["name"], {"status": pod["status"]}, "status")
            cluster.put_pod(stored)

        await for_each(nodes, make_node)
        await for_each(residents, make_resident)
        await self.settle(cluster)

    async def change(self, name: str, patch: Json, cluster: Cluster) -> None:
        """Change a node; `settle` afterwards."""
        stored = await self._merge(NODE, name, patch, "status" if "status" in patch else None)
        cluster.put_node(stored)

    async def remove(self, pods: Iterable[str], cluster: Cluster) -> None:
        """Let pods go; `settle` afterwards."""
        for name in pods:
            await self._delete(name)
            cluster.drop_pod(name)

    async def settle(self, cluster: Cluster) -> None:
        """Wait until the scheduler has seen everything that was written so far.

        It sees what happens to nodes in its order, and to pods, too: so one that comes after all else, and can only go
        to a node with the newest label, is bound when both are seen.
        """
        self._turn += 1
        turn = str(self._turn)
        cluster.put_node(await self._merge(NODE, SENTINEL, {"metadata": {"labels": {TURN: turn}}}))
        spec: Json = {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {TURN: turn},
        }
        outcome, tries = Outcome(), 0
        while outcome.node is None:
            tries += 1  # another name each time: what is yet to come of the last one says nothing of this
            name = f"probe-{turn}-{tries}"
            _, outcome = await self._ask({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
            await self._delete(name)

    async def ask(self, pod: Json) -> tuple[Json, Outcome]:
        """Create a pod and say what came of it; the pod as it was stored. One that is not bound is deleted."""
        stored, outcome = await self._ask(pod)
        if outcome.node is None:
            await self._delete(pod["metadata"]["name"])
        return stored, outcome

    async def _ask(self, pod: Json) -> tuple[Json, Outcome]:
        with self._answers.expecting(pod["metadata"]["name"]) as answer:
            await self._create(pod)
            return await answer()

    async def _create(self, pod: Json) -> Json:
        body = {key: value for key, value in pod.items() if key != "status"}
        return _json(await self._client.create(POD, body, NAMESPACE, manager=MANAGER))

    async def _merge(self, resource: Resource, name: str, patch: Json, subresource: str | None = None) -> Json:
        space = NAMESPACE if resource.namespaced else None
        found = await self._client.merge(
            resource, name, patch, manager=MANAGER, namespace=space, subresource=subresource
        )
        return _json(found)

    async def _delete(self, pod: str) -> None:
        await self._client.request("DELETE", POD.path(NAMESPACE, pod), body=NOW)

    async def _clear(self, resource: Resource, namespace: str | None = None) -> None:
        await self._client.request("DELETE", resource.path(namespace), body=NOW)


def _json(found: bytes) -> Json:
    parsed: Json = orjson.loads(found)
    return parsed
