"""A small world in memory: cards, nodes, pools and reviews, and an applier of JSON patches."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import AllocationSpec, GPUPool, TimeSlice
from controllers.api.kube import Node
from controllers.api.settings import Settings
from controllers.api.tenant import TenantPod as Pod
from controllers.domain.accounting import account
from controllers.domain.placement.capacity import node_capacity
from controllers.domain.request import PoolRequest
from tests.kit import objects, pods
from tests.kit.objects import NOW
from tests.kit.storage import cache
from webhook.caches.snapshot import Snapshot
from webhook.caches.stores import Stores
from webhook.decision import pod_request, review
from webhook.decision.access import Requester
from webhook.decision.context import resolve
from webhook.decision.decide import decide

if TYPE_CHECKING:
    from controllers.api.kube import Namespace
    from controllers.domain.placement.capacity import NodeCapacity
    from webhook.decision.context import View
    from webhook.decision.verdict import Verdict

POOL = "a"


def device(node: str, number: int, *, pool: str | None = POOL, slots: int = 1, **status: Any) -> GPUDevice:
    """A card of a pool that is offered, with a short name."""
    meta = {"name": f"{node}-{number}", "uid": f"u-{node}-{number}", "resource_version": "1"}
    told = {"hardware": None, "state": "Assigned", **status}
    return objects.card(node, number, pool=pool, slots=slots, meta=meta, **told)


def node(name: str, *, pool: str = POOL, ready: bool = True, taints: list[Any] | None = None, **labels: str) -> Node:
    """A node of a pool."""
    return objects.node(name, ready=ready, labels={names.pool_node_label(pool): "", **labels}, taints=taints or [])


def pool(name: str = POOL, *, conditions: dict[str, str] | None = None, **spec: Any) -> GPUPool:
    """A pool; `conditions` are messages of what holds for it."""
    found = [objects.condition(kind, reason="Because", message=text) for kind, text in (conditions or {}).items()]
    return objects.pool(name, conditions=found, **spec)


def refusing_pool(name: str = POOL, **more: Any) -> GPUPool:
    """A pool that refuses a pod for which it has no cards, where others let it wait."""
    return pool(name, queue={"onShortage": "Refuse"}, **more)


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
    more = {"devices": devices, "pool": pool, "label": label, "nodeName": node_name}
    return pods.pod(name, units, request=request, phase="", **more)


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


def capacity_of(
    the_node: Node | None, cards: list[GPUDevice], pods: list[Pod] | None = None, **held: Any
) -> NodeCapacity:
    """A node's shelf."""
    name = the_node.name if the_node else "gone"
    # Cards have as many slots as they offer.
    shared = AllocationSpec(mode="TimeSlice", time_slice=TimeSlice(max_slices_per_device=64))
    slots = account(POOL, node=the_node, node_name=name, devices=cards, pods=pods or [], allocation=shared, now=NOW)
    return node_capacity(the_node, slots, held)


def stores() -> Stores:
    """Empty caches that count as filled."""
    return Stores(*(cache(kind) for kind in ("GPUPool", "GPUDevice", "Node", "Namespace", "Pod")))


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


@dataclass(frozen=True)
class Known:
    """A pool, the creator's namespace, and what the pool can give."""

    pool: GPUPool | None
    view: View
    namespace: Namespace | None = None
    known_pools: tuple[str, ...] = ()

    @classmethod
    def of(cls, caches: Stores, made: Snapshot, name: str, now: float = NOW) -> Known:
        """What a replica knows for a pod of namespace `team`."""
        return cls(caches.pools.get(name), made.view(name, "team", now), caches.namespaces.get("team"))


def decided(raw: Any, known: Known, request_id: str = "r1") -> Verdict:
    """The decision about a pod."""
    request = request_of(raw)
    wanted = pod_request.parse_pool_request(request.pod.spec)
    assert isinstance(wanted, PoolRequest)
    return decided_for(request, wanted, known, request_id)


def decided_for(
    request: review.Request, wanted: PoolRequest, known: Known, request_id: str = "r1", **how: Any
) -> Verdict:
    """The decision about a pod that asks for cards of the pool."""
    spec = request.pod.spec
    requester = Requester(request.namespace, known.namespace, spec.service_account_name, request.user)
    pod = resolve(request, wanted, known.pool, requester, known_pools=known.known_pools)
    return decide(pod, known.view, request_id=request_id, **how)
