"""A small world in memory: cards, nodes, pools and reviews, and an applier of JSON patches."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import AllocationSpec, GPUPool, TimeSlice
from controllers.api.kube import Namespace, Node
from controllers.api.record import adapter
from controllers.api.settings import Settings
from controllers.api.tenant import TenantPod as Pod
from controllers.domain.clock import stamp_exact
from controllers.domain.slots import account
from controllers.runtime.store import Store
from webhook import review
from webhook.place import shelf
from webhook.snapshot import Snapshot, Stores

if TYPE_CHECKING:
    from webhook.place import Shelf

NOW = 1_800_000_000.0
POOL = "a"


def device(node: str, number: int, *, pool: str | None = POOL, slots: int = 1, **status: Any) -> GPUDevice:
    """A card of a pool that is offered."""
    inventory_id = f"{node}-0000:{number:02x}:00.0"
    base: dict[str, Any] = {"nodeName": node, "inventoryID": inventory_id, "state": "Assigned"}
    annotations = {}
    if pool:
        annotations[names.ASSIGNMENT] = pool
        base |= {"poolRef": {"name": pool, "resource": names.resource_name(pool)}}
        base |= {"published": {"pool": pool, "configVersion": "1", "slots": slots}}
    meta = {"name": f"{node}-{number}", "uid": f"u-{node}-{number}", "resourceVersion": "1", "annotations": annotations}
    return adapter(GPUDevice).validate_python({"metadata": meta, "status": base | status})


def promise(
    request: str, *, until: float = NOW + 10, since: float = NOW, namespace: str = "team", slots: int = 1
) -> dict[str, Any]:
    """A reservation as it is stored."""
    return {
        "requestID": request, "namespace": namespace, "pod": "p", "slots": slots,
        "since": stamp_exact(since), "expiresAt": stamp_exact(until),
    }  # fmt: skip


def node(name: str, *, pool: str = POOL, ready: bool = True, taints: list[Any] | None = None, **labels: str) -> Node:
    """A node of a pool."""
    meta = {"name": name, "labels": {names.pool_node_label(pool): "", **labels}}
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    return adapter(Node).validate_python({"metadata": meta, "spec": {"taints": taints or []}, "status": status})


def pool(name: str = POOL, *, conditions: dict[str, str] | None = None, **spec: Any) -> GPUPool:
    """A pool."""
    found = [
        {"type": kind, "status": "True", "reason": "Because", "message": text}
        for kind, text in (conditions or {}).items()
    ]
    body = {"metadata": {"name": name}, "spec": spec, "status": {"conditions": found}}
    return adapter(GPUPool).validate_python(body)


def namespace(name: str, **labels: str) -> Namespace:
    """A namespace."""
    return adapter(Namespace).validate_python({"metadata": {"name": name, "labels": labels}})


def stored_pod(
    name: str,
    node_name: str | None,
    *,
    request: str = "",
    devices: str = "",
    pool: str = POOL,
    units: int = 1,
    label: str | None = None,
) -> Pod:
    """A pod as the cache shows it; `label`: the pool that admitted it, where it is another than it asks for."""
    meta = {
        "name": name, "namespace": "team", "uid": f"pod-{name}", "labels": {names.LABEL_POOL: label or pool},
        "annotations": {names.REQUEST_ID: request, names.DEVICES: devices},
    }  # fmt: skip
    spec = {"nodeName": node_name, "containers": [container({names.resource_name(pool): str(units)})]}
    return adapter(Pod).validate_python({"metadata": meta, "spec": spec})


def container(limits: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A container."""
    return {"name": "main", "resources": {"limits": limits or {}}, **more}


def pod(units: Any = 1, *, pool: str = POOL, meta: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that asks."""
    asking = {"containers": [container({names.resource_name(pool): units})], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **(meta or {})}, "spec": asking}


def review_of(obj: Any, **changes: Any) -> dict[str, Any]:
    """An AdmissionReview as the API server sends it."""
    request = {
        "uid": "11111111-2222-3333-4444-555555555555",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | changes}


def request_of(obj: Any, **changes: Any) -> review.Request:
    """The same, read."""
    parsed = review.parse(orjson.dumps(review_of(obj, **changes)))
    assert isinstance(parsed, review.Request), parsed
    return parsed


def shelf_of(the_node: Node | None, cards: list[GPUDevice], pods: list[Pod] | None = None, **held: Any) -> Shelf:
    """A node's shelf."""
    name = the_node.name if the_node else "gone"
    # Cards have as many slots as they offer.
    shared = AllocationSpec(mode="TimeSlice", time_slice=TimeSlice(max_slices_per_device=64))
    slots = account(POOL, node=the_node, node_name=name, devices=cards, pods=pods or [], allocation=shared, now=NOW)
    return shelf(the_node, slots, held)


def stores() -> Stores:
    """Empty caches that count as filled."""
    made = Stores(Store("GPUPool"), Store("GPUDevice"), Store("Node"), Store("Namespace"), Store("Pod"))
    for store in (made.pools, made.devices, made.nodes, made.namespaces, made.pods):
        store.replace([], 1)
    return made


def snapshot(caches: Stores, settings: Settings | None = None) -> Snapshot:
    """A snapshot of caches."""
    found = settings or Settings()
    return Snapshot(caches, lambda: found)


def apply_patch(document: Any, patch: Any) -> Any:
    """RFC 6902 as far as the webhook uses it: add, remove, strictly."""
    document = copy.deepcopy(document)
    for operation in patch:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = document
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        assert isinstance(target, dict), operation
        if operation["op"] == "add":
            target[last] = copy.deepcopy(operation["value"])
        else:
            assert operation["op"] == "remove", operation
            del target[last]
    return document
