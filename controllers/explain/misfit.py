"""Why no node of a pool could ever take a pod: its size, or what it demands of its node. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from controllers.domain.allocation import applied
from controllers.domain.node_fit import Demand, PodConstraints, node_fits, unmet
from controllers.domain.request import asked_of
from controllers.domain.slots import slots_of
from controllers.domain.wording import listed
from controllers.explain.words import counted

if TYPE_CHECKING:
    from controllers.api.tenant import TenantPod
    from controllers.explain.queue_seen import QueueSeen

_WORDS: Final[dict[Demand, str]] = {
    "node name": "the node that it names",
    "node selector": "its node selector",
    "node affinity": "its node affinity",
    "the pool's affinity": "the pool's affinity",
    "taints": "taints that it does not tolerate",
}


def explain_misfit(seen: QueueSeen, pod: TenantPod) -> str:
    """What keeps the pod from each node that is large enough; empty where a node could take it, or none is known."""
    totals, wanted = Counter[str](), asked_of(pod, seen.pool.name)
    for device in seen.members:
        if device.status.node_name in seen.nodes:
            totals[device.status.node_name or ""] += slots_of(device, applied(seen.pool), wanted.profile)
    if not totals:
        return ""
    large = sorted(name for name, total in totals.items() if total >= wanted.units)
    if not large:
        most = max(totals.values())
        return f"it asks for {counted(wanted.units, 'slot')} of one node, and no node of the pool has more than {most}"
    wants = PodConstraints.of(pod.spec, seen.tolerated)
    if any(node_fits(wants, seen.nodes[name]) for name in large):
        return ""
    against: dict[str, list[str]] = {}
    for name in large:
        for demand in unmet(wants, seen.nodes[name]):
            against.setdefault(_WORDS[demand], []).append(name)
    found = (f"{what} (on {listed(against[what])})" for what in _WORDS.values() if what in against)
    return f"it is kept away by {' and by '.join(found)}"
