"""Why no node of a pool could ever take a pod: its size, or what it demands of its node. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api.tenant import PodToleration
from controllers.domain.allocation import applied
from controllers.domain.node_fit import PodConstraints, node_fits
from controllers.domain.request import units_of
from controllers.domain.slots import slots_of
from controllers.domain.wording import listed
from controllers.explain.words import counted

if TYPE_CHECKING:
    from controllers.api.tenant import TenantPod
    from controllers.explain.queue_order import QueueSeen

EVERYTHING: Final = (PodToleration(operator="Exists"),)
"""Tolerates each taint."""
NO_DEMAND: Final = PodConstraints(None, (), None, EVERYTHING)


def explain_misfit(seen: QueueSeen, pod: TenantPod) -> str:
    """What keeps the pod from each node that is large enough; empty where a node could take it, or none is known."""
    totals: Counter[str] = Counter()
    for device in seen.members:
        if device.status.node_name in seen.nodes:
            totals[device.status.node_name or ""] += slots_of(device, applied(seen.pool))
    units = units_of(pod, seen.pool.name)
    if not totals:
        return ""
    large = sorted(name for name, total in totals.items() if total >= units)
    if not large:
        most = max(totals.values())
        return f"it asks for {counted(units, 'slot')} of one node, and no node of the pool has more than {most}"
    wants = PodConstraints.of(pod.spec, seen.tolerated)
    if any(node_fits(wants, seen.nodes[name]) for name in large):
        return ""
    demands = {
        "its node selector": replace(NO_DEMAND, labels=wants.labels),
        "its node affinity": replace(NO_DEMAND, terms=wants.terms),
        "taints that it does not tolerate": replace(NO_DEMAND, tolerations=wants.tolerations),
    }
    against = {
        what: [name for name in large if not node_fits(demand, seen.nodes[name])] for what, demand in demands.items()
    }
    found = (f"{what} (on {listed(nodes)})" for what, nodes in against.items() if nodes)
    return f"it is kept away by {' and by '.join(found)}"
