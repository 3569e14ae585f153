"""A pool's device plugin: its ConfigMaps and its DaemonSet, as whole objects. Pure.

The plugin follows its ConfigMap by watch, so a change of cards restarts nothing. Above
`SHARD_CARDS` cards the list is split by node over several ConfigMaps, since every plugin of
the pool reads each change: the first carries the settings and the shards carry cards.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from controllers.api import names

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec, GPUPool

SHARD_CARDS = 1000
AGENT_IMAGE = "gpu-control-plane/nodeagent:v0.1.0"
PLUGIN_DIR = "/var/lib/kubelet/device-plugins"
POD_RESOURCES_DIR = "/var/lib/kubelet/pod-resources"


def settings_text(pool: str, allocation: AllocationSpec) -> str:
    """The plugin's settings; the same for every card of an Exclusive pool."""
    settings = {"mode": allocation.mode, "pool": pool, "resource": names.resource_name(pool), "slots": 1}
    return json.dumps(settings, sort_keys=True)


def config_version(settings: str) -> str:
    """What a card's plugin acknowledges: the hash of the settings that concern the card."""
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def labels(pool: str) -> dict[str, str]:
    """Labels of everything that belongs to a pool."""
    return {
        names.LABEL_HERITAGE: "deckhouse",
        names.LABEL_MODULE: names.MODULE,
        names.LABEL_POOL: pool,
        names.LABEL_COMPONENT: "device-plugin",
    }


def _owner(pool: GPUPool) -> list[dict[str, Any]]:
    """The pool owns its operands: whatever else happens, they do not outlive it."""
    meta = pool.metadata
    api_version = f"{names.GROUP}/{names.VERSION}"
    return [{"apiVersion": api_version, "kind": "GPUPool", "name": meta.name, "uid": meta.uid, "controller": True}]


def allowed_lists(offered: list[GPUDevice]) -> list[str]:
    """The allowed cards, one inventoryID a line, sorted; one text for each ConfigMap."""
    lines = sorted(device.status.inventory_id or "" for device in offered)
    if len(lines) <= SHARD_CARDS:
        return ["\n".join(lines)]
    by_node: dict[str, list[str]] = {}
    for device in offered:
        by_node.setdefault(device.status.node_name or "", []).append(device.status.inventory_id or "")
    count = -(-len(lines) // SHARD_CARDS)
    shards: list[list[str]] = [[] for _ in range(count)]
    for node, cards in by_node.items():
        # By hash, so that a node stays in its shard when others come and go.
        shards[int(hashlib.sha256(node.encode()).hexdigest(), 16) % count] += cards
    return ["", *("\n".join(sorted(shard)) for shard in shards)]


def configmaps(pool: GPUPool, offered: list[GPUDevice]) -> dict[str, dict[str, Any]]:
    """The pool's ConfigMaps by name: what they are to be, without what names them."""
    settings = settings_text(pool.name, pool.spec.allocation)
    meta = {"labels": labels(pool.name), "ownerReferences": _owner(pool)}
    base, made = names.plugin_object(pool.name), {}
    for number, text in enumerate(allowed_lists(offered)):
        name = base if number == 0 else f"{base}-{number - 1}"
        data = {names.ALLOWED_DEVICES: text} | ({names.PLUGIN_SETTINGS: settings} if number == 0 else {})
        made[name] = {"metadata": meta, "data": data}
    return made


def daemonset(pool: GPUPool) -> dict[str, Any]:
    """The pool's device plugin on every node that has a card of it."""
    name, own = names.plugin_object(pool.name), labels(pool.name)
    spec = {
        "selector": {"matchLabels": {names.LABEL_APP: name}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "revisionHistoryLimit": 2,
        "template": {"metadata": {"labels": {**own, names.LABEL_APP: name}}, "spec": _pod(pool.name)},
    }
    annotations = {names.SPEC_HASH: hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]}
    meta = {"labels": own | {names.LABEL_APP: name}, "annotations": annotations, "ownerReferences": _owner(pool)}
    return {"metadata": meta, "spec": spec}


def _pod(pool: str) -> dict[str, Any]:
    return {
        "nodeSelector": {names.pool_node_label(pool): "true"},
        "serviceAccountName": "gpu-nodeagent-device-plugin",
        "automountServiceAccountToken": True,  # its ServiceAccount says no by default
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 10,
        "containers": [_container(pool)],
        "volumes": [
            {"name": "plugins", "hostPath": {"path": PLUGIN_DIR}},
            {"name": "pod-resources", "hostPath": {"path": POD_RESOURCES_DIR}},
            {"name": "sys", "hostPath": {"path": "/sys"}},
        ],
    }


def _container(pool: str) -> dict[str, Any]:
    return {
        "name": "device-plugin",
        "image": AGENT_IMAGE,
        "args": ["device-plugin", "--pool", pool],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsUser": 0,  # kubelet's sockets belong to root
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "plugins", "mountPath": PLUGIN_DIR},
            {"name": "pod-resources", "mountPath": POD_RESOURCES_DIR, "readOnly": True},
            {"name": "sys", "mountPath": "/sys", "readOnly": True},
        ],
    }
