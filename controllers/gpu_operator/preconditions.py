"""What has to be over before a cluster goes from GPU Operator to this module. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import foreign
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WAS_CORDONED: Final = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"


def preconditions(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Sentences about nodes on which the operator is at work; none where it rests."""
    at_work: dict[str, list[str]] = {}
    waiting, cordoned = [], []
    for node in nodes:
        meta = node.get("metadata") or {}
        name, labels, annotations = meta.get("name", ""), meta.get("labels") or {}, meta.get("annotations") or {}
        state = labels.get(foreign.UPGRADE_STATE, "")
        if foreign.is_upgrading(labels):
            at_work.setdefault(state, []).append(name)
            if (node.get("spec") or {}).get("unschedulable") and WAS_CORDONED not in annotations:
                cordoned.append(name)
        if foreign.waits_to_load(annotations):
            waiting.append(name)
    found = [f"GPU Operator upgrades the driver ({state}) of {listed(there)}: wait for upgrade-done, or see to it."
             for state, there in sorted(at_work.items())]  # fmt: skip
    if cordoned:
        found.append(f"It has cordoned {listed(cordoned)}, and nobody else lifts that: kubectl uncordon afterwards.")
    if waiting:
        found.append(f"Drivers wait to be loaded (annotation {foreign.WAITS_TO_LOAD}) on {listed(waiting)}.")
    return found
