"""The pools' taints on a node: put there while the node has cards of the pool, and taken off after. Pure.

Which taints are ours an annotation of the node remembers, with the pool that wants them; it is
written together with them. A taint that is not in it, or that somebody gave another value, is
somebody else's: it stays, and stands in the way of ours of the same key and effect, since a
node has only one of them. Where pools want different values, the oldest pool's counts. The list
is written as a whole, on the version that was read (design §2.5, §3).

A taint is withheld while it would hurt a pod that was admitted before: one that runs here, or
whose cards here are reserved, and does not tolerate it. The webhook gives tolerations only for
taints that are there, so a pool's first pods may come without.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.resources import NODE
from controllers.domain.fits import tolerates
from controllers.domain.lifecycle import live
from controllers.gpupool.observe import BY_NODE, BY_REQUEST
from controllers.install.dismantle import Place, is_ours, remembered
from controllers.install.dismantle import taint_json as _json
from controllers.runtime.plan import Draft, Merge, Note, Plan, ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpupool import GPUPool, Taint
    from controllers.api.kube import Node, NodeTaint
    from controllers.api.tenant import TenantPod
    from controllers.gpupool.observe import World

LOOK_AGAIN = 5.0
"""Seconds after which a withheld taint is considered anew."""
KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that say how a node is belong to Kubernetes' own controllers."""


@dataclass(frozen=True, slots=True)
class ObservedTaints:
    """A node with what decides about its taints."""

    node: Node
    pools: tuple[GPUPool, ...]
    """Pools that have cards here, oldest first; none while the module is disabled."""
    running: tuple[TenantPod, ...] = ()
    """Pods with cards that run here."""
    coming: tuple[TenantPod, ...] = ()
    """Unbound pods for which cards are reserved here."""


def observe(world: World, name: str, now: float) -> ObservedTaints | None:
    """The view of a node; None where no taint is wanted or remembered, as on most nodes."""
    node = world.nodes.get(name)
    if node is None or node.metadata.deletion_timestamp is not None:
        return None
    devices = world.devices.by(BY_NODE, name)
    here = {device.status.pool_ref.name for device in devices if device.status.pool_ref is not None}
    pools = [pool for pool in map(world.pools.get, here) if pool is not None and world.enabled]
    if names.POOL_TAINTS not in node.metadata.annotations and not any(map(_taints, pools)):
        return None
    requests = {r.request_id for device in devices for r in device.status.reservations if live(r, now)}
    coming = (pod for request in requests for pod in world.pods.by(BY_REQUEST, request) if pod.node is None)
    return ObservedTaints(
        node=node,
        pools=tuple(sorted(pools, key=lambda pool: (pool.metadata.creation_timestamp, pool.name))),
        running=tuple(pod for pod in world.pods.by(BY_NODE, name) if not pod.finished),
        coming=tuple(coming),
    )


def plan(seen: ObservedTaints) -> Plan:
    """Plan for the taints of one node."""
    draft, node = Draft(), seen.node
    wanted, known = _wanted(seen.pools), remembered(node)
    left = [taint for taint in node.spec.taints if not _goes(taint, wanted, known)]
    there = {(taint.key, taint.effect): taint.value for taint in left}
    ours = {place: pool for place, (value, pool) in known.items() if there.get(place) == value}
    taints, withheld = [_json(taint) for taint in left], list[Note]()
    for place, (taint, pool) in wanted.items():
        if place in there:
            if place in ours:
                ours[place] = pool  # another pool may want the same
            continue
        if (pod := _hurt(seen, taint)) is not None:
            draft.look_again(LOOK_AGAIN)
            withheld.append(Note(ref(NODE, node), "Normal", names.EVENT_TAINT_WITHHELD, _sentence(taint, pool, pod)))
            continue
        ours[place] = pool
        taints.append(_json(taint))
    record = _record(taints, ours)
    same = len(left) == len(node.spec.taints) == len(taints)
    if not same or record != node.metadata.annotations.get(names.POOL_TAINTS):
        body = {"metadata": {"annotations": {names.POOL_TAINTS: record}}, "spec": {"taints": taints or None}}
        draft.add(Merge(ref(NODE, node), node.metadata.resource_version, body))
    draft.add(*withheld)
    return draft.done()


def _taints(pool: GPUPool) -> tuple[Taint, ...]:
    return pool.spec.scheduling.taints if pool.spec.scheduling is not None else ()


def _wanted(pools: Iterable[GPUPool]) -> dict[Place, tuple[Taint, str]]:
    """What the pools want, each with the pool that has the say."""
    made: dict[Place, tuple[Taint, str]] = {}
    for pool in pools:
        for taint in _taints(pool):
            if not taint.key.startswith(KUBERNETES):
                made.setdefault((taint.key, taint.effect), (taint, pool.name))
    return made


def _record(taints: list[dict[str, Any]], ours: Mapping[Place, str]) -> str | None:
    entries = [
        {"key": taint["key"], "value": taint.get("value", ""), "effect": taint["effect"], "pool": pool}
        for taint in taints
        if (pool := ours.get((taint["key"], taint["effect"]))) is not None
    ]
    return json.dumps(sorted(entries, key=lambda entry: (entry["key"], entry["effect"]))) if entries else None


def _goes(taint: NodeTaint, wanted: Mapping[Place, tuple[Taint, str]], known: Mapping[Place, tuple[str, str]]) -> bool:
    """Whether it is ours and no longer wanted as it is."""
    place = (taint.key, taint.effect)
    return is_ours(taint, known) and (place not in wanted or (wanted[place][0].value or "") != taint.value)


def _hurt(seen: ObservedTaints, taint: Taint) -> TenantPod | None:
    """A pod that was admitted and that the taint would evict, or keep off the node of its cards."""
    pods = {"NoExecute": (*seen.running, *seen.coming), "NoSchedule": seen.coming}.get(taint.effect, ())
    return next((pod for pod in pods if not any(tolerates(one, taint) for one in pod.spec.tolerations)), None)


def _sentence(taint: Taint, pool: str, pod: TenantPod) -> str:
    return (
        f"Taint {taint.key}={taint.value or ''}:{taint.effect} of pool {pool} is not put on the node yet:"
        f" pod {pod.metadata.namespace}/{pod.name} was admitted without a toleration for it and would lose its cards."
        " It is put there once such pods have ended."
    )
