"""`nodeagent mig-manager` of a simulated node: follows the node's layout, and divides its cards.

One program plays the managers of all pools of a node, since there is one apply a node at a time. It acts while a pod
of one of them is ready there. Each turn does one thing and is woken by what it wrote: nothing is remembered.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.api.gpudevice import MigApply
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import NODE
from controllers.runtime.errors import Terminal
from sim.errors import UserError
from sim.nodes import mig, names

if TYPE_CHECKING:
    from controllers.domain.mig import NodeLayout
    from controllers.runtime.client import Client
    from sim.nodes.cluster import Cluster
    from sim.nodes.machine import Machine
    from sim.nodes.writes import Writes


class MigManager:
    """One node at a time; safe to call for different nodes at once."""

    def __init__(self, cluster: Cluster, admin: Client, writes: Writes) -> None:
        """Prepare; `admin` changes the hardware."""
        self._cluster, self._admin, self._writes = cluster, admin, writes

    async def node(self, name: str) -> float | None:
        """Play the node's MIG managers; returns the seconds after which the apply at hand is over."""
        node = self._cluster.node(name)
        if node is None or not self._cluster.divides(name):
            return None
        layout = mig.wanted(self._cluster.layout(name))
        if layout is None:
            return None
        work = mig.work(node.metadata.annotations)
        left = work.left(self._machine(node), time.time()) if work is not None else 0.0
        if work is not None and left <= 0:
            after = mig.text(mig.changed(layout, self._machine(node), work))
            node, work = await self._mark(node, {names.MIG: after, names.MIG_WORK: None}), None
        await self._tell(node, layout, work)
        return left if work is not None else await self._begin(node, layout)

    async def _tell(self, node: Node, layout: NodeLayout, work: mig.Work | None) -> None:
        """Write what has changed in `migApply` of the node's cards."""
        parts = {part.address: part for part in layout.cards}
        machine, boot = self._machine(node), node.status.node_info.boot_id
        for address, device in mig.addresses(self._cluster.devices.by("node", node.name)).items():
            said = mig.told(parts.get(address), device.status.mig_apply, machine, work, boot)
            if said != device.status.mig_apply:
                await self._writes.mig(node, device, said)

    async def _begin(self, node: Node, layout: NodeLayout) -> float | None:
        """Begin an apply of every card that can be changed."""
        devices, clients = self._cluster.devices.by("node", node.name), self._cluster.clients(node.name)
        found = mig.startable(layout, devices, self._machine(node), clients=clients)
        if not found:
            return None
        versions = {part.address: part.version for part in layout.cards if part.address in found}
        for address, version in versions.items():
            # Conditional: one that has come to serve a pod meanwhile is a conflict, and looked at anew.
            await self._writes.mig(node, found[address], MigApply(version=version, phase="Applying"))
        work = mig.Work(time.time(), versions)
        node = await self._mark(node, {names.MIG_WORK: work.text()})
        return work.left(self._machine(node), work.since)

    def _machine(self, node: Node) -> Machine:
        try:
            return self._cluster.machine(node)
        except UserError as error:
            raise Terminal(f"node {node.name}: {error}") from error

    async def _mark(self, node: Node, annotations: dict[str, str | None]) -> Node:
        """Change the state of the node's hardware."""
        body = {"metadata": {"uid": node.metadata.uid, "annotations": annotations}}
        answer = await self._admin.merge(NODE, node.name, body, manager=names.HARDWARE)
        changed = adapter(Node).validate_json(answer)
        self._cluster.nodes.offer(changed)
        return changed
