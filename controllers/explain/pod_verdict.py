"""The verdict on a pool's cards and nodes for one pod, out of what was read of its queue. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.queue.gates import is_queued
from controllers.domain.request import asked_of
from controllers.domain.verdict.demands import Demands, NodeUse
from controllers.domain.verdict.nodes import node_verdict
from controllers.domain.verdict.pod import asked_by, cards_of, pod_verdict
from controllers.domain.verdict.records import ReservedForOthers
from controllers.domain.verdict.summary import summarize
from controllers.explain.records import SeenPod, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpupool import Toleration
    from controllers.api.kube import Node
    from controllers.api.tenant import TenantPod
    from controllers.api.whole_pod import WholePod
    from controllers.domain.verdict.pool_cards import NodeCards
    from controllers.domain.verdict.records import NodeVerdict, PodVerdict, Summary
    from controllers.explain.queue import Queue
    from controllers.explain.queue_seen import QueueSeen

ALL: Final = 1 << 30
"""All that a node has free."""
_BEFORE_PODS: Final = frozenset({"Unschedulable", "NodeName", "TaintToleration", "NodeAffinity"})
"""Reasons of plugins that do not look at the pods on a node, and come before those that do."""


def verdict_of(seen: QueueSeen, queue: Queue, pod: TenantPod, nodes: Iterable[NodeVerdict]) -> PodVerdict | None:
    """The verdict; None where nobody may say what becomes of the nodes. `queue` is what `seen` comes to.

    `nodes`: what the scheduler says of the pool's nodes.
    """
    if isinstance(seen.nodes_read, Unreadable):
        return None
    cards = _cards(seen, queue, pod)
    asked = asked_by(pod, seen.pool.name, seen.tolerated)
    return pod_verdict(seen, cards, asked, nodes=nodes, since=_since(seen), now=seen.now)


def numbers_of(seen: QueueSeen, queue: Queue, pod: TenantPod) -> Summary | None:
    """The same in numbers alone."""
    if isinstance(seen.nodes_read, Unreadable):
        return None
    cards = _cards(seen, queue, pod)
    return summarize(cards, asked_by(pod, seen.pool.name, seen.tolerated), seen.now)


def _cards(seen: QueueSeen, queue: Queue, pod: TenantPod) -> dict[str, NodeCards]:
    """The pool's cards as they are for pods that ask for the same profile, where it has a mixed layout."""
    profile = asked_of(pod, seen.pool.name).profile
    return cards_of(seen, kept_before(queue, pod), seen.now, queue.slots.get(profile), profile)


def node_verdicts(
    pod: WholePod, nodes: Mapping[str, Node], pods: Iterable[WholePod] | Unreadable, added: tuple[Toleration, ...]
) -> tuple[NodeVerdict, ...]:
    """What the scheduler would say of each node, by name.

    `pods`: all of the cluster; where nobody may list them, no node fits for sure. `added`: what the pool adds.
    """
    own = pod.metadata.uid
    here: dict[str, list[WholePod]] = {name: [] for name in nodes}
    every = () if isinstance(pods, Unreadable) else pods
    others = [each for each in every if each.spec.node_name and each.metadata.uid != own]
    demands = Demands.of(pod, added, others)
    for each in others:
        if (found_here := here.get(each.spec.node_name or "")) is not None:
            found_here.append(each)
    found: list[NodeVerdict] = []
    for name in sorted(nodes):
        verdict = node_verdict(demands, nodes[name], None)
        if verdict.reason not in _BEFORE_PODS and not isinstance(pods, Unreadable):
            # Only here it matters what runs on the node, and to count that is most of the work.
            verdict = node_verdict(demands, nodes[name], NodeUse.of(here[name]))
        found.append(verdict)
    return tuple(found)


def kept_before(queue: Queue, pod: TenantPod) -> dict[str, ReservedForOthers]:
    """What of the nodes' free slots goes to others before the pod, by node.

    Of a pod with no place in the queue, which comes before it, nothing is kept for others.
    """
    own = queue.of(pod.key)
    if own is None or not is_queued(pod):
        return {}
    found = {node: ReservedForOthers(slots) for node, slots in queue.before.get(own.profile, {}).items()}
    for each in queue.waiters:
        if each.position is None or each.node is None or each.key == pod.key or each.profile != own.profile:
            continue
        if own.position is not None and each.position >= own.position:
            continue
        for node in each.node.split(", "):
            has = found.get(node, ReservedForOthers(0, each.position))
            more = each.units - queue.reserved.get(each.key, {}).get(node, 0)  # those are free to nobody as it is
            found[node] = ReservedForOthers(ALL if each.node_use == "kept" else has.slots + max(0, more), has.position)
    return found


def _since(seen: QueueSeen) -> dict[str, str]:
    """Since when kubelet has each pod that is on a node, by key."""
    return {pod.key: pod.status.start_time or "" for pod in seen.bound if isinstance(pod, SeenPod)}
