"""What the agent knows of the cluster: one cache a kind, and who has to look again when one changes.

Lives as long as the process, on its event loop. Only nodes annotated as fake exist here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from controllers.api import names as api
from controllers.api.components import EXPORTER, HOLDING_GPU_OPEN, TOOLKIT
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import ConfigMap, Node
from controllers.api.resources import CONFIGMAP, GPUDEVICE, NODE, NODEFEATURE, NODEFEATURERULE, POD
from controllers.components import build
from controllers.inventory.rule.node_feature_rule import NodeFeatureRule
from controllers.runtime.reflector import Scope
from controllers.runtime.store import Store
from nodeagent.deviceplugin.devices import offers
from sim.hardware import Catalogue
from sim.nodes import kubelet, machine, names, plugin, podresources, rule
from sim.nodes.machine import Machine
from sim.nodes.pods import Pod
from sim.nodes.report import Report

if TYPE_CHECKING:
    from controllers.runtime.process import Process
    from nodeagent.deviceplugin.devices.offers import DesiredOffer
    from sim.nodes.podresources import User

Wake = Callable[[str], None]
GFD = build.object_name("gfd")


@dataclass(frozen=True, slots=True)
class Wakes:
    """What to call with a node's name when something changes for what is played on nodes, by who plays it."""

    nfd: Wake
    discover: Wake
    plugin: Wake
    mig: Wake
    operands: Wake
    driver: Wake


class Cluster:
    """The stores with their indexes, and questions to them."""

    def __init__(self, process: Process, catalogue: Catalogue) -> None:
        """Let the process keep one watch for each kind."""
        self.catalogue = catalogue
        self.nodes: Store[Node] = process.reflect(NODE, Node)
        self.reports: Store[Report] = process.reflect(NODEFEATURE, Report)
        self.rules: Store[NodeFeatureRule] = process.reflect(NODEFEATURERULE, NodeFeatureRule)
        self.rules_json = rule.rules(())
        """The rules as `nfd-rule` takes them."""
        self.pods: Store[Pod] = process.reflect(POD, Pod)
        self.configmaps: Store[ConfigMap] = process.reflect(CONFIGMAP, ConfigMap, scope=Scope(api.NAMESPACE))
        self.devices: Store[GPUDevice] = process.reflect(GPUDEVICE, GPUDevice)
        self.managed: set[str] = set()
        """Nodes with a MIG manager that has worked there: it is to hear that its pod or its Node has gone."""
        self._desired: dict[str, tuple[frozenset[tuple[str, str]], DesiredOffer]] = {}
        self.reports.index("node", lambda report: [report.node])
        self.pods.index("gpu", lambda pod: [pod.node] if pod.node and kubelet.asks(pod) else [])
        self.pods.index("discover", lambda pod: [pod.node] if pod.node and _discovers(pod) else [])
        self.pods.index("gfd", lambda pod: [pod.node] if pod.node and _is_gfd(pod) else [])
        self.pods.index("plugin", lambda pod: [pod.node] if pod.node and plugin_pool(pod) else [])
        self.pods.index("mps", lambda pod: [pod.node] if pod.node and mps_pool(pod) else [])
        self.pods.index("pool", lambda pod: [pool] if (pool := plugin_pool(pod)) else [])
        self.pods.index("mig", lambda pod: [pod.node] if pod.node and mig_pool(pod) else [])
        self.pods.index("operand", lambda pod: [pod.node] if pod.node and pod.component else [])
        self.pods.index("driver", lambda pod: [pod.node] if pod.node and pod.driver else [])
        self.pods.index("theirs", lambda pod: [pod.node] if pod.node and pod.drives_for_others else [])
        self.configmaps.index("pool", lambda configmap: [plugin.pool_of(configmap)])
        self.devices.index("node", lambda device: [device.status.node_name or ""])

    def subscribe(self, wakes: Wakes) -> None:
        """Call `wakes` from now on; a MIG manager only where one is ready, since most nodes have none."""
        wakes = replace(wakes, mig=partial(self._wake_manager, wakes.mig))
        self.nodes.subscribe(lambda old, new: _node_changed(wakes, (new or old or Node()).name))
        self.reports.subscribe(lambda old, new: _report_changed(wakes, [r for r in (old, new) if r]))
        self.rules.subscribe(lambda _old, _new: self._rules_changed(wakes))
        self._rules_changed(wakes)
        self.pods.subscribe(lambda old, new: _pod_changed(wakes, [p for p in (old, new) if p]))
        self.devices.subscribe(lambda old, new: _device_changed(wakes, [d for d in (old, new) if d]))

        def configmap(old: ConfigMap | None, new: ConfigMap | None) -> None:
            for pool in {plugin.pool_of(c) for c in (old, new) if c} - {""}:
                for operand in self.pods.by("pool", pool):
                    wakes.plugin(operand.node or "")
            for node in {_divided_node(c) for c in (old, new) if c} - {""}:
                wakes.mig(node)

        self.configmaps.subscribe(configmap)

    def _wake_manager(self, wake: Wake, node: str) -> None:
        if node in self.managed or self.divides(node):
            wake(node)

    def _rules_changed(self, wakes: Wakes) -> None:
        self.rules_json = rule.rules(self.rules)
        for node in self.nodes:
            wakes.nfd(node.name)

    def node(self, name: str) -> Node | None:
        """A simulated node."""
        node = self.nodes.get(name)
        return node if node is not None and node.metadata.annotations.get(names.FAKE) == "fake" else None

    def machine(self, node: Node) -> Machine:
        """What is under it; raises UserError for a shape that is not in the catalogue."""
        report = self.agent_report(node.name)
        by_hand = report if report is not None and report.by_hand else None
        toolkit = any(pod.component == TOOLKIT and pod.started for pod in self.pods.by("operand", node.name))
        return machine.machine(node, by_hand, self.catalogue, toolkit=toolkit)

    def agent_report(self, node: str) -> Report | None:
        """The node's `gpu-<node>`."""
        return self.reports.get(f"{api.NAMESPACE}/{api.agent_feature(node)}")

    def discovers(self, node: str) -> bool:
        """Whether discovery runs there; whether its pod is ready is for kubelet's probe to say."""
        running = (pod for pod in self.pods.by("discover", node) if pod.status.phase == "Running")
        return any(pod.metadata.deletion_timestamp is None for pod in running)

    def exporter(self, node: str) -> Pod | None:
        """The pod of DCGM exporter that serves there."""
        ready = (pod for pod in self.pods.by("operand", node) if pod.component == EXPORTER and pod.ready)
        return next(ready, None)

    def users(self, node: str, resources: frozenset[str]) -> dict[str, User]:
        """Who has which card there, by the card's address: pods that got them through one of these resources."""
        if not resources:
            return {}
        pods = {pod.metadata.uid: pod for pod in self.pods.by("gpu", node)}
        return podresources.users(self.devices.by("node", node), pods, resources)

    def divides(self, node: str) -> bool:
        """Whether a MIG manager is ready there."""
        return any(pod.ready for pod in self.pods.by("mig", node))

    def clients(self, node: str) -> frozenset[str]:
        """Pods of the module that hold the node's cards open, or may do so before they end."""
        here = (pod for pod in self.pods.by("operand", node) if pod.component in HOLDING_GPU_OPEN and not pod.finished)
        return frozenset(f"pod {pod.name}" for pod in here)

    def holders(self, node: str) -> frozenset[str]:
        """Uids of pods that hold the driver's devices open: clients of the module's own, and whoever has a card."""
        clients = (pod for pod in self.pods.by("operand", node) if pod.component in HOLDING_GPU_OPEN and pod.started)
        users = (pod for pod in self.pods.by("gpu", node) if pod.status.phase == "Running")
        return frozenset(pod.metadata.uid for pod in (*clients, *users))

    def layout(self, node: str) -> ConfigMap | None:
        """The ConfigMap with the node's MIG layout."""
        return self.configmaps.get(f"{api.NAMESPACE}/{api.mig_layout(node)}")

    def gfd_since(self, node: str) -> str | None:
        """When the pod of GPU feature discovery that is ready there was made; None without one."""
        ready = [pod.metadata.creation_timestamp for pod in self.pods.by("gfd", node) if pod.ready and not pod.finished]
        return min(ready, default=None)

    def wishes(self, node: str) -> dict[str, DesiredOffer]:
        """What is asked of the plugins that are ready there, by pool."""
        pools = {plugin_pool(pod) for pod in self.pods.by("plugin", node) if pod.ready}
        return {pool: self._wish(pool) for pool in sorted(pools)}

    def sharing(self, node: str) -> frozenset[str]:
        """Pools whose MPS role runs there."""
        return frozenset(mps_pool(pod) for pod in self.pods.by("mps", node) if pod.started)

    def _wish(self, pool: str) -> DesiredOffer:
        """As the pool's plugins read it; a ConfigMap that has not changed is read once for all nodes."""
        configmaps = self.configmaps.by("pool", pool)
        versions = frozenset((each.name, each.metadata.resource_version) for each in configmaps)
        known, desired = self._desired.get(pool, (None, None))
        if desired is None or known != versions:
            desired = offers.desired_offer(pool, configmaps, desired.last if desired is not None else None)
            self._desired[pool] = versions, desired
        return desired


def plugin_pool(pod: Pod) -> str:
    """The pool whose device plugin a pod is: its DaemonSet's name says it."""
    return _pool(pod, api.plugin_object(""))


def mig_pool(pod: Pod) -> str:
    """The pool whose MIG manager a pod is."""
    return _pool(pod, api.mig_manager(""))


def mps_pool(pod: Pod) -> str:
    """The pool whose MPS control daemons a pod has."""
    return _pool(pod, api.mps(""))


def _pool(pod: Pod, prefix: str) -> str:
    if pod.metadata.namespace != api.NAMESPACE:
        return ""
    owner = pod.metadata.daemonset or ""
    return owner.removeprefix(prefix) if owner.startswith(prefix) else ""


def _divided_node(configmap: ConfigMap) -> str:
    """The node whose MIG layout a ConfigMap is; its owner says it where the name had to be shortened."""
    prefix = api.mig_layout("")
    if not configmap.name.startswith(prefix):
        return ""
    owners = (owner.name for owner in configmap.metadata.owner_references if owner.kind == "Node")
    return next(owners, configmap.name.removeprefix(prefix))


def _discovers(pod: Pod) -> bool:
    return pod.metadata.namespace == api.NAMESPACE and pod.metadata.labels.get("app") == api.DISCOVER_DAEMONSET


def _is_gfd(pod: Pod) -> bool:
    return pod.metadata.namespace == api.NAMESPACE and pod.metadata.labels.get(api.LABEL_APP) == GFD


def _node_changed(wakes: Wakes, name: str) -> None:
    for wake in (wakes.nfd, wakes.discover, wakes.plugin, wakes.mig, wakes.operands, wakes.driver):
        wake(name)


def _report_changed(wakes: Wakes, reports: list[Report]) -> None:
    for name in {report.node for report in reports}:
        wakes.nfd(name)
        if any(report.by_agent for report in reports):
            wakes.discover(name)
            wakes.plugin(name)
            wakes.operands(name)


def _pod_changed(wakes: Wakes, pods: list[Pod]) -> None:
    for name in {pod.node for pod in pods if pod.node}:
        if any(_discovers(pod) for pod in pods):
            wakes.discover(name)
        if any(pod.component for pod in pods):
            wakes.operands(name)
        if any(pod.component == TOOLKIT for pod in pods):
            wakes.discover(name)
        if any(
            pod.driver or pod.drives_for_others or pod.component in HOLDING_GPU_OPEN or kubelet.asks(pod)
            for pod in pods
        ):
            wakes.driver(name)
        if any(_is_gfd(pod) for pod in pods):
            wakes.nfd(name)
        if any(mig_pool(pod) or pod.component in HOLDING_GPU_OPEN for pod in pods):
            wakes.mig(name)
        if any(plugin_pool(pod) or mps_pool(pod) or kubelet.asks(pod) for pod in pods):
            wakes.plugin(name)


def _device_changed(wakes: Wakes, devices: list[GPUDevice]) -> None:
    for name in {device.status.node_name for device in devices if device.status.node_name}:
        wakes.plugin(name)
        wakes.mig(name)
