"""Plays the pods of drivers on one node at a time: check pods, driver pods, and the kernel's modules under them.

What is written is kubelet's word on the pods and the kernel's own state; nothing is kept here. A pod that has gone
takes its modules along, unless somebody holds the devices open, as the driver's own script does it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import NODE, SECRET
from controllers.runtime.errors import NotFound, Terminal
from sim.nodes import modules, names, podstatus
from sim.nodes.driver import check, install
from sim.nodes.driver.scene import Scene
from sim.nodes.modules import Loaded
from sim.nodes.pods import Pod
from sim.nodes.reboot import reboot
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.runtime.client import Client
    from sim.nodes.cluster import Cluster
    from sim.nodes.driver.statuses import Step

NO_SECRETS: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})


class DriverPods:
    """One node at a time; safe to call for different nodes at once."""

    def __init__(self, cluster: Cluster, admin: Client) -> None:
        """Prepare; `admin` is kubelet and the kernel."""
        self._cluster, self._admin = cluster, admin

    async def node(self, name: str) -> float | None:
        """One look at the node's pods; returns the seconds after which the next one is due."""
        node = self._cluster.node(name)
        if node is None or not node.status.node_info.boot_id:
            return None
        pods = [pod for pod in self._cluster.pods.by("driver", name) if pod.metadata.deletion_timestamp is None]
        await self._left_behind(node, pods)
        due: list[float] = []
        for pod in pods:
            node = self._cluster.node(name)
            if node is None:
                return None
            step = await (self._drive(node, pod) if pod.kept else self._check(node, pod))
            if step.after is not None:
                due.append(step.after)
        return max(min(due), 0.05) if due else None

    def _scene(self, node: Node, secrets: Mapping[str, frozenset[str]] = NO_SECRETS) -> Scene:
        try:
            machine = self._cluster.machine(node)
        except UserError as error:
            raise Terminal(f"node {node.name}: {error}") from error
        holders = self._cluster.holders(node.name)
        return Scene(machine, node.status.node_info.boot_id, modules.noted(node), holders, secrets)

    async def _secrets(self, pod: Pod) -> dict[str, frozenset[str]]:
        """Keys of the Secrets that a pod which is not ready names, as far as they are there."""
        asked = {one.name for container in pod.spec.containers for one in container.secrets} if not pod.ready else set()
        found = {}
        for name in sorted(asked):
            with suppress(NotFound):
                secret = orjson.loads(await self._admin.get(SECRET, name, pod.metadata.namespace))
                found[name] = frozenset(secret.get("data") or {})
        return found

    async def _check(self, node: Node, pod: Pod) -> Step:
        step = check.step(pod, self._scene(node, await self._secrets(pod)), node.metadata.annotations, time.time())
        await self._say(pod, step)
        return step

    async def _drive(self, node: Node, pod: Pod) -> Step:
        played = install.step(pod, self._scene(node, await self._secrets(pod)), node.metadata.annotations, time.time())
        # The modules first: a pod is ready because of them.
        if played.reboots:
            await self._note(node, Loaded("", node.status.node_info.boot_id, rebooted=True))
            self._cluster.nodes.on_own_write(await reboot(self._admin, node.name))
        elif played.modules is not None:
            await self._note(node, played.modules)
            if "mig-gone" in self._scene(node).machine.faults.of_driver(played.modules.version):
                await self._annotate(node, {names.MIG: None})
        elif played.unloaded:
            await self._note(node, None)
        await self._say(pod, played.step)
        return played.step

    async def _left_behind(self, node: Node, pods: Sequence[Pod]) -> None:
        """Unload what a pod loaded that has gone, once nobody holds it."""
        loaded = modules.loaded(node)
        there = {pod.metadata.uid for pod in (*pods, *self._cluster.pods.by("theirs", node.name))}
        if loaded is None or loaded.pod in there or self._cluster.holders(node.name):
            return
        kept = replace(loaded, version="", pod="") if loaded.rebooted else None
        await self._note(node, kept)

    async def _note(self, node: Node, loaded: Loaded | None) -> None:
        if modules.noted(node) != loaded:
            await self._annotate(node, {names.MODULES: modules.text(loaded)})

    async def _annotate(self, node: Node, annotations: dict[str, str | None]) -> None:
        body: dict[str, Any] = {"metadata": {"uid": node.metadata.uid, "annotations": annotations}}
        answer = await self._admin.merge(NODE, node.name, body, manager=names.HARDWARE)
        self._cluster.nodes.on_own_write(adapter(Node).validate_json(answer))

    async def _say(self, pod: Pod, step: Step) -> None:
        if step.status is not None:
            await podstatus.say(self._cluster, self._admin, pod, step.status)
