"""The module's own pods on one node: the validators in them, and kubelet's probes of all of them but drivers'.

A validator writes what it finds into the report that discovery made, by the agent's own code, and its pod is ready
while that says that the node passes. A validator that cannot be started says nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.api import names as api
from controllers.api import validation
from controllers.domain.clock import stamp
from controllers.runtime.errors import Terminal
from nodeagent.validate.checks import difference
from sim.nodes import podstatus, probes, validators
from tools.errors import UserError

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.runtime.client import Client
    from sim.nodes.cluster import Cluster
    from sim.nodes.machine import Machine
    from sim.nodes.writes import Writes


class Operands:
    """One node at a time; safe to call for different nodes at once."""

    def __init__(self, cluster: Cluster, admin: Client, writes: Writes) -> None:
        """Prepare."""
        self._cluster, self._admin, self._writes = cluster, admin, writes

    async def node(self, name: str) -> None:
        """Play the validators, then kubelet's probes."""
        node = self._cluster.node(name)
        started = [pod for pod in self._cluster.pods.by("operand", name) if pod.started and not pod.driver]
        if node is None or not started:
            return
        try:
            machine = self._cluster.machine(node)
        except UserError as error:
            raise Terminal(f"node {name}: {error}") from error
        verdicts = {}
        for component in sorted({pod.component for pod in started} - machine.faults.not_ready):
            if role := probes.ROLES.get(component):
                verdicts[role] = await self._validate(node, role, machine)
        for pod in started:
            state = probes.wanted(pod.component, machine.faults, verdicts)
            if state != probes.present(pod):
                status = probes.status(pod, state, stamp(time.time()))
                await podstatus.say(self._cluster, self._admin, pod, status)

    async def _validate(self, node: Node, role: str, machine: Machine) -> bool:
        """Whether the node passes, and its report says so."""
        known, boot_id = self._cluster.agent_report(node.name), node.status.node_info.boot_id
        if known is None or not boot_id:
            return False  # discovery makes the report, and its coming wakes us
        feature, manager = known.feature, difference.manager(role)
        have = difference.elements(feature, role)
        if have and known.by_hand and manager not in known.metadata.managed_fields:
            return have.get(role) == validation.OK
        want = validators.attributes(role, node.name, boot_id, machine)
        told = (role, want, validators.cards(role, node.name, boot_id, machine))
        if writes := difference.applies(feature, *told):
            executor = self._writes.executor(api.MANAGER_VALIDATE, node, manager)
            await self._writes.guarded(executor.execute(writes), node.name)
            now = self._cluster.agent_report(node.name)
            if now is not None and (patches := difference.removals(now.feature, *told)):
                await self._writes.guarded(executor.execute(patches), node.name)
        return want[role] == validation.OK
