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

    async def operator(self) -> maps.OperatorState:
        """What there is of the operator.

        Any user may label a pod, a DaemonSet or a Deployment so: they count in namespaces into which a pod of such a
        program was let with its privileges.
        """
        pods, daemonsets = await self._operands(resources.POD), await self._operands(resources.DAEMONSET)
        policies = [*await self._raw(foreign.CLUSTERPOLICY), *await self._raw(foreign.NVIDIADRIVER)]
        deployments = await self._raw(resources.DEPLOYMENT, foreign.OPERATOR)
        its_own = maps.namespaces(pods, policies)
        if not its_own:  # its last pod is gone, or its first one has yet to come
            return maps.OperatorState(deployments, policies, daemonsets, pods)
        return maps.OperatorState(
            maps.within(its_own, deployments), policies, maps.within(its_own, daemonsets), maps.within(its_own, pods)
        )

    async def _operands(self, resource: Resource) -> list[Json]:
        found = (await self._raw(resource, each) for each in (foreign.OPERANDS_BY_APP, foreign.OPERANDS_BY_COMPONENT))
        return [raw async for raws in found for raw in raws]

    async def nodes(self, only: Collection[str]) -> list[maps.NodeState]:
        """How far the nodes are, all or `only` these, by name."""
        there, users = await self.operator(), defaultdict[str, list[str]](list)
        for pod in await self._raw(resources.POD):
            if (node := pod["spec"].get("nodeName")) and maps.asks_for_theirs(pod):
                users[node].append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        cards = defaultdict[str, list[GPUDevice]](list)
        for card in await self._cluster.list(resources.GPUDEVICE, GPUDevice):
            cards[card.obj.status.node_name or ""].append(card.obj)
        found = [each.obj for each in await self._cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory)]
        return [
            maps.state_of(there, one, cards[one.name], sorted(users[one.name]))
            for one in sorted(found, key=lambda one: one.name)
            if not only or one.name in only
        ]

    async def unsettled(self, toolkits: Mapping[str, Collection[str]]) -> list[str]:
        """Nodes on which a pod of the operator's toolkit is there yet, or the container runtime is not Ready.

        `toolkits`: uids of these pods by node.
        """
        there = {pod["metadata"]["uid"] for pod in await self._operands(resources.POD)}
        found = [each.obj for each in await self._cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory)]
        states = {one.name: one.status.runtime.state for one in found if one.status.runtime is not None}
        return sorted(node for node, uids in toolkits.items() if there & set(uids) or states.get(node, READY) != READY)

    async def users(self, node: str) -> list[str]:
        """Pods on a node that ask for a resource of the operator's plugin, by a read of the quorum."""
        found = await self._cluster.list(resources.POD, KubeObject, fields={"spec.nodeName": node})
        return [each.obj.key for each in found if maps.asks_for_theirs(each.raw)]

    async def is_offered(self, node: str) -> bool:
        """Whether a pool offers a card of a node."""
        found = await self._cluster.list(resources.GPUDEVICE, GPUDevice, fields={"status.nodeName": node})
        return any(each.obj.status.published is not None for each in found)

    async def _raw(self, resource: Resource, labels: str | None = None) -> list[Json]:
        """All objects of a kind; none where the cluster does not have the kind."""
        try:
            return [each.raw for each in await self._cluster.list(resource, KubeObject, labels=labels)]
        except NotFound:
            return []
