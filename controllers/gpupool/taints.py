"""The pools' taints on a node: put there while the node has cards of the pool, and taken off after. Pure.

Which taints are ours an annotation of the node remembers, with the pool that wants them; it is
written together with them. A taint that is not in it, or that somebody gave another value, is
somebody else's: it stays, and stands in the way of ours of the same key and effect, since a
node has only one of them. Where pools want different values, the oldest pool's counts. The list
is written as a whole, on the version that was read (docs/design.md, Taints of pools).

A taint is withheld while it would hurt a pod that was admitted before and does not tolerate it:
one that runs here, or is yet to come to a node of one of the pools. The webhook gives pods tolerations
for the taints that the pool wants by then (ADR 0020), so a taint that is new in the pool waits for the
pods that are older, and no longer. A pod between two turns or behind a scheduling gate holds no
reservation, and would find no node ever after. Where a reservation here is of a pod that has not
appeared, nobody knows yet what that one tolerates. A taint that is there in a former value stays meanwhile, so that
at no moment the node is open to everybody: pods tolerate that too as long as it stands (`domain.taints.tolerations`).
Then one write exchanges them. Where somebody comes who does not tolerate it, it is taken off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.resources import NODE
from controllers.domain.lifecycle import live
from controllers.domain.node_fit import tolerates
from controllers.domain.taints import Place, is_ours, remembered, wanted
from controllers.gpupool.observe import BY_NODE, BY_REQUEST, UNBOUND
from controllers.install.dismantle import taint_json as _json
from controllers.runtime.plan import EmitEvent, Merge, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import Reservation
    from controllers.api.gpupool import GPUPool, Taint
    from controllers.api.kube import Node, NodeTaint
    from controllers.api.tenant import TenantPod
    from controllers.gpupool.observe import World

LOOK_AGAIN = 5.0
"""Seconds after which a withheld taint is considered anew."""


@dataclass(frozen=True, slots=True)
class ObservedTaints:
    """A node with what decides about its taints."""

    node: Node
    pools: tuple[GPUPool, ...]
    """Pools that have cards here, oldest first; none while the module is disabled."""
    running: tuple[TenantPod, ...] = ()
    """Pods with cards that run here."""
    coming: tuple[TenantPod, ...] = ()
    """Unbound pods of these pools, and those for which cards are reserved here."""
    unseen: tuple[Reservation, ...] = ()
    """Live reservations here whose pods have not appeared."""


def observe(world: World, name: str, now: float) -> ObservedTaints | None:
    """The view of a node; None where no taint is wanted or remembered, as on most nodes."""
    node = world.nodes.get(name)
    if node is None or node.metadata.deletion_timestamp is not None:
        return None
    devices = world.devices.by(BY_NODE, name)
    here = {device.home for device in devices if device.home is not None}
    pools = [pool for pool in map(world.pools.get, here) if pool is not None and world.enabled]
    if names.POOL_TAINTS not in node.metadata.annotations and not any(map(wanted, pools)):
        return None
    held = [r for device in devices for r in device.status.reservations if live(r, now)]
    promised = {r.request_id: world.pods.by(BY_REQUEST, r.request_id) for r in held}
    waiting = [pod for pool in pools for pod in world.pods.by(UNBOUND, pool.name)]
    coming = {pod.key: pod for pods in (waiting, *promised.values()) for pod in pods if _comes(pod)}
    return ObservedTaints(
        node=node,
        pools=tuple(sorted(pools, key=lambda pool: (pool.metadata.creation_timestamp, pool.name))),
        running=tuple(pod for pod in world.pods.by(BY_NODE, name) if not pod.finished),
        coming=tuple(coming.values()),
        unseen=tuple(r for r in held if not promised[r.request_id]),
    )


def plan(seen: ObservedTaints) -> Plan:
    """Plan for the taints of one node."""
    draft, node = PlanBuilder(), seen.node
    wishes, known = _wishes(seen.pools), remembered(node)
    outdated = {(taint.key, taint.effect) for taint in node.spec.taints if _goes(taint, wishes, known)}
    settled = {(taint.key, taint.effect) for taint in node.spec.taints} - outdated
    late = {place: why for place, (taint, _) in wishes.items() if place not in settled and (why := _hurts(seen, taint))}
    left = [one for one in node.spec.taints if (one.key, one.effect) not in outdated or _stays(seen, one, late)]
    there = {(taint.key, taint.effect): taint.value for taint in left}
    ours = {place: pool for place, (value, pool) in known.items() if there.get(place) == value}
    taints, withheld = [_json(taint) for taint in left], list[EmitEvent]()
    for place, (taint, pool) in wishes.items():
        if place in late:
            draft.requeue_within(LOOK_AGAIN)
            said = _sentence(taint, pool, late[place], there.get(place))
            withheld.append(EmitEvent(ref(NODE, node), "Normal", names.EVENT_TAINT_WITHHELD, said))
        elif place in there:
            if place in ours:
                ours[place] = pool  # another pool may want the same
        else:
            ours[place] = pool
            taints.append(_json(taint))
    record = _record(taints, ours)
    same = len(left) == len(node.spec.taints) == len(taints)
    if not same or record != node.metadata.annotations.get(names.POOL_TAINTS):
        body = {"metadata": {"annotations": {names.POOL_TAINTS: record}}, "spec": {"taints": taints or None}}
        draft.add(Merge(ref(NODE, node), node.metadata.resource_version, body))
    draft.add(*withheld)
    return draft.build()


def _wishes(pools: Iterable[GPUPool]) -> dict[Place, tuple[Taint, str]]:
    """What the pools want, each with the pool that has the say."""
    made: dict[Place, tuple[Taint, str]] = {}
    for pool in pools:
        for taint in wanted(pool):
            made.setdefault((taint.key, taint.effect), (taint, pool.name))
    return made


def _record(taints: list[dict[str, Any]], ours: Mapping[Place, str]) -> str | None:
    entries = [
        {"key": taint["key"], "value": taint.get("value", ""), "effect": taint["effect"], "pool": pool}
        for taint in taints
        if (pool := ours.get((taint["key"], taint["effect"]))) is not None
    ]
    return json.dumps(sorted(entries, key=lambda entry: (entry["key"], entry["effect"]))) if entries else None


def _goes(taint: NodeTaint, wishes: Mapping[Place, tuple[Taint, str]], known: Mapping[Place, tuple[str, str]]) -> bool:
    """Whether it is ours and no longer wanted as it is."""
    place = (taint.key, taint.effect)
    return is_ours(taint, known) and (place not in wishes or (wishes[place][0].value or "") != taint.value)


def _comes(pod: TenantPod) -> bool:
    """Whether it may yet be bound."""
    return pod.node is None and not pod.finished and pod.metadata.deletion_timestamp is None


def _stays(seen: ObservedTaints, taint: NodeTaint, late: Mapping[Place, str]) -> bool:
    """Whether a taint of a former value stands until the one that is to follow it may come.

    Who has not appeared was given a toleration for it; of who has, it is looked at.
    """
    return (taint.key, taint.effect) in late and _shuts_out(seen, taint) is None


def _shuts_out(seen: ObservedTaints, taint: Taint | NodeTaint) -> TenantPod | None:
    """One who was admitted and does not tolerate the taint, if there is any who minds."""
    if taint.effect not in ("NoSchedule", "NoExecute"):
        return None
    pods = (*seen.running, *seen.coming) if taint.effect == "NoExecute" else seen.coming
    return next((pod for pod in pods if not any(tolerates(one, taint) for one in pod.spec.tolerations)), None)


def _hurts(seen: ObservedTaints, taint: Taint) -> str | None:
    """Whom of those who were admitted the taint would evict, or keep off the node; None where it hurts nobody."""
    if taint.effect not in ("NoSchedule", "NoExecute"):
        return None
    if (pod := _shuts_out(seen, taint)) is not None:
        return f"pod {pod.metadata.namespace}/{pod.name} was admitted without a toleration for it"
    if not seen.unseen:
        return None
    promise = seen.unseen[0]
    return f"cards here are reserved for pod {promise.namespace}/{promise.pod}, which has not appeared yet"


def _sentence(taint: Taint, pool: str, why: str, there: str | None) -> str:
    meanwhile = f" Until then the node keeps its value {there!r}." if there is not None else ""
    return (
        f"Taint {taint.key}={taint.value or ''}:{taint.effect} of pool {pool} is not put on the node yet: {why},"
        f" and would lose its cards. The taint is put there once there is no such pod.{meanwhile}"
    )
