"""The programs of a simulated node, each as one reconciliation by node: NFD, discovery, plugins with kubelet.

All are level-triggered: they read the caches, ask the pure modules what should be, and write
the difference. What a write returns goes into the cache at once. NFD and kubelet act as the
simulation's own administrator; our node agents act under their ServiceAccounts, with tokens
bound to their node.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from controllers.api import names as api
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import NODE, NODEFEATURE
from controllers.runtime.errors import NotFound, Terminal
from nodeagent.deviceplugin.devices import decide, offers
from nodeagent.deviceplugin.devices.records import ForeignUsage, Holdings
from sim.nodes import discover, gfd, kubelet, mps, names, nfd, plugin, rule
from sim.nodes.report import digest
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.runtime.client import Client
    from nodeagent.deviceplugin.devices.offers import DesiredOffer
    from nodeagent.deviceplugin.devices.records import Listed, NodeScan
    from nodeagent.host.mpsfiles import WantedDaemon
    from sim.nodes.cluster import Cluster
    from sim.nodes.evaluator import Evaluator
    from sim.nodes.machine import Machine
    from sim.nodes.writes import Writes

log = structlog.get_logger()
DEAF: Final = ForeignUsage(is_current=False)
"""What a plugin knows of others that hears of nothing."""


class Roles:
    """What the agent does for one node at a time; safe to call for different nodes at once."""

    def __init__(self, cluster: Cluster, admin: Client, writes: Writes, evaluator: Evaluator) -> None:
        """Prepare."""
        self._cluster, self._admin, self._writes, self._evaluator = cluster, admin, writes, evaluator

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
        if unknown := (*machine.faults.unknown, *machine.host.unknown):
            log.warning("unknown faults", node=name, faults=unknown)
        since = self._cluster.gfd_since(name)
        local = gfd.labels(machine, since) if since is not None else {}
        features = nfd.features(name, machine, self._cluster.catalogue, local)
        known = self._cluster.reports.get(f"{names.NFD_NAMESPACE}/{name}")
        if known is None or (not known.by_hand and known.spec.digest != digest(features)):
            await self._writes.report(self._admin, nfd.manifest(name, features), known, names.NFD_WORKER)
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
            self._cluster.nodes.on_own_write(adapter(Node).validate_json(written))

    async def _register(self, node: Node) -> None:
        """Play kubelet's registration for a node that somebody made by hand: the labels that it lacks."""
        missing = {key: value for key, value in kubelet.labels(node.name).items() if key not in node.metadata.labels}
        if missing:
            meta = {"name": node.name, "uid": node.metadata.uid, "labels": missing}
            body = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
            answer = await self._admin.apply(NODE, node.name, body, manager=names.KUBELET)
            self._cluster.nodes.on_own_write(adapter(Node).validate_json(answer))

    async def discover(self, name: str) -> None:
        """Play `nodeagent discover`, while its pod runs there."""
        node, known = self._cluster.node(name), self._cluster.agent_report(name)
        if node is None or not self._cluster.discovers(name) or (known is not None and known.by_hand):
            return
        if not (boot_id := node.status.node_info.boot_id):
            return  # kubelet, played by KWOK, has not registered yet; it wakes us
        machine = self._machine(node)
        if machine.faults.no_agent:
            return
        features = discover.features(name, boot_id, machine)
        if known is None or known.spec.digest != digest(features):
            client = self._writes.as_agent(api.MANAGER_DISCOVER, node)
            await self._writes.report(client, discover.manifest(name, features), known, api.MANAGER_DISCOVER)

    async def plugin(self, name: str) -> None:
        """Play the device plugins of the node, and kubelet's part of allocation.

        As in a real plugin's pass, the list that kubelet has comes before what is written, and follows it: what a node
        has never exceeds what is acknowledged.
        """
        node = self._cluster.node(name)
        if node is None:
            self._writes.forget(name)
            return
        machine, cards = self._machine(node), self._cluster.devices.by("node", name)
        alive = self._cluster.sharing(name)
        situations = {
            pool: _situation(pool, node, machine, cards, asked, alive=alive)
            for pool, asked in self._cluster.wishes(name).items()
        }
        lists = _lists(cards, situations)
        await self._resources(node, lists)
        if not situations:
            await self._share(node, machine, {}, alive)
            return
        bound = self._cluster.pods.by("gpu", name)
        held = Holdings(kubelet.holdings(cards, bound, lists), plugin.foreign(cards, machine.faults.held))
        pods = {pod.key: pod for pod in bound}
        executor = self._writes.executor(api.MANAGER_PLUGIN, node)
        for pool, (asked, seen) in situations.items():
            cards = self._cluster.devices.by("node", name)
            basis = decide.Basis(pool, asked, seen, held, pods)
            foreign = DEAF if machine.faults.silent_plugin else decide.foreign(cards, basis)
            await self._writes.guarded(executor.execute(decide.writes(cards, basis, foreign)), name)
        cards = self._cluster.devices.by("node", name)
        await self._resources(node, _lists(cards, situations))
        wanted = {
            pool: decide.daemons(cards, decide.Basis(pool, *situation, held, pods), time.time())
            for pool, situation in situations.items()
        }
        await self._share(node, machine, wanted, alive)

    async def _share(
        self, node: Node, machine: Machine, wanted: Mapping[str, Mapping[str, WantedDaemon]], alive: frozenset[str]
    ) -> None:
        """Play the MPS roles: start and end control daemons, which a change of the Node tells the plugins of."""
        states = mps.held(node.metadata.annotations)
        by_address = {offers.address(card): offers.uuid(card) for card in self._cluster.devices.by("node", node.name)}
        dead = {by_address.get(address, "") for address in machine.faults.mps_dies}
        made = {
            # Where a pool's plugin says nothing, all stays as it is while the role runs.
            pool: mps.turn(states.get(pool, {}), wanted.get(pool, _as_they_are(states, pool)), alive=runs, dead=dead)
            for pool in {*states, *wanted}
            for runs in (pool in alive,)
        }
        if (text := mps.text(made)) == mps.text(states):
            return
        body = {"metadata": {"uid": node.metadata.uid, "annotations": {names.MPS: text}}}
        answer = await self._admin.merge(NODE, node.name, body, manager=names.HARDWARE)
        self._cluster.nodes.on_own_write(adapter(Node).validate_json(answer))

    def _machine(self, node: Node) -> Machine:
        try:
            return self._cluster.machine(node)
        except UserError as error:
            raise Terminal(f"node {node.name}: {error}") from error

    async def _resources(self, node: Node, lists: kubelet.Lists) -> None:
        """Patch the node's extended resources, as kubelet does where the plugins' lists have changed."""
        node = self._cluster.node(node.name) or node
        change = kubelet.resources_patch(node.status.allocatable, kubelet.allocatable(lists))
        if not change:
            return
        body = {"metadata": {"uid": node.metadata.uid}, "status": {"capacity": change, "allocatable": change}}
        answer = await self._admin.merge(NODE, node.name, body, manager=names.KUBELET, subresource="status")
        self._cluster.nodes.on_own_write(adapter(Node).validate_json(answer))

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


def _situation(
    pool: str, node: Node, machine: Machine, cards: Sequence[GPUDevice], asked: DesiredOffer, *, alive: frozenset[str]
) -> tuple[DesiredOffer, NodeScan]:
    """What a pool's plugin goes by: what it is asked, and what it sees."""
    daemons = mps.seen(pool, node.metadata.annotations, alive)
    if machine.faults.silent_plugin:
        deaf = plugin.deaf(pool, cards)
        return deaf, replace(plugin.seen(node.name, machine, cards, deaf, daemons), lost=frozenset())
    return asked, plugin.seen(node.name, machine, cards, asked, daemons)


def _as_they_are(states: Mapping[str, mps.States], pool: str) -> dict[str, WantedDaemon]:
    """The daemons that a pool has, as what is wanted."""
    return {uuid: one.wanted for uuid, one in states.get(pool, {}).items() if one.wanted is not None}


def _lists(
    cards: Sequence[GPUDevice], situations: Mapping[str, tuple[DesiredOffer, NodeScan]]
) -> dict[str, tuple[Listed, ...]]:
    """What the plugins list, by what stands after `gpu.deckhouse.io/` in the resource."""
    taken = offers.reported(cards)
    found: dict[str, tuple[Listed, ...]] = {}
    for pool, (asked, seen) in situations.items():
        listing = offers.listing(pool, cards, asked, seen, taken)
        for suffix in offers.suffixes(pool, asked, listing):
            found[suffix] = tuple(device for device in listing if device.suffix == suffix)
    return found
