"""NVIDIA's GPU Operator beside the module: its kinds and DaemonSets, made of what its sources say, its pods played.

Labels, selectors and privileges of the DaemonSets are those of `assets/` of GPU Operator v26.7.0, and the kinds have
the names and scopes of its CRDs; of their schemas only that a spec may hold anything. KWOK runs the pods, and `Plugin`
does what kubelet does with the device plugin's: a node's resource `nvidia.com/gpu` is there while its pod runs.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from controllers.api import foreign, resources
from controllers.runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from controllers.api.kube import Node, Pod
    from controllers.runtime.client import Client
    from sim.view import View

Json = dict[str, Any]
NAMESPACE: Final = "gpu-operator"
RESOURCE: Final = "nvidia.com/gpu"
PLUGIN: Final = "nvidia-device-plugin-daemonset"
PROGRAMS: Final = {
    "nvidia-driver-daemonset": "driver",
    "nvidia-container-toolkit-daemonset": "container-toolkit",
    PLUGIN: "device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-dcgm-exporter": "dcgm-exporter",
}
"""DaemonSets by label `app`, with the end of the node label that lets each onto a node."""
LABELS: Final = {f"{foreign.DEPLOY}{part}": "true" for part in PROGRAMS.values()}
"""What the operator labels a node with cards with."""
AGAIN: Final = 0.5
"""Seconds after which a write that was refused is tried again."""
IMAGE: Final = "registry.k8s.io/pause:3.10"


def crds() -> list[Json]:
    """Its two kinds."""
    return [_crd(kind.plural, kind.kind, kind.version) for kind in (foreign.CLUSTERPOLICY, foreign.NVIDIADRIVER)]


def _crd(plural: str, kind: str, version: str) -> Json:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": "nvidia.com", "scope": "Cluster", "names": names, "versions": [served]}
    return {"metadata": {"name": f"{plural}.nvidia.com"}, "spec": spec}


def deployment() -> Json:
    """The operator itself."""
    labels = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "gpu-operator", "image": IMAGE}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "gpu-operator"}}, "template": pod}
    return {"metadata": {"name": "gpu-operator", "namespace": NAMESPACE, "labels": labels}, "spec": spec}


def daemonset(app: str, owner: Json | None = None) -> Json:
    """The DaemonSet of one of its programs; `owner`: the ClusterPolicy, as the API server has it."""
    labels = {"app": app} | ({foreign.COMPONENT: foreign.DRIVER} if PROGRAMS[app] == "driver" else {})
    container = {"name": app, "image": IMAGE, "securityContext": {"privileged": True}}
    spec = {
        "nodeSelector": {f"{foreign.DEPLOY}{PROGRAMS[app]}": "true"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    meta: Json = {"name": app, "namespace": NAMESPACE, "labels": labels}
    if owner is not None:
        about = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "controller": True, "blockOwnerDeletion": True}
        meta["ownerReferences"] = [{**about, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": meta,
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "updateStrategy": {"type": "OnDelete"},
            "template": template,
        },
    }


class Plugin:
    """Kubelet's part of its device plugin on simulated nodes: cards by `nvidia.com/gpu` while the plugin's pod runs."""

    def __init__(self, client: Client, view: View) -> None:
        """Play on the nodes that carry its label."""
        self._client, self._view = client, view

    async def run(self) -> None:
        """Follow pods until cancelled."""
        changed = asyncio.Event()
        self._view.pods.subscribe(lambda _old, _new: changed.set())
        self._view.nodes.subscribe(lambda _old, _new: changed.set())
        while True:
            changed.clear()
            theirs = [node for node in self._view.nodes if _is_labelled(node) or RESOURCE in node.status.allocatable]
            refused = [node for node in theirs if not await self._play(node)]
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), AGAIN if refused else None)

    async def _play(self, node: Node) -> bool:
        """Write what kubelet would; whether that was taken."""
        pods = [pod for pod in self._view.pods if pod.node == node.name]
        cards = sum(one.status.node_name == node.name for one in self._view.devices)
        wanted = str(cards) if any(map(_serves, pods)) else "0"
        if node.status.allocatable.get(RESOURCE, "0") == wanted:
            return True
        amounts = {RESOURCE: wanted}
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        try:
            await self._client.merge(resources.NODE, node.name, body, manager="kubelet", subresource="status")
        except RuntimeFault:
            return False
        return True


def _is_labelled(node: Node) -> bool:
    return f"{foreign.DEPLOY}device-plugin" in node.metadata.labels


def _serves(pod: Pod) -> bool:
    there = pod.metadata.deletion_timestamp is None and pod.status.phase == "Running"
    return there and pod.metadata.labels.get("app") == PLUGIN
