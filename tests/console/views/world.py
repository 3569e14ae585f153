"""What a viewer may read, in few words: a fleet of three nodes with two pools, as the console's pages see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from console.pods import ShownPod
from console.records import Row, Seen
from console.rights import Rights, redacted
from console.views import VIEWS
from controllers.api import names
from controllers.api.gpudriver import GPUDriver
from controllers.api.kube import Node
from controllers.api.record import adapter
from tests.kit.objects import LONG_AGO, NOW, allocation, card, condition, inventory, node, pool, reservation
from tests.kit.pods import pod_body

HTML = "<img src=x onerror=alert(1)>"
"""A product's name as somebody may write it."""
READY = condition("ReadyForPooling", reason="Ready")
NOT_READY = condition("ReadyForPooling", status=False, reason="DriverMissing")
LINKED = {"nvlink": {"peers": ["0000:02:00.0"]}}


def seen_pod(name: str, namespace: str = "team-a", units: int = 1, *, created: str = LONG_AGO, **more: Any) -> ShownPod:
    meta = {"namespace": namespace, "creation_timestamp": created}
    body = pod_body(name, units, pool="training", **more)
    body["metadata"] |= meta
    return adapter(ShownPod).validate_python(body)


def queued(name: str, namespace: str = "team-a", units: int = 1) -> ShownPod:
    """A pod that waits for cards."""
    return seen_pod(name, namespace, units, schedulingGates=[{"name": names.CARDS_GATE}])


def sized(name: str, cards: int, labels: Mapping[str, str], **spec: Any) -> Node:
    """A node that says what it has for pods, with so many cards of pool training."""
    made = node(name, labels=labels, **spec)
    has = {"cpu": "64", "memory": "512Gi", "pods": "110", names.resource_name("training"): str(cards)}
    return replace(made, status=replace(made.status, allocatable=has))


def had(pod: str, namespace: str, day: int) -> dict[str, str]:
    """A pod that had a card on a day of January."""
    since, until = f"2026-01-{day:02}T00:00:00Z", f"2026-01-{day:02}T08:00:00Z"
    whom = {"namespace": namespace, "pod": pod, "uid": f"{namespace}-{pod}"}
    return whom | {"pool": "training", "since": since, "until": until, "ended": "Finished"}


def world(
    *, namespaces: Collection[str] = ("team-a", "team-b"), more_pods: tuple[ShownPod, ...] = (), **parts: Any
) -> Seen:
    """The fleet, as somebody sees it who may read pods of these namespaces."""
    used = card("gpu-1", 1, pool="training", hardware=LINKED | {"product": HTML},
                allocations=(allocation("mine", "u1", namespace="team-a"),))  # fmt: skip
    theirs = card("gpu-1", 2, pool="training", hardware={"nvlink": {"peers": ["0000:01:00.0"]}},
                  allocations=(allocation("secret-job", "u2", namespace="team-b"),),
                  history=(had("secret-old", "team-b", 1), had("old", "team-a", 2)))  # fmt: skip
    promised = card(
        "gpu-2", 1, pool="training", reservations=(reservation(namespace="team-b", pod="secret-two", until=NOW + 300),)
    )
    faulted = card("gpu-2", 2, pool="training", conditions=(
        condition("Faulted", reason="CriticalXid", message="XID 79 while pod team-b/secret-job had it"),))  # fmt: skip
    free, waits = card("gpu-2", 3, pool="training"), card("gpu-3", 1)
    cards = (used, theirs, promised, faulted, free, waits)
    hint = {"inventory_id": waits.status.inventory_id, "reason": "AwaitingApproval", "pool": "training"}
    inventories = [
        inventory(name, [one for one in cards if one.status.node_name == name],
                  conditions=[READY if name != "gpu-3" else NOT_READY],
                  **({"pools": {"pending": [hint]}} if name == "gpu-3" else {}))
        for name in ("gpu-1", "gpu-2", "gpu-3")
    ]  # fmt: skip
    capacity = {"unit": "card", "total": 5, "used": 2, "reserved": 1, "unavailable": 1, "available": 1}
    nodes = [{"name": f"gpu-{at}", "total_devices": 3, "assigned_devices": 2, "slots": 2, "used": 1,
              "health": "Healthy", "last_event": "pod team-b/secret-job was admitted"} for at in (1, 2)]  # fmt: skip
    pools = (
        pool("training", conditions=[condition("Available")], status={"capacity": capacity, "nodes": nodes}),
        pool("other", conditions=[condition("Misconfigured", message="no")]),
    )
    driver = adapter(GPUDriver).validate_python({
        "metadata": {"name": "main"}, "spec": {"version": "580.1"},
        "status": {"state": "Rolling wave 1", "nodes": [{"name": "gpu-1", "phase": "Installing", "since": LONG_AGO}]},
    })  # fmt: skip
    pods = (seen_pod("mine", nodeName="gpu-1"), seen_pod("secret-job", "team-b", nodeName="gpu-1"),
            queued("waits", units=4), queued("secret-wait", "team-b"), *more_pods)  # fmt: skip
    may_read = Rights(frozenset(), None if set(namespaces) == {"team-a", "team-b"} else frozenset(namespaces)).may_read
    shown = {one.key: one for one in pods if one.metadata.namespace in namespaces}
    made: dict[str, Any] = {
        "cards": {one.name: one for one in cards},
        "nodes": {f"gpu-{at}": sized(f"gpu-{at}", at + 1, {names.pool_node_label("training"): ""}) for at in (1, 2, 3)},
        "inventories": {one.name: one for one in inventories},
        "pools": {one.name: one for one in pools},
        "drivers": {"main": driver},
        "pods": shown,
        "may_read": may_read,
        "hidden": {"Pod": len(pods) - len(shown)} if len(shown) < len(pods) else {},
    }
    for part in ("cards", "nodes", "inventories", "pools", "drivers"):  # as `Sight` does it
        made[part] = {name: redacted(one, may_read, b"salt", ("team-a", "team-b")) for name, one in made[part].items()}
    return Seen(**made | parts)


def page(view: str, seen: Seen | None = None, **params: str) -> Mapping[str, Row]:
    """The rows of a page."""
    return VIEWS[view].rows(seen or world(), params, NOW)
