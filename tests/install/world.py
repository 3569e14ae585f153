"""A cluster in memory with everything that the module may have made, and with what is somebody else's."""

from __future__ import annotations

import json
from typing import Any

from controllers.api import names, resources
from controllers.domain.mig.configmap import COMPONENT as MIG
from controllers.install import cleanup
from controllers.install.observed import CONTROLLERS, KINDS, MODULE_CONFIGS, OURS, UNBOUND, WRITERS, Observed
from tests.kit import cluster, conditions, objects
from tests.kit.objects import condition
from tests.kit.storage import Json

NS = names.NAMESPACE
OWN = {names.LABEL_HERITAGE: "deckhouse", names.LABEL_MODULE: names.MODULE}
OURS_TAINT = {"key": "gpu", "value": "a", "effect": "NoSchedule"}
CHANGED = {"key": "team", "value": "theirs", "effect": "NoExecute"}
FOREIGN = {"key": "maintenance", "effect": "NoSchedule"}
VARIANT = "3f2a91c07b-ubuntu24.04-any"
GATE = {"name": names.CARDS_GATE}
OTHER_GATE = {"name": "example.com/other"}
QUEUED = {"one": [GATE], "two": [OTHER_GATE, GATE], "goes-on": [OTHER_GATE], "pending": []}
"""Pods of a tenant that wait for cards, with their scheduling gates."""


class Cluster(cluster.Cluster):
    """What is there, and what a cluster does by itself: pods end with whoever made them."""

    def __init__(self) -> None:
        super().__init__()
        self.leading: set[str] = set(CONTROLLERS)

    def make(self, kind: resources.Resource, name: str, **more: Any) -> None:
        """An object of which the planner reads little."""
        namespace = {"namespace": NS} if kind.namespaced else {}
        self.put(kind, {"metadata": {"name": name, **namespace, **more.pop("metadata", {})}, **more})

    def operand(self, kind: resources.Resource, name: str, component: str) -> None:
        self.make(kind, name, metadata={"labels": OWN | {names.LABEL_COMPONENT: component}})

    def pod(self, name: str, node: str | None, **labels: str) -> None:
        spec = {"nodeName": node} if node else {}
        self.make(resources.POD, name, metadata={"labels": OWN | labels}, spec=spec, status={"phase": "Running"})

    def whole(self, *, deckhouse: bool = False) -> None:
        """A module at work, with a pool, and things of others."""
        for kind in (resources.MUTATING_WEBHOOK, resources.VALIDATING_WEBHOOK):
            self.make(kind, names.WEBHOOK_CONFIGURATION)
        for name in CONTROLLERS:
            self.make(resources.DEPLOYMENT, name)
            self.make(resources.LEASE, name)
            self.pod(f"{name}-0", "n1", app=name)
        self.make(resources.DEPLOYMENT, "somebody-elses")
        self.operand(resources.DAEMONSET, names.DISCOVER_DAEMONSET, "discover")
        self.pod("discover-n1", "n1", app=names.DISCOVER_DAEMONSET, **{names.LABEL_COMPONENT: "discover"})
        self.operand(resources.DAEMONSET, names.plugin_object("a"), "device-plugin")
        self.pod("plugin-n1", "n1", **{names.LABEL_COMPONENT: "device-plugin"})
        self.pod("plugin-away", "away", **{names.LABEL_COMPONENT: "device-plugin"})
        self.operand(resources.CONFIGMAP, names.plugin_object("a"), "device-plugin")
        self.operand(resources.CONFIGMAP, names.mig_layout("n1"), MIG)
        self._drivers()
        self.make(resources.CONFIGMAP, "kube-root-ca.crt")
        self.make(resources.SECRET, names.WEBHOOK_SECRET)
        self.make(resources.RUNTIMECLASS, "nvidia-cdi", metadata={"labels": OWN})
        self.make(resources.RUNTIMECLASS, "nvidia")
        self.make(resources.NODEFEATURERULE, names.NODE_FEATURE_RULE)
        self._nodes()
        self._queue()
        self._records(deckhouse=deckhouse)

    def _drivers(self) -> None:
        """A driver on a node, on which pods may compute, and its GPUDriver."""
        labels = OWN | {names.LABEL_COMPONENT: "driver", names.DRIVER_VARIANT: VARIANT}
        for kind in (resources.DAEMONSET, resources.CONFIGMAP):
            self.make(kind, f"gpu-driver-{VARIANT}", metadata={"labels": labels})
        self.pod("driver-n1", "n1", **labels)
        self.make(resources.GPUDRIVER, "main", metadata={"finalizers": [names.FINALIZER_DRIVER]})

    def _queue(self) -> None:
        for name, gates in QUEUED.items():
            meta = {"name": name, "namespace": "team", "labels": {names.LABEL_POOL: "a"}}
            self.put(resources.POD, {"metadata": meta, "spec": {"schedulingGates": gates} if gates else {}})
        meta = {"name": "runs", "namespace": "team", "labels": {names.LABEL_POOL: "a"}}
        self.put(resources.POD, {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})

    def _nodes(self) -> None:
        noted = [{**OURS_TAINT, "pool": "a"}, {**CHANGED, "value": "a", "pool": "a"}]
        taints = [OURS_TAINT, CHANGED, FOREIGN]
        labels = {names.deploy_label("dcgm"): "true", names.pool_node_label("a"): "true", "zone": "z"}
        meta = {"annotations": {names.POOL_TAINTS: json.dumps(noted), "theirs": "1"}}
        for node, ready in (("n1", "True"), ("away", "Unknown")):
            self.add(objects.node(node, ready=ready, labels=labels, meta=meta, taints=taints))
            with self.edit("Node", node) as made:
                for kind in names.NODE_CONDITIONS:
                    conditions.put(made, condition(kind, True))
        by_hand: Json = {"labels": {names.NFD_NODE_NAME: "away"}}
        by_agent: Json = {"labels": {names.NFD_NODE_NAME: "n1"}, "managedFields": [{"manager": names.MANAGER_DISCOVER}]}
        self.make(resources.NODEFEATURE, names.agent_feature("n1"), metadata=by_agent)
        self.make(resources.NODEFEATURE, names.agent_feature("away"), metadata=by_hand)

    def _records(self, *, deckhouse: bool) -> None:
        self.add(objects.pool(meta={"finalizers": [names.FINALIZER_POOL]}))
        hardware = {"mig": {"capable": True, "enabled": True}}
        meta = {"name": "n1-card", "annotations": {names.ASSIGNMENT: "a"}}
        self.add(objects.card("n1", meta=meta, hardware=hardware, mig_apply={"version": "v", "phase": "Done"}))
        self.make(resources.GPUNODEINVENTORY, "n1")
        self.make(resources.MODULECONFIG, names.MODULE)
        for name in (*OURS, MODULE_CONFIGS):
            labels = {names.LABEL_HERITAGE: "deckhouse"} if deckhouse and name == MODULE_CONFIGS else OWN
            self.make(resources.CRD, name, metadata={"labels": labels})

    def seen(self) -> Observed:
        found = {}
        for kind in KINDS:
            there = [one for one in self.all(kind.resource, kind.record) if one.metadata.namespace in (None, NS)]
            found[kind.resource.kind] = tuple(one for one in there if not kind.named or one.name in kind.named)
        unbound = [
            pod
            for pod in self.all(resources.POD, UNBOUND.record)
            if pod.node is None and names.LABEL_POOL in pod.metadata.labels
        ]
        return Observed(found, frozenset(self.leading), tuple(unbound))

    def gates(self, pod: str) -> list[str]:
        """The names of a tenant's pod's scheduling gates."""
        return [gate["name"] for gate in self.objects["Pod", f"team/{pod}"]["spec"].get("schedulingGates", ())]

    def nature(self) -> None:
        """Kubernetes' controllers and kubelets do their part, but for nodes that are away."""
        makers = {name: ("Deployment", f"{NS}/{name}") for name in CONTROLLERS}
        makers[names.DISCOVER_DAEMONSET] = ("DaemonSet", f"{NS}/{names.DISCOVER_DAEMONSET}")
        gone = {name for name in WRITERS if makers[name] not in self.objects}
        self.leading -= gone
        plugin = ("DaemonSet", f"{NS}/{names.plugin_object('a')}") in self.objects
        for (kind, key), pod in list(self.objects.items()):
            labels = pod["metadata"].get("labels", {})
            is_plugin = labels.get(names.LABEL_COMPONENT) == "device-plugin"
            ends = labels.get("app") in gone or (is_plugin and not plugin)
            if kind == "Pod" and ends and pod["spec"].get("nodeName") != "away":
                del self.objects[kind, key]

    def settle(self, *, keep_records: bool) -> cleanup.Cleanup:
        """Clean up to the end; raises AssertionError where it does not come to one."""
        for _ in range(20):
            made = cleanup.plan(self.seen(), keep_records=keep_records)
            if made.done:
                return made
            self.execute(made.actions, names.MANAGER_CLEANUP)
            self.nature()
        raise AssertionError(f"it does not end: {made}")

    def keys(self) -> set[tuple[str, str]]:
        return set(self.objects)


__all__ = ["CHANGED", "FOREIGN", "MODULE_CONFIGS", "NS", "OTHER_GATE", "OURS", "OURS_TAINT", "QUEUED", "Cluster"]
