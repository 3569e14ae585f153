"""Who is asked to leave a node for its driver's sake, checked on every request of a trace. Pure.

Pods are evicted, never deleted; only by a driver that drains, only from a node that is being drained, only those that
use cards, and none that says it is not to be disturbed.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.user_pod import PROTECTIONS, asks_for_cards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reliability.faults.process_proxy import Sent
    from reliability.faults.trace import Objects, Revision

PROCESS: Final = "driver"


def wrong(sent: Iterable[Sent], initial: Objects, history: Sequence[Revision]) -> list[str]:
    """What is wrong with requests that end pods, whether or not they were carried out."""
    found = []
    seen = _Seen(initial, history)
    for one in sent:
        if one.process != PROCESS or one.resource != "pods" or one.namespace == names.NAMESPACE:
            continue
        if one.verb == "delete":
            found.append(f"{PROCESS}: deletes pod {one.namespace}/{one.name}")
        elif one.subresource == "eviction":
            body = one.body if isinstance(one.body, dict) else {}
            about = f"{PROCESS}: evicts pod {one.namespace}/{one.name}"
            found += [f"{about} {why}" for why in seen.against(body)]
    return list(dict.fromkeys(found))


class _Seen:
    """What was there at any time of a run."""

    def __init__(self, initial: Objects, history: Sequence[Revision]) -> None:
        every = [*initial.items(), *((one.key, one.object) for one in history)]
        self._pods = {obj["metadata"]["uid"]: obj for (kind, _), obj in every if kind == "Pod"}
        drivers = {key[1] for key, obj in every if key[0] == "GPUDriver" and _strategy(obj) == "Drain"}
        works = [(key[1], _work(obj)) for key, obj in every if key[0] == "GPUNodeInventory"]
        self._drained = {
            node for node, work in works if work.get("phase") == "Draining" and work.get("driver") in drivers
        }

    def against(self, body: Mapping[str, Any]) -> Iterator[str]:
        """Why a pod should not have been evicted."""
        uid = ((body.get("deleteOptions") or {}).get("preconditions") or {}).get("uid")
        if uid is None:
            yield "without the uid of what it means"
            return
        found = self._pods.get(uid)
        if found is None:
            return
        if found["spec"].get("nodeName") not in self._drained:
            yield f"of node {found['spec'].get('nodeName')}, which no driver drains"
        if not _uses_cards(found):
            yield "which asks for no card"
        marks = (found["metadata"].get("labels") or {}) | (found["metadata"].get("annotations") or {})
        for key, value in PROTECTIONS.items():
            if marks.get(key) == value:
                yield f"though it says {key}={value}"


def _strategy(driver: Mapping[str, Any]) -> str:
    return str(driver.get("spec", {}).get("rollout", {}).get("strategy", "WhenIdle"))


def _work(inventory: Mapping[str, Any]) -> Mapping[str, Any]:
    return inventory.get("status", {}).get("driverWork") or {}


def _uses_cards(pod: Mapping[str, Any]) -> bool:
    """Whether it asks for cards by a resource, or for whatever claims it has."""
    spec = pod["spec"]
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    asked = chain.from_iterable(
        [*one.get("resources", {}).get("limits", ()), *one.get("resources", {}).get("requests", ())]
        for one in containers
    )
    return bool(spec.get("resourceClaims")) or any(asks_for_cards(resource) for resource in asked)
