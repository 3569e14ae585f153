"""The module's objects in few words: a test says what matters to it, and the rest is a card, a node or a pool as usual.

Each builder gives the record; `tests.kit.manifests` makes of it what an API server stores. What a builder does not
know is given by the record's own names (`mig_apply=…`); `meta` is more of `metadata`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controllers.api import names
from controllers.api.gpudevice import Allocation, GPUDevice, PoolRef, Published, Reservation
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Namespace, Node
from controllers.api.meta import Condition
from controllers.api.record import adapter
from controllers.domain.clock import stamp_exact
from controllers.inventory.identity import device_name, inventory_id

NOW = 1_800_000_000.0
"""When tests without a clock of their own happen."""
LONG_AGO = "2026-01-01T00:00:00Z"
"""A time before `NOW`, as objects tell it."""
BOOT = "11111111-2222-3333-4444-555555555555"
"""The boot of a node that has not been started again."""
H100 = {"vendor": "10de", "device": "2330", "class": "0302"}
"""What PCI tells of an H100 80GB HBM3: can be divided (MIG)."""


def address(bus: int) -> str:
    """A card's place in its node, by the number of its bus."""
    return f"0000:{bus:02x}:00.0"


def condition(kind: str, status: bool | str = True, reason: str = "Test", message: str = "") -> Condition:
    """A condition, which holds where nothing else is said."""
    made = {"type": kind, "status": str(status), "reason": reason, "message": message, "last_transition_time": LONG_AGO}
    return adapter(Condition).validate_python(made)


def pool_ref(pool: str) -> PoolRef:
    """What a card says of the pool that it is in."""
    return PoolRef(name=pool, resource=names.resource_name(pool))


def published(pool: str, slots: int = 1, version: str = "1") -> Published:
    """What a plugin says of a card that it offers."""
    return Published(pool=pool, config_version=version, slots=slots)


def allocation(pod: str = "p", uid: str = "u", *, namespace: str = "team", slots: int = 1) -> Allocation:
    """What kubelet says of a card that a pod has."""
    return Allocation(pod_uid=uid, namespace=namespace, pod=pod, container="main", slots=slots)


def reservation(
    request: str = "r",
    *,
    pod: str = "p",
    namespace: str = "team",
    slots: int = 1,
    since: float = NOW,
    until: float = NOW + 10,
    seen: bool = False,
) -> Reservation:
    """A promise of slots to a pod."""
    times = {"since": stamp_exact(since), "expires_at": stamp_exact(until)}
    return Reservation(request_id=request, namespace=namespace, pod=pod, slots=slots, seen=seen, **times)


def card(
    node: str = "n1",
    at: int | str = 0x17,
    *,
    pool: str | None = None,
    slots: int = 1,
    hardware: Mapping[str, Any] | None = H100,
    meta: Mapping[str, Any] | None = None,
    **status: Any,
) -> GPUDevice:
    """A card at a bus (or an address) of a node; of a pool: in it, assigned by hand, and offered by its plugin.

    `hardware` is more than its place and model; None where nothing was reported of it.
    """
    place = at if isinstance(at, str) else address(at)
    made: dict[str, Any] = {"node_name": node, "inventory_id": inventory_id(node, place)}
    if hardware is not None:
        model = H100 | hardware.get("pci", {}) | {"address": place}
        made["hardware"] = {key: value for key, value in hardware.items() if key not in H100} | {"pci": model}
    if pool is not None:
        made |= {"state": "Assigned", "pool_ref": pool_ref(pool), "published": published(pool, slots)}
    annotations = {names.ASSIGNMENT: pool} if pool is not None else {}
    metadata = {"name": device_name(node, place), "annotations": annotations} | dict(meta or {})
    return adapter(GPUDevice).validate_python({"metadata": metadata, "status": made | status})


def node(
    name: str = "n1",
    *,
    ready: bool | str = True,
    labels: Mapping[str, str] | None = None,
    boot: str = "",
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Node:
    """A node that is ready; `spec` are its taints and whether it takes pods."""
    status = {"conditions": [{"type": "Ready", "status": str(ready)}], "node_info": {"boot_id": boot}}
    metadata = {"name": name, "labels": dict(labels or {})} | dict(meta or {})
    return adapter(Node).validate_python({"metadata": metadata, "spec": spec, "status": status})


def pool(
    name: str = "a",
    *,
    conditions: Iterable[Condition] = (),
    status: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> GPUPool:
    """A pool that takes what is assigned to it, whole cards."""
    metadata = {"name": name, "creation_timestamp": LONG_AGO} | dict(meta or {})
    told = {"conditions": tuple(conditions)} | dict(status or {})
    return adapter(GPUPool).validate_python({"metadata": metadata, "spec": spec, "status": told})


def inventory(
    node: str = "n1",
    cards: Iterable[GPUDevice] = (),
    *,
    conditions: Iterable[Condition] = (),
    meta: Mapping[str, Any] | None = None,
    **status: Any,
) -> GPUNodeInventory:
    """What is known of a node that has these cards."""
    listed = [
        {"name": one.name, "inventory_id": one.status.inventory_id or "", "address": one.status.hardware.pci.address}
        for one in cards
        if one.status.hardware is not None
    ]
    told = {"hw": {"present": bool(listed), "devices": listed}, "conditions": tuple(conditions)} | status
    metadata = {"name": node} | dict(meta or {})
    return adapter(GPUNodeInventory).validate_python(
        {"metadata": metadata, "spec": {"node_name": node}, "status": told}
    )


def namespace(name: str = "team", **labels: str) -> Namespace:
    """A namespace."""
    return adapter(Namespace).validate_python({"metadata": {"name": name, "labels": labels}})
