"""The page Pod: why a pod waits, or where its cards are; without a name all pods that ask for cards. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.views.common import cells_of, explanation_row, less, missing, notes
from console.views.queues import observed_queue, queue_seen
from console.views.verdicts import OTHERS, is_unseen, nodes_of, verdict_rows
from controllers.domain.named_devices import named_devices
from controllers.domain.queue.gates import is_queued
from controllers.domain.request import units_by_pool, units_of
from controllers.explain import pod as explain
from controllers.explain.misfit import explain_misfit
from controllers.explain.pod_verdict import verdict_of
from controllers.explain.queue import reported_reason
from controllers.explain.queue_table import pool_of
from controllers.explain.records import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.pods import ShownPod
    from console.records import Row, Seen
    from controllers.api.gpudevice import GPUDevice
    from controllers.explain.queue import Queue
    from controllers.explain.queue_seen import QueueSeen


def rows(seen: Seen, params: Mapping[str, str], now: float) -> Mapping[str, Row]:
    """`pod`, then a row for each node and card of its pool; parameters `namespace` and `pod`."""
    namespace, name = cells_of(params, "namespace", "pod")
    if not name:
        every = {f"pod/{key}": _pod(pod) for key, pod in sorted(seen.pods.items()) if not pod.finished}
        return every | notes(seen, "Pod")
    key = f"{namespace}/{name}"
    found = seen.pods.get(key)
    if found is None:
        gone = missing("Pod", key, seen.pods) if seen.may_read(namespace) else _forbidden(namespace)
        return notes(seen, "Pod") | gone
    queue = _queue(found, pool_of(found), seen, now)
    row = _pod(found) | explanation_row(explain.explained(_observed(found, seen, queue, now)), seen)
    verdicts = _verdicts(found, seen, queue, now)
    if is_unseen(verdicts):
        row["unread"] = [*row.get("unread", ()), OTHERS]
    return {"pod": row} | verdicts | notes(seen, "GPUDevice", "Node", "GPUPool")


def _forbidden(namespace: str) -> dict[str, Row]:
    """The same whether or not there is such a pod; rights are known of namespaces that have some."""
    text = f"You may not read pods of {namespace}, or none of them asks for cards."
    return {"?/Pod": {"kind": "refused", "of": "Pod", "text": text}}


@dataclass(frozen=True, slots=True)
class _Queue:
    """The queue of a pod's pool, and what it was computed from."""

    objects: QueueSeen
    queue: Queue


def _queue(pod: ShownPod, name: str, seen: Seen, now: float) -> _Queue | None:
    """Of a pool that a pod on no node yet asks for; None of other pods, and where there is no such pool."""
    pool = seen.pools.get(name)
    if pool is None or pod.node is not None or pod.finished:
        return None
    return _Queue(queue_seen(pool, seen, now, every_node=True), observed_queue(pool, seen, now))


def _verdicts(pod: ShownPod, seen: Seen, first: _Queue | None, now: float) -> dict[str, Row]:
    """What each card and node of its pool is to a pod on none yet; nothing where cards or nodes may not be read.

    One that came past the webhook may ask for several pools: `first` is the queue of the one that admitted it.
    """
    if first is None or "GPUDevice" in seen.refused:
        return {}
    others = sorted(units_by_pool(pod).keys() - {first.queue.pool})
    found: dict[str, Row] = {}
    for queue in (first, *(_queue(pod, name, seen, now) for name in others)):
        if queue is None:
            continue
        verdict = verdict_of(queue.objects, queue.queue, pod, nodes_of(pod, queue.objects))
        if verdict is not None:
            found |= verdict_rows(verdict, seen, verdict.pool if others else None)
    return found


def _pod(pod: ShownPod) -> Row:
    pool = pool_of(pod)
    phase = "Deleting" if pod.metadata.deletion_timestamp is not None else pod.status.phase
    return less(
        kind="pod",
        namespace=pod.metadata.namespace,
        pod=pod.name,
        pool=pool,
        units=units_of(pod, pool),
        phase=phase,
        node=pod.node,
        reason=reported_reason(pod) if is_queued(pod) else None,
        since=pod.metadata.creation_timestamp,
    )


def _observed(pod: ShownPod, seen: Seen, queue: _Queue | None, now: float) -> explain.PodSeen:
    """The pod with all that its cards depend on; events are not watched, and are nothing that is missing here."""
    name = pool_of(pod)
    pool = seen.pools.get(name)
    refused = {kind: Unreadable(why) for kind, why in seen.refused.items()}
    where = pod.node or next((card.status.node_name for card in _promised(pod, seen)), None) or ""
    waits = queue if is_queued(pod) else None
    return explain.PodSeen(
        pod=pod,
        pool=refused.get("GPUPool") or pool,
        cards=refused.get("GPUDevice") or tuple(c for c in seen.cards.values() if c.home == name),
        node=refused.get("Node") or seen.nodes.get(where),
        inventory=refused.get("GPUNodeInventory") or seen.inventories.get(where),
        events=(),
        now=now,
        queue=waits.queue if waits is not None else None,
        misfit=explain_misfit(waits.objects, pod) if waits is not None else "",
        is_kept=True,
    )


def _promised(pod: ShownPod, seen: Seen) -> list[GPUDevice]:
    named = set(named_devices(pod))
    return [card for card in seen.cards.values() if card.status.inventory_id in named] if named else []
