"""What `kubectl gpu takeover` reads of a cluster: GPU Operator's objects, and how far each node is."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from controllers.api import foreign, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.meta import KubeObject
from controllers.api.runtime_state import READY
from controllers.explain import takeover as maps
from controllers.runtime.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from controllers.api.resources import Resource
    from kubectl_gpu.cluster import Cluster

Json = dict[str, Any]


class Reads:
    """Lists of the API server, made anew each time: between two steps everything may have changed."""

    def __init__(self, cluster: Cluster) -> None:
        """Read from this cluster."""
        self._cluster = cluster
        self._its_own: set[str] = set()
        """Namespaces of the operator, as far as they were seen."""

    async def operator(self, on: str | None = None) -> maps.OperatorState:
        """What there is of the operator; with `on` of its pods those on this node alone.

        Any user may label a pod, a DaemonSet or a Deployment so: they count in namespaces into which a pod of such a
        program was let with its privileges.
        """
        # Which namespaces are the operator's the pods of all nodes say.
        where = _is("spec.nodeName", on if self._its_own else None)
        pods, daemonsets = await self._operands(resources.POD, where), await self._operands(resources.DAEMONSET)
        policies = [*await self._raw(foreign.CLUSTERPOLICY), *await self._raw(foreign.NVIDIADRIVER)]
        deployments = await self._raw(resources.DEPLOYMENT, foreign.OPERATOR)
        self._its_own |= maps.namespaces(pods, policies)
        if not (its_own := self._its_own):  # its last pod is gone, or its first one has yet to come
            return maps.OperatorState(deployments, policies, daemonsets, pods)
        return maps.OperatorState(
            maps.within(its_own, deployments), policies, maps.within(its_own, daemonsets), maps.within(its_own, pods)
        )

    async def _operands(self, resource: Resource, fields: Mapping[str, str] | None = None) -> list[Json]:
        labels = (foreign.OPERANDS_BY_APP, foreign.OPERANDS_BY_COMPONENT)
        found = (await self._raw(resource, each, fields) for each in labels)
        return [raw async for raws in found for raw in raws]

    async def nodes(self, only: Collection[str]) -> list[maps.NodeState]:
        """How far the nodes are, all or `only` these, by name; of a single one what is on others is not read."""
        (on,) = only if len(only) == 1 else (None,)
        there = await self.operator(on)
        cards, users = defaultdict[str, list[GPUDevice]](list), defaultdict[str, list[str]](list)
        for card in await self._cluster.list(resources.GPUDEVICE, GPUDevice, fields=_is("status.nodeName", on)):
            cards[card.obj.status.node_name or ""].append(card.obj)
        inventories = self._cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory, fields=_is("metadata.name", on))
        found = [each.obj for each in await inventories]
        # The pods last: until then one may be bound that asks for the operator's resources.
        for pod in await self._raw(resources.POD, fields=_is("spec.nodeName", on)):
            if (node := pod["spec"].get("nodeName")) and maps.asks_for_theirs(pod):
                users[node].append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        return [
            maps.state_of(there, one, cards[one.name], sorted(users[one.name]))
            for one in sorted(found, key=lambda one: one.name)
            if not only or one.name in only
        ]

    async def unsettled(self, toolkits: Mapping[str, Collection[str]]) -> list[str]:
        """Nodes on which a pod of the operator's toolkit is there yet, or the container runtime is not Ready.

        `toolkits`: uids of these pods by node.
        """
        return [node for node, uids in sorted(toolkits.items()) if not await self._is_settled(node, uids)]

    async def _is_settled(self, node: str, toolkits: Collection[str]) -> bool:
        there = {pod["metadata"]["uid"] for pod in await self._operands(resources.POD, {"spec.nodeName": node})}
        if there & {*toolkits}:
            return False
        try:
            found = (await self._cluster.get(resources.GPUNODEINVENTORY, GPUNodeInventory, node)).obj
        except NotFound:
            return True
        return found.status.runtime is None or found.status.runtime.state == READY

    async def is_offered(self, node: str) -> bool:
        """Whether a pool offers a card of a node."""
        found = await self._cluster.list(resources.GPUDEVICE, GPUDevice, fields={"status.nodeName": node})
        return any(each.obj.status.published is not None for each in found)

    async def _raw(
        self, resource: Resource, labels: str | None = None, fields: Mapping[str, str] | None = None
    ) -> list[Json]:
        """The objects of a kind that match; none where the cluster does not have the kind."""
        try:
            return [each.raw for each in await self._cluster.list(resource, KubeObject, labels=labels, fields=fields)]
        except NotFound:
            return []


def _is(field: str, value: str | None) -> dict[str, str] | None:
    """A selector by this field; None, which selects all, for no value."""
    return None if value is None else {field: value}
