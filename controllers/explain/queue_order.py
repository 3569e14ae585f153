"""A pool's queue computed as gpupool-controller computes it, from pods, cards and nodes that were read. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.allocation import applied, offered_profiles
from controllers.domain.queue.entry import queue_entry
from controllers.domain.queue.gates import is_queued
from controllers.domain.queue.order import in_order
from controllers.domain.queue.policy import policy_of
from controllers.domain.queue.serve import Decision, Walk
from controllers.domain.queue.supply import node_slots, reserves_now
from controllers.domain.queue.usage import used_by_namespace
from controllers.domain.queue.whole_gangs import group_gangs
from controllers.explain.queue import (
    CLOSED,
    DENIED,
    GATES_OF_OTHERS,
    INCOMPLETE_GANG,
    PASSED,
    Queue,
    Waiter,
    limits_of,
    reported_reason,
    waiter,
)
from controllers.explain.queue_reserved import count_reserved, split_served
from controllers.explain.queue_seen import reservations_of
from controllers.explain.queue_walk import walk_of
from controllers.explain.records import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.tenant import TenantPod
    from controllers.domain.queue.entry import Entry
    from controllers.domain.queue.order import Ranked
    from controllers.explain.queue import NodeUse
    from controllers.explain.queue_seen import QueueSeen


def computed(seen: QueueSeen) -> Queue:
    """The queue of the pool."""
    pool, by_request = seen.pool.name, reservations_of(seen)
    pods = {pod.key: pod for pod in seen.pods if is_queued(pod)}
    queued, outside = _queued(seen, pods)
    entries, promised = split_served(seen, queued, by_request)
    profiles = dict.fromkeys([*offered_profiles(applied(seen.pool)), *(entry.profile for entry in entries)])
    slots = {profile: node_slots(seen, seen.now, profile) for profile in profiles}
    walks, before = dict[str | None, Walk](), dict[str | None, dict[str, int]]()
    for profile in () if isinstance(seen.nodes_read, Unreadable) else profiles:
        walks[profile], before[profile] = walk_of(seen, slots[profile], profile)
    used = used_by_namespace(pool, seen.members, seen.bound, seen.now)
    waiters = [
        *(_waiter_reserved(seen, pods[key], node) for key, node in promised.items()),
        *_placed(seen, walks, in_order(entries, used, policy_of(seen.pool)), pods),
        *(waiter(pods[key], pool, outside[key]) for key in sorted(outside, key=lambda key: _age(pods[key]))),
    ]
    return Queue(
        pool=pool,
        waiters=tuple(waiters),
        total=sum(len(entry.members) for entry in entries),
        units=sum(entry.units for entry in entries),
        oldest=min((entry.created for entry in entries), default=None),
        used=used,
        limits=limits_of(seen.pool, waiters),
        before=before,
        reserved=count_reserved(entries, by_request),
        slots=slots,
        limitations=(seen.nodes_read.reason,) if isinstance(seen.nodes_read, Unreadable) else (),
    )


def _queued(seen: QueueSeen, pods: Mapping[str, TenantPod]) -> tuple[list[Entry], dict[str, str]]:
    """The entries that the pods make, gangs as one; and why others have no place, by the pod's key."""
    entries: list[Entry] = []
    outside: dict[str, str] = {}
    for key, pod in pods.items():
        entry = queue_entry(pod, seen.pool.name, seen.tolerated)
        if entry is None:
            outside[key] = GATES_OF_OTHERS
        elif reported_reason(pod) == DENIED:
            outside[key] = DENIED
        else:
            entries.append(entry)
    whole, incomplete = group_gangs(pods, seen.pods, entries)
    return whole, outside | dict.fromkeys(incomplete, INCOMPLETE_GANG)


def _waiter_reserved(seen: QueueSeen, pod: TenantPod, node: str) -> Waiter:
    """One whose cards are reserved, and that is released next."""
    return waiter(pod, seen.pool.name, _reason(pod, "Waiting"), node=node, node_use="reserved")


def _placed(
    seen: QueueSeen, walks: Mapping[str | None, Walk], ranked: Iterable[Ranked], pods: Mapping[str, TenantPod]
) -> Iterable[Waiter]:
    """The entries at their places."""
    is_open, ahead = reserves_now(seen.pool), 0
    for at, each in enumerate(ranked, start=1):
        found = Decision(each.entry, outcome="OverLimit" if each.over_limit else "Waiting")
        if (walk := walks.get(each.entry.profile)) is not None and is_open:
            found = walk.decide(each)
        nodes = {member.key: placement.node for member, placement in found.placements}
        for member in each.entry.members:
            reason = _reason(pods[member.key], found.outcome) if is_open else CLOSED
            node, use = _node_of(found, nodes.get(member.key))
            pod = pods[member.key]
            yield waiter(pod, seen.pool.name, reason, position=at, ahead=ahead, node=node, node_use=use)
        ahead += 0 if found.outcome in PASSED else each.entry.units


def _node_of(found: Decision, node: str | None) -> tuple[str | None, NodeUse | None]:
    """The node on which a pod is served now, or those of which free slots are kept for it."""
    if node is not None:
        return node, "free"
    return (", ".join(found.kept_nodes), "kept") if found.kept_nodes else (None, None)


def _reason(pod: TenantPod, computed_reason: str) -> str:
    """What the pod's condition says; but where the gates or the pool are otherwise by now."""
    told = reported_reason(pod)
    return told if told is not None and told not in (GATES_OF_OTHERS, CLOSED) else computed_reason


def _age(pod: TenantPod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp, pod.key
