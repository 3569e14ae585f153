"""`nodeagent mig-manager` of simulated nodes: the real manager, at cards that are annotations.

One manager plays those of all pools of a node, since there is one apply a node at a time: it lives while a pod of one
of them is ready there. What it remembers of work that has begun goes with it, or when its node is started anew.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from controllers.api import names as api
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import NODE
from controllers.runtime.errors import Terminal
from nodeagent.mig.cards.records import HostEvidence, Loading, NodeScan
from nodeagent.mig.cluster import Quorum
from nodeagent.mig.manager import Manager
from nodeagent.mig.scanner import driver_reports
from nodeagent.mig.work import Work
from sim.nodes import bus, mig, names, nvml
from sim.nodes.parted import Programs
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import ConfigMap
    from controllers.domain.mig import CardLayout
    from controllers.runtime.client import Client
    from nodeagent.mig.cards.records import Attempt
    from sim.nodes.cluster import Cluster
    from sim.nodes.machine import Machine
    from sim.nodes.writes import Writes


class MigManager:
    """One node at a time; safe to call for different nodes at once."""

    def __init__(self, cluster: Cluster, admin: Client, writes: Writes) -> None:
        """Prepare; `admin` changes the hardware."""
        self._cluster, self._admin, self._writes = cluster, admin, writes
        self._managers: dict[str, tuple[tuple[str, str | None], Manager]] = {}
        """With the Node's uid and boot that each was made for, by the Node's name."""

    async def node(self, name: str) -> float | None:
        """One pass of the node's manager; returns the seconds after which it wants another one."""
        node = self._cluster.node(name)
        if node is None or not self._cluster.divides(name):
            self._managers.pop(name, None)
            self._cluster.managed.discard(name)
            return None
        life = (node.metadata.uid, node.status.node_info.boot_id)
        made_for, manager = self._managers.get(name, (None, None))
        if manager is None or made_for != life:
            manager = self._made(node)
            self._managers[name] = (life, manager)
            self._cluster.managed.add(name)
        return await self._writes.guarded(manager.turn(), name)

    def _made(self, node: Node) -> Manager:
        host = Host(self._cluster, self._admin, node.name)
        objects = Objects(self._cluster, self._writes, node)
        programs = Programs(host.machine, host.divide, objects.pods)
        return Manager(objects, host, Work(programs, host, host), host, host)


class Objects(Quorum):
    """A node's objects, as `nodeagent.mig.cluster.Cluster`: the simulation's caches, and the agent's own identity."""

    def __init__(self, cluster: Cluster, writes: Writes, node: Node) -> None:
        """Prepare."""
        client, executor = writes.as_agent(api.MANAGER_MIG, node), writes.executor(api.MANAGER_MIG, node)
        super().__init__(client, executor, node.name, cluster.devices.get)
        self._cluster, self._name = cluster, node.name

    def layout(self) -> ConfigMap | None:
        """See `nodeagent.mig.cluster.Cluster`."""
        return self._cluster.layout(self._name)

    def cards(self) -> Iterable[GPUDevice]:
        """See `nodeagent.mig.cluster.Cluster`."""
        return self._cluster.devices.by("node", self._name)

    def pods(self) -> frozenset[str]:
        """See `nodeagent.mig.cluster.Cluster`."""
        return self._cluster.clients(self._name)


class Host:
    """A simulated node's cards, driver, and disk: `Looker`, `Memory` and `Fence` of the manager."""

    def __init__(self, cluster: Cluster, admin: Client, node: str) -> None:
        """Prepare."""
        self._cluster, self._admin, self._name = cluster, admin, node
        self._attempts: dict[str, Attempt] = {}

    @property
    def _node(self) -> Node:
        node = self._cluster.node(self._name)
        if node is None:
            raise Terminal(f"node {self._name} is gone")
        return node

    def machine(self) -> Machine:
        """What is under the node now."""
        try:
            return self._cluster.machine(self._node)
        except UserError as error:
            raise Terminal(f"node {self._name}: {error}") from error

    async def divide(self, changed: Mapping[str, CardLayout]) -> None:
        """Change how cards are divided."""
        node, divided = self._node, {**self.machine().mig, **changed}
        body = {"metadata": {"uid": node.metadata.uid, "annotations": {names.MIG: mig.text(divided)}}}
        answer = await self._admin.merge(NODE, node.name, body, manager=names.HARDWARE)
        self._cluster.nodes.on_own_write(adapter(Node).validate_json(answer))

    async def collect_evidence(self, addresses: Collection[str]) -> HostEvidence:
        """See `nodeagent.mig.scanner.Looker`."""
        machine = self.machine()
        there = frozenset(card.address for card in machine.cards)
        instances = tuple(f"{address}: {machine.divided(address).instances}" for address in sorted(there))
        return HostEvidence(
            self._loading(), frozenset(addresses) - there, there if machine.driver else frozenset(), instances
        )

    def _loading(self) -> Loading | None:
        boot = self._node.status.node_info.boot_id
        return Loading(boot) if boot and self.machine().driver else None

    async def scan(self, addresses: Collection[str]) -> NodeScan:
        """See `nodeagent.mig.scanner.Looker`."""
        loading, machine = self._loading(), self.machine()
        lost = frozenset(addresses) - {card.address for card in machine.cards}
        software = machine.software
        if software is None or not machine.driver:
            return NodeScan(lost=lost, unavailable_reason="no driver is loaded")
        by_files, by_driver = (tell(self._name, machine, software) for tell in (bus.by_procfs, nvml.driver))
        return NodeScan(driver_reports(by_files, by_driver), lost, loading=loading)

    def read(self) -> dict[str, Attempt]:
        """See `nodeagent.mig.work.Memory`."""
        return dict(self._attempts)

    def write(self, attempts: Mapping[str, Attempt]) -> None:
        """See `nodeagent.mig.work.Memory`."""
        self._attempts = dict(attempts)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The node's lock, for which nobody else asks here."""
        yield
