"""Pods that wait for cards behind our scheduling gate, as the webhook leaves them, and what releases them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.gpupool import Toleration
from controllers.api.record import adapter
from controllers.api.tenant import TenantPod
from controllers.gpupool.queue.release import release, release_without_cards
from tests.templates.harness import asking, pod

if TYPE_CHECKING:
    from tests.templates import harness

PODS = "/api/v1/namespaces/default/pods"
JSON_PATCH = "application/json-patch+json"
GATE = {"name": names.CARDS_GATE}
OTHER = {"name": "example.com/other"}
REQUIRED = {"nodeSelectorTerms": [{"matchExpressions": [{"key": names.pool_node_label("a"), "operator": "Exists"}]}]}
HERE = {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}


def waiting(name: str, *gates: dict[str, str], **parts: Any) -> dict[str, Any]:
    """A pod that asks for a card of pool `a`, and has these gates; ours alone where none is given."""
    nodes = {
        "requiredDuringSchedulingIgnoredDuringExecution": REQUIRED,
        "preferredDuringSchedulingIgnoredDuringExecution": [HERE],
    }
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "none", "resources": asking()}],
        "affinity": {"nodeAffinity": nodes},
        "schedulingGates": list(gates) or [GATE],
        "activeDeadlineSeconds": 600,
    }
    made = pod(name, **(spec | parts))
    meta = {"labels": {names.LABEL_POOL: "a", "app": "x"}, "annotations": {names.REQUEST_ID: "r", "theirs": "1"}}
    made["metadata"] |= meta
    return made


def stored(kube: harness.Kube, name: str) -> TenantPod:
    """A pod as gpupool-controller has it in its cache."""
    return adapter(TenantPod).validate_python(kube.get(f"{PODS}/{name}").body)


def operations(kube: harness.Kube, name: str, devices: str = "card-a") -> list[dict[str, Any]]:
    """What gpupool-controller sends to let a pod go on, which needs a toleration more than it has.

    Without `devices` for an autoscaler, which is to see a pod that finds no place.
    """
    pod, taints = stored(kube, name), (Toleration(key="example.com/gpu", operator="Exists"),)
    action = release(pod, "node-a", devices, taints) if devices else release_without_cards(pod, taints)
    version = {"op": "add", "path": "/metadata/resourceVersion", "value": action.resource_version}
    return [version, *action.operations]


def patched(
    who: harness.Kube, name: str, operations: list[dict[str, Any]], subresource: str = "", query: str = ""
) -> harness.Answer:
    """Send a JSON patch."""
    return who.call("PATCH", f"{PODS}/{name}{subresource}{query}", operations, JSON_PATCH)
