"""NVIDIA's GPU Operator beside the module: its kinds and DaemonSets, made of what its sources say, its pods played.

Labels, selectors and privileges of the DaemonSets are those of `assets/` of GPU Operator v26.7.0, and the kinds have
the names and scopes of its CRDs; of their schemas only that a spec may hold anything. KWOK runs the pods, and `Plugin`
does what kubelet does with the device plugin's: a node's resource `nvidia.com/gpu` is there while its pod runs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api import foreign, names, resources
from controllers.runtime.errors import AlreadyExists, RuntimeFault
from sim.nodes import modules
from sim.nodes.names import MODULES

if TYPE_CHECKING:
    from collections.abc import Collection

    from controllers.api.kube import Node, Pod
    from controllers.runtime.client import Client
    from sim.view import View

Json = dict[str, Any]
NAMESPACE: Final = "gpu-operator"
RESOURCE: Final = "nvidia.com/gpu"
POLICY: Final = "cluster-policy"
"""The name that its chart gives its ClusterPolicy."""
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
    called = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": "nvidia.com", "scope": "Cluster", "names": called, "versions": [served]}
    return {"metadata": {"name": f"{plural}.nvidia.com"}, "spec": spec}


def deployment() -> Json:
    """The operator itself."""
    labels = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "gpu-operator", "image": IMAGE}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "gpu-operator"}}, "template": template}
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


def pod(name: str, node: str = "") -> Json:
    """A user's pod with a card by its device plugin; `node`: where it is to be, anywhere without."""
    container = {"name": "main", "image": IMAGE, "resources": {"limits": {RESOURCE: "1"}}}
    where = {"nodeSelector": {names.LABEL_HOSTNAME: node}} if node else {}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **where},
    }


async def install(client: Client, *, manager: str, programs: Collection[str] = tuple(PROGRAMS)) -> None:
    """Make what is not there yet of its namespace, its kinds, its policy, its Deployment and these DaemonSets.

    Raises what the API server answers, also where the namespace has no ServiceAccount for pods yet: try again.
    """

    async def make(kind: resources.Resource, body: Json) -> None:
        with suppress(AlreadyExists):
            await client.create(kind, body, NAMESPACE if kind.namespaced else None, manager=manager)

    await make(resources.NAMESPACE, {"metadata": {"name": NAMESPACE}})
    await client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default")
    for crd in crds():
        await make(resources.CRD, crd)
    about = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": POLICY}}
    await make(foreign.CLUSTERPOLICY, {**about, "spec": {"driver": {"enabled": True}}})
    policy = orjson.loads(await client.get(foreign.CLUSTERPOLICY, POLICY))
    await make(resources.DEPLOYMENT, deployment())
    for app in programs:
        await make(resources.DAEMONSET, daemonset(app, policy))


async def load(client: Client, node: Node, by: str, version: str, *, manager: str) -> None:
    """Let a pod, `by` its uid, have loaded a version of the driver on a simulated node, for as long as that is up."""
    loaded = modules.Loaded(version=version, boot=node.status.node_info.boot_id, pod=by)
    body = {"metadata": {"annotations": {MODULES: modules.text(loaded)}}}
    await client.merge(resources.NODE, node.name, body, manager=manager)


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
            served = {pod.node for pod in self._view.pods if _serves(pod)}
            cards = Counter(one.status.node_name for one in self._view.devices)
            theirs = [node for node in self._view.nodes if _is_labelled(node) or RESOURCE in node.status.allocatable]
            amounts = [(node, cards[node.name] if node.name in served else 0) for node in theirs]
            refused = [node for node, amount in amounts if not await self._play(node, str(amount))]
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), AGAIN if refused else None)

    async def _play(self, node: Node, wanted: str) -> bool:
        """Write what kubelet would; whether that was taken."""
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
