"""gpu-bootstrap-controller: wiring only. Which caches, which change wakes which key."""

from __future__ import annotations

import argparse
import asyncio
import string
import sys
import time
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from controllers.api import foreign, names, resources
from controllers.api.agent_report import Report
from controllers.api.components import EXPORTER
from controllers.api.foreign import ForeignDaemonSet, ForeignPod
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import ConfigMap, Node
from controllers.api.settings import Settings
from controllers.bootstrap import components
from controllers.bootstrap.disruption_budget import DisruptionBudget
from controllers.bootstrap.loops.nodes import NodeReconciler
from controllers.bootstrap.metrics.compatibility import Compatibility
from controllers.bootstrap.metrics.nodes import Readiness, Software
from controllers.bootstrap.readiness.assess import GATES
from controllers.bootstrap.readiness.software import template_version
from controllers.bootstrap.records import Card, Operand, Pod, RuntimeClass
from controllers.bootstrap.runtime_restarts import RuntimeRestarts
from controllers.bootstrap.telemetry.metrics import DeviceHealth
from controllers.bootstrap.telemetry.monitor import HealthMonitor
from controllers.bootstrap.telemetry.scrape import Scraper
from controllers.bootstrap.views import pool_of
from controllers.bootstrap.world import World
from controllers.components import cooldown
from controllers.components.images import AGENT_IMAGE
from controllers.components.pods.dcgm_exporter import EXPORTER_PORT
from controllers.domain.agents import api_server
from controllers.runtime.controller import Controller
from controllers.runtime.plan import EmitEvent, Ref
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import LiveSettings, module_settings

if TYPE_CHECKING:
    from controllers.api.conditions import Finding
    from controllers.api.meta import KubeObject

OPERANDS = Scope(namespace=names.NAMESPACE, labels=f"{names.LABEL_COMPONENT},!{names.LABEL_DRIVER}")
"""Not drivers, nor what looks for them: those are another process's."""
ALL = "all"
"""The only key of the components' loop."""
SETTLE = 0.5
"""Seconds from a DaemonSet's change until components are looked at: each node that joins changes each status."""
EXPORTER_URL = f"http://{{host}}:{EXPORTER_PORT}/metrics"


class Reconciler:
    """A loop over nodes, one for what runs on all of them, and the scrapes of the nodes' exporters."""

    def __init__(self, process: Process, world: World, settings: LiveSettings[Settings]) -> None:
        """Make the loops; `begin` connects them to the caches."""
        self._execute, self._world, self._settings = process.executor.execute, world, settings
        self._agent_image, self._url = process.args.agent_image, process.args.exporter_url
        self._driver_root = process.args.agent_driver_root
        self._agent_env = api_server(process.args.agent_api_server_host, process.args.agent_api_server_port)
        self.nodes = Controller("bootstrap", self._reconcile_node, workers=16)
        self.components = Controller("components", self._components, workers=1)
        self._note = process.recorder.enqueue
        self.monitor = HealthMonitor(world, lambda: settings.current, self.nodes.add, self._report_outage)
        fuse = DisruptionBudget(world, lambda: settings.current.health.max_unavailable_percent)
        turns = RuntimeRestarts(world, lambda: settings.current.bootstrap.container_toolkit.runtime_restarts)
        self._reconciler = NodeReconciler(world, settings, self.monitor, fuse, self._execute, restarts=turns)
        self.scraper = Scraper(self._targets, self.monitor.receive, eager=self.monitor.is_awaited)

    async def _reconcile_node(self, name: str) -> float | None:
        return await self._reconciler.reconcile(name)

    async def _components(self, _: str) -> float | None:
        made = components.plan(
            self._world.operands(),
            self._settings.current.bootstrap,
            self._agent_image,
            self._agent_env,
            self._driver_root,
            now=time.time(),
            enabled=self._settings.enabled,
        )
        await self._execute(made.actions)
        return made.requeue_after

    def _operand_changed(self, old: Operand | None, new: Operand | None) -> None:
        cooldown.record_deletion(self._world.deleted_at, old, new, time.time())
        self.components.add_after(ALL, SETTLE)
        if new is not None and (old is None or template_version(old) != template_version(new)):
            self.nodes.add_all(self._world.nodes_of(new))  # another version is wanted there

    def _targets(self) -> dict[str, str]:
        """Where each node's exporter answers; an IPv6 address stands in brackets."""
        found = {}
        for node, address in self._world.exporters():
            if self.monitor.is_monitored(node):
                found[node] = self._url.format(node=node, host=f"[{address}]" if ":" in address else address)
        return found

    def _report_outage(self, finding: Finding) -> None:
        about = Ref(resources.NAMESPACE, names.NAMESPACE)
        self._note(EmitEvent(about, "Warning", names.EVENT_FUSE_HELD, finding.message))

    def begin(self) -> None:
        """Follow caches and settings from now on, and look at everything."""
        self._watch()
        self._configured()

    def _watch(self) -> None:
        """Wake keys by changes."""
        world = self._world
        world.nodes.subscribe(self._named_as_node)
        world.inventories.subscribe(self._named_as_node)
        world.features.subscribe(self._feature_changed)
        world.devices.subscribe(self._device_changed)
        world.pods.subscribe(self._pod_changed)
        world.foreign.subscribe(self._foreign_changed)
        world.foreign_drivers.subscribe(self._foreign_changed)
        world.driver_daemonsets.subscribe(self._foreign_daemonset_changed)
        world.daemonsets.subscribe(self._operand_changed)
        world.configmaps.subscribe(lambda _, __: self.components.add(ALL))
        world.runtime_classes.subscribe(lambda _, __: self.components.add(ALL))
        self._settings.subscribe(lambda _: self._configured())

    def _configured(self) -> None:
        """Follow the settings: they were read after we were made, and they change."""
        self.monitor.configure()
        self.scraper.period = self._settings.current.bootstrap.monitoring.scrape_period
        self.everything()

    def everything(self) -> None:
        """Look at every key, as after a start or a change of settings."""
        self.components.add(ALL)
        self.nodes.add_all({inventory.name for inventory in self._world.inventories} | self._world.gated(GATES))

    def _named_as_node(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self.nodes.add((new or old or Node()).name)

    def _feature_changed(self, old: Report | None, new: Report | None) -> None:
        self.nodes.add_all({feature.node for feature in (old, new) if feature is not None and feature.is_agent_report})

    def _device_changed(self, old: Card | None, new: Card | None) -> None:
        if new is None and old is not None:
            self.monitor.forget_card(old.name)
        if new is not None and set(pool_of(new)) - set(pool_of(old) if old is not None else ()):
            self.components.add(ALL)  # the exporter names the pods of pools
        self.nodes.add_all({device.status.node_name for device in (old, new) if device and device.status.node_name})

    def _foreign_changed(self, old: ForeignPod | None, new: ForeignPod | None) -> None:
        self.nodes.add_all({pod.spec.node_name for pod in (old, new) if pod is not None and pod.spec.node_name})
        # The first that is let into its namespace, or the last one: then DaemonSets there begin to count, or end.
        if (old.part if old else None) != (new.part if new else None) and (one := new or old):
            namespace = one.metadata.namespace or ""
            if self._world.let_in(namespace) <= 1:
                for made in self._world.driver_daemonsets:
                    if made.metadata.namespace == namespace:
                        self._enqueue_driven(made)

    def _foreign_daemonset_changed(self, old: ForeignDaemonSet | None, new: ForeignDaemonSet | None) -> None:
        both = [one for one in (old, new) if one is not None]
        # Elsewhere it counts for nothing: no tenant has all nodes looked at by an edit.
        changed = old is None or new is None or old.spec != new.spec
        if changed and self._world.let_in(both[0].metadata.namespace or ""):
            self._enqueue_driven(*both)

    def _enqueue_driven(self, *daemonsets: ForeignDaemonSet) -> None:
        """Look at the nodes that these could drive."""
        nodes = (node for node in self._world.nodes if any(one.is_for(node.metadata.labels) for one in daemonsets))
        self.nodes.add_all({node.name for node in nodes})

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.nodes.add_all({pod.node for pod in (old, new) if pod and pod.node})
        if any(pod.metadata.labels.get(names.LABEL_COMPONENT) == EXPORTER for pod in (old, new) if pod):
            self.scraper.targets_changed()
        if not self._settings.enabled:
            self.components.add(ALL)  # a RuntimeClass stays while something runs under it


async def wire(process: Process) -> None:
    """Connect caches and loops, and live."""
    world = World(
        nodes=process.reflect(resources.NODE, Node),
        features=process.reflect(resources.NODEFEATURE, Report, scope=Scope(namespace=names.NAMESPACE), optional=True),
        inventories=process.reflect(resources.GPUNODEINVENTORY, GPUNodeInventory),
        devices=process.reflect(resources.GPUDEVICE, Card),
        pods=process.reflect(resources.POD, Pod, scope=OPERANDS),
        daemonsets=process.reflect(resources.DAEMONSET, Operand, scope=OPERANDS),
        configmaps=process.reflect(resources.CONFIGMAP, ConfigMap, scope=OPERANDS),
        runtime_classes=process.reflect(resources.RUNTIMECLASS, RuntimeClass),
        foreign=process.reflect(
            resources.POD,
            ForeignPod,
            scope=Scope(labels=foreign.BY_APP, only=lambda pod: pod.spec.is_privileged),
            second="pods of other programs",
        ),
        foreign_drivers=process.reflect(
            resources.POD,
            ForeignPod,
            scope=Scope(labels=foreign.BY_COMPONENT, only=lambda pod: pod.spec.is_privileged),
            second="pods of other drivers",
        ),
        driver_daemonsets=process.reflect(
            resources.DAEMONSET,
            ForeignDaemonSet,
            scope=Scope(labels=foreign.DRIVERS, only=lambda made: made.drives),
            second="DaemonSets of other drivers",
        ),
    )
    settings = module_settings(process)
    reconciler = Reconciler(process, world, settings)

    async def work() -> None:
        # Only who leads tells of the cluster: a standby's word would count twice.
        REGISTRY.register(Readiness(world))
        REGISTRY.register(Software(world))
        REGISTRY.register(Compatibility(world, lambda: settings.current.bootstrap.monitoring.compatibility))
        REGISTRY.register(DeviceHealth(reconciler.monitor.known))
        reconciler.begin()
        async with asyncio.TaskGroup() as group:
            for controller in (reconciler.nodes, reconciler.components):
                group.create_task(controller.run(), name=controller.name)
            group.create_task(reconciler.scraper.run(), name="scraper")

    await process.run(work, lease=names.BOOTSTRAP, namespace=names.NAMESPACE)


def exporter_url(text: str) -> str:
    """A template of an exporter's address; raises ArgumentTypeError."""
    try:
        fields = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no template: {error}") from error
    if not fields or fields - {"host", "node"} or not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r}: expected an http URL with {{host}} or {{node}} in it")
    return text


if __name__ == "__main__":
    DESCRIPTION = "Prepares GPU nodes, component by component, and says when their cards may be pooled."
    PARSER = arguments(names.BOOTSTRAP, DESCRIPTION)
    PARSER.add_argument("--agent-image", default=AGENT_IMAGE, help="image of the node agents that check a node")
    PARSER.add_argument("--agent-api-server-host", help="address of the API server for agents; else its Service")
    PARSER.add_argument("--agent-api-server-port", help="its port (default: 443)")
    about = "the host's folder in which a driver's container mounts its root (default: /run/nvidia/driver)"
    PARSER.add_argument("--agent-driver-root", default="", metavar="FOLDER", help=about)
    PARSER.add_argument(
        "--exporter-url",
        type=exporter_url,
        default=EXPORTER_URL,
        metavar="URL",
        help="where a node's exporter answers; {host} is its pod's address, {node} the node (default: %(default)s)",
    )
    sys.exit(main(PARSER, names.MANAGER_BOOTSTRAP, wire))
