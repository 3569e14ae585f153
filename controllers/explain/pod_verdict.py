"""The verdict on a pool's cards and nodes for one pod, out of what was read of its queue. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.queue.gates import is_queued
from controllers.domain.verdict.pod import asked_by, cards_of, pod_verdict
from controllers.domain.verdict.records import Kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.tenant import TenantPod
    from controllers.domain.verdict.records import NodeVerdict, PodVerdict
    from controllers.explain.queue import Queue
    from controllers.explain.queue_order import QueueSeen

ALL: Final = 1 << 30
"""All that a node has free."""


def verdict_of(
    seen: QueueSeen,
    queue: Queue,
    pod: TenantPod,
    *,
    nodes: Iterable[NodeVerdict] = (),
    since: Mapping[str, str],
) -> PodVerdict:
    """The verdict. `queue` as computed of `seen`; `nodes`: what the scheduler says of them; `since`: by key of pods."""
    kept = kept_before(queue, pod)
    asked = asked_by(pod, seen.pool.name, seen.tolerated)
    cards = cards_of(seen, kept, seen.now)
    return pod_verdict(seen, cards, asked, nodes=nodes, since=since, now=seen.now)


def kept_before(queue: Queue, pod: TenantPod) -> dict[str, Kept]:
    """What of the nodes' free slots goes to others before the pod, by node.

    Of a pod with no place in the queue, which comes before it, nothing is kept for others.
    """
    own = queue.of(pod.key)
    if own is None or not is_queued(pod):
        return {}
    found = {node: Kept(slots) for node, slots in queue.before.items()}
    for each in queue.waiters:
        if each.position is None or each.node is None or each.key == pod.key:
            continue
        if own.position is not None and each.position >= own.position:
            continue
        for node in each.node.split(", "):
            has = found.get(node, Kept(0, each.position))
            slots = ALL if each.node_use == "kept" else has.slots + each.units
            found[node] = Kept(slots, has.position)
    return found
