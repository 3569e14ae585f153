"""The programs of a simulated node, each as one reconciliation by node: NFD, discovery, plugins with kubelet.

All are level-triggered: they read the caches, ask the pure modules what should be, and write
the difference. What a write returns goes into the cache at once. NFD and kubelet act as the
simulation's own administrator; our node agents act under their ServiceAccounts, with tokens
bound to their node.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from controllers.api import names as api
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node
from controllers.api.record import adapter, to_json
from controllers.api.resources import GPUDEVICE, NODE, NODEFEATURE
from controllers.runtime.errors import Forbidden, NotFound, Terminal
from sim.errors import UserError
from sim.nodes import discover, gfd, kubelet, names, nfd, plugin, rule
from sim.nodes.report import Report, digest

if TYPE_CHECKING:
    from controllers.api.gpudevice import Allocation, Published
    from controllers.runtime.client import Client
    from sim.nodes.cluster import Cluster
    from sim.nodes.evaluator import Evaluator
    from sim.nodes.identity import Identities
    from sim.nodes.machine import Machine

log = structlog.get_logger()
UNAUTHORIZED = 401


class Roles:
    """What the agent does for one node at a time; safe to call for different nodes at once."""

    def __init__(self, cluster: Cluster, admin: Client, identities: Identities, evaluator: Evaluator) -> None:
        """Prepare."""
        self._cluster, self._admin, self._identities, self._evaluator = cluster, admin, identities, evaluator

    async def nfd(self, name: str) -> None:
        """Play nfd-worker, with GFD's file beside it, and nfd-master for a node; play nfd-gc for one that is gone."""
        node = self._cluster.node(name)
        if node is None:
            self._evaluator.forget(name)
            if self._cluster.nodes.get(name) is None:
                await self._collect(name)
            return
        await self._register(node)
        machine = self._machine(node)
        if machine.faults.unknown:
            log.warning("unknown faults", node=name, faults=machine.faults.unknown)
        since = self._cluster.gfd_since(name)
        local = gfd.labels(machine, since) if since is not None else {}
        features = nfd.features(name, machine, self._cluster.catalogue, local)
        known = self._cluster.reports.get(f"{names.NFD_NAMESPACE}/{name}")
        if known is None or (not known.by_hand and known.spec.digest != digest(features)):
            await self._report(self._admin, nfd.manifest(name, features), known, names.NFD_WORKER)
        await self._label(node)

    async def _label(self, node: Node) -> None:
        """Play nfd-master: the labels that the NodeFeatureRules in the cluster give."""
        reports = rule.merged(self._cluster.reports.by("node", node.name))
        answer, is_new = await self._evaluator.node(node.name, self._cluster.rules_json, reports)
        if is_new and answer.errors:
            log.warning("NFD would refuse", node=node.name, errors=answer.errors)
        if answer.labels != rule.owned(node):
            meta = {**rule.patch(answer.labels), "name": node.name, "uid": node.metadata.uid}
            body = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
            written = await self._admin.apply(NODE, node.name, body, manager=names.NFD_MASTER)
            self._cluster.nodes.offer(adapter(Node).validate_json(written))

    async def _register(self, node: Node) -> None:
        """Play kubelet's registration for a node that somebody made by hand: the labels that it lacks."""
        missing = {key: value for key, value in kubelet.labels(node.name).items() if key not in node.metadata.labels}
        if missing:
            meta = {"name": node.name, "uid": node.metadata.uid, "labels": missing}
            body = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
            answer = await self._admin.apply(NODE, node.name, body, manager=names.KUBELET)
            self._cluster.nodes.offer(adapter(Node).validate_json(answer))

    async def discover(self, name: str) -> None:
        """Play `nodeagent discover`, while its pod runs there."""
        node, known = self._cluster.node(name), self._cluster.agent_report(name)
        if node is None or not self._cluster.discovers(name) or (known is not None and known.by_hand):
            return
        if not (boot_id := node.status.node_info.boot_id):
            return  # kubelet, played by KWOK, has not registered yet; it wakes us
        features = discover.features(name, boot_id, self._machine(node))
        if known is None or known.spec.digest != digest(features):
            client = self._identities.client(api.MANAGER_DISCOVER, node)
            await self._report(client, discover.manifest(name, features), known, api.MANAGER_DISCOVER)

    async def plugin(self, name: str) -> None:
        """Play the device plugins of the node, and kubelet's part of allocation.

        What a node has never exceeds what is acknowledged: allocatable falls before
        `published` is withdrawn, and rises after it has been written.
        """
        node = self._cluster.node(name)
        if node is None:
            self._identities.forget(name)
            return
        machine, offers = self._machine(node), self._cluster.offers(name)
        devices = self._cluster.devices.by("node", name)
        seats = {card.address for card in machine.cards}
        wanted = plugin.published(devices, offers, seats, silent=machine.faults.silent_plugin)
        least = plugin.allocatable(plugin.both(devices, wanted), offers)
        await self._resources(node, plugin.lowered(node.status.allocatable, least))
        served = kubelet.allocations(devices, self._cluster.pods.by("gpu", name), wanted)
        for device in devices:
            await self._card(node, device, wanted[device.name], served[device.name])
        node = self._cluster.node(name) or node
        await self._resources(node, plugin.resources_patch(node.status.allocatable, plugin.allocatable(wanted, offers)))

    def _machine(self, node: Node) -> Machine:
        try:
            return self._cluster.machine(node)
        except UserError as error:
            raise Terminal(f"node {node.name}: {error}") from error

    async def _report(self, client: Client, body: dict[str, Any], known: Report | None, manager: str) -> None:
        """Write a NodeFeature; one that was deleted meanwhile is not made anew by an old uid."""
        meta = body["metadata"]
        uid = {"uid": known.metadata.uid} if known is not None else {}
        full = {"apiVersion": NODEFEATURE.api_version, "kind": "NodeFeature"} | body | {"metadata": meta | uid}
        answer = await self._guarded(
            client.apply(NODEFEATURE, meta["name"], full, manager=manager, namespace=meta["namespace"]),
            meta["labels"][api.NFD_NODE_NAME],
        )
        self._cluster.reports.offer(adapter(Report).validate_json(answer))

    async def _card(
        self, node: Node, device: GPUDevice, offered: Published | None, served: tuple[Allocation, ...]
    ) -> None:
        """Write what the plugin says of a card, where it differs: both fields, since one apply owns both."""
        if (device.status.published, device.status.allocations) == (offered, served):
            return
        status: dict[str, Any] = {"allocations": [to_json(entry) for entry in served]} if served else {}
        if offered is not None:
            status["published"] = to_json(offered)
        body = {
            "apiVersion": GPUDEVICE.api_version,
            "kind": GPUDEVICE.kind,
            "metadata": {"name": device.name, "uid": device.metadata.uid},
            "status": status,
        }
        client = self._identities.client(api.MANAGER_PLUGIN, node)
        apply = client.apply(GPUDEVICE, device.name, body, manager=api.MANAGER_PLUGIN, subresource="status")
        self._cluster.devices.offer(adapter(GPUDevice).validate_json(await self._guarded(apply, node.name)))

    async def _resources(self, node: Node, change: dict[str, str | None]) -> None:
        """Patch the node's extended resources, as kubelet does."""
        if not change:
            return
        body = {"metadata": {"uid": node.metadata.uid}, "status": {"capacity": change, "allocatable": change}}
        answer = await self._admin.merge(NODE, node.name, body, manager=names.KUBELET, subresource="status")
        self._cluster.nodes.offer(adapter(Node).validate_json(answer))

    async def _collect(self, name: str) -> None:
        """Delete what NFD and our agent reported of a node that is gone; not what somebody made by hand."""
        reports = [report for report in self._cluster.reports.by("node", name) if not report.by_hand]
        if not name or not reports:
            return
        try:
            await self._admin.get(NODE, name)
        except NotFound:
            for report in reports:
                meta = report.metadata
                with suppress(NotFound):
                    await self._admin.delete(
                        NODEFEATURE, report.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                    )

    async def _guarded(self, request: Any, node: str) -> bytes:
        """A request under a node's token; a token that is refused is not used again."""
        try:
            answer: bytes = await request
        except Forbidden as error:
            if error.status == UNAUTHORIZED:
                self._identities.forget(node)
            raise
        return answer
