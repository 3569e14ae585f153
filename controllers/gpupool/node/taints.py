"""Taints of GPUPools on a Node: there while the node has cards of the pool, and removed after. Pure.

Which taints are ours an annotation of the node remembers, with the pool that wants them; it is
written together with them. A taint that is not in it, or that somebody gave another value, is
somebody else's: it stays, and stands in the way of ours of the same key and effect, since a
node has only one of them. Where pools want different values, the oldest pool's counts. The list
is written as a whole, on the version that was read (docs/dev/design.md, Taints of pools).

A taint is withheld while it would hurt a pod that was admitted before and does not tolerate it:
one that runs here, or is yet to come to a node of one of the pools. The webhook gives pods tolerations
for the taints that the pool wants by then (ADR 0020), so a taint that is new in the pool waits for the
pods that are older, and no longer. A pod between two turns, or behind a scheduling gate of others, holds
no reservation, and would find no node ever after; one behind ours gets its tolerations with its cards.
Where a reservation here is of a pod that has not appeared, nobody knows yet what that one tolerates. A taint
that is there in a former value stays meanwhile, so that at no moment the node is open to everybody: pods
tolerate that too as long as it stands (`domain.taints.tolerations`). Then one write exchanges them. Where
somebody comes who does not tolerate it, it is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import NODE
from controllers.domain.node_fit import tolerates
from controllers.domain.node_marks import is_ours, record_taints, taint_json, taint_marks
from controllers.domain.taints import wanted
from controllers.runtime.plan import EmitEvent, Merge, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import Reservation
    from controllers.api.gpupool import GPUPool, Taint
    from controllers.api.kube import Node, NodeTaint
    from controllers.api.tenant import TenantPod
    from controllers.domain.node_marks import Place, TaintMark

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
    are_cards_offered: bool = False
    """Whether the node has cards of pools, and plugins offer all of them: its startup taint has done its work."""


def plan_taints(view: ObservedTaints) -> Plan:
    """The plan for the taints of one node."""
    draft, node = PlanBuilder(), view.node
    desired, known = _desired_taints(view.pools), taint_marks(node)
    outdated = {(taint.key, taint.effect) for taint in node.spec.taints if _is_obsolete(taint, desired, known)}
    settled = {(taint.key, taint.effect) for taint in node.spec.taints} - outdated
    late = {
        place: why
        for place, (taint, _) in desired.items()
        if place not in settled and (why := _why_withheld(view, taint))
    }
    left = [
        one
        for one in node.spec.taints
        if ((one.key, one.effect) not in outdated or _stays_meanwhile(view, one, late)) and not _has_started(view, one)
    ]
    there = {(taint.key, taint.effect): taint.value for taint in left}
    ours = {place: pool for place, (value, pool) in known.items() if there.get(place) == value}
    taints, withheld = [taint_json(taint) for taint in left], list[EmitEvent]()
    for place, (taint, pool) in desired.items():
        if place in late:
            draft.requeue_within(LOOK_AGAIN)
            message = _withheld_message(taint, pool, late[place], there.get(place))
            withheld.append(EmitEvent(ref(NODE, node), "Normal", names.EVENT_TAINT_WITHHELD, message))
        elif place in there:
            if place in ours:
                ours[place] = pool  # another pool may want the same
        else:
            ours[place] = pool
            taints.append(taint_json(taint))
    record = record_taints(taints, ours)
    same = len(left) == len(node.spec.taints) == len(taints)
    if not same or record != node.metadata.annotations.get(names.POOL_TAINTS):
        body = {"metadata": {"annotations": {names.POOL_TAINTS: record}}, "spec": {"taints": taints or None}}
        draft.add(Merge(ref(NODE, node), node.metadata.resource_version, body))
    draft.add(*withheld)
    return draft.build()


def _desired_taints(pools: Iterable[GPUPool]) -> dict[Place, tuple[Taint, str]]:
    """The taints that pools ask for, each with the oldest pool that does."""
    desired: dict[Place, tuple[Taint, str]] = {}
    for pool in pools:
        for taint in wanted(pool):
            desired.setdefault((taint.key, taint.effect), (taint, pool.name))
    return desired


def _has_started(view: ObservedTaints, taint: NodeTaint) -> bool:
    """Whether a taint says that the node is starting, and it is not any more."""
    return taint.key == names.STARTUP_TAINT and view.are_cards_offered


def _is_obsolete(
    taint: NodeTaint, desired: Mapping[Place, tuple[Taint, str]], known: Mapping[Place, TaintMark]
) -> bool:
    """Whether a taint is ours, and no pool asks for it with this value."""
    place = (taint.key, taint.effect)
    return is_ours(taint, known) and (place not in desired or (desired[place][0].value or "") != taint.value)


def _stays_meanwhile(view: ObservedTaints, taint: NodeTaint, late: Mapping[Place, str]) -> bool:
    """Whether a taint of a former value stands until the one that is to follow it may come.

    Who has not appeared was given a toleration for it; of who has, it is looked at.
    """
    return (taint.key, taint.effect) in late and _pod_without_toleration(view, taint) is None


def _pod_without_toleration(view: ObservedTaints, taint: Taint | NodeTaint) -> TenantPod | None:
    """A pod that was admitted and that the taint would evict or keep off; None where there is none."""
    if taint.effect not in ("NoSchedule", "NoExecute"):
        return None
    pods = (*view.running, *view.coming) if taint.effect == "NoExecute" else view.coming
    return next((pod for pod in pods if not any(tolerates(one, taint) for one in pod.spec.tolerations)), None)


def _why_withheld(view: ObservedTaints, taint: Taint) -> str | None:
    """Why a taint waits: whom it would evict, or keep off the node; None where it can be added."""
    if taint.effect not in ("NoSchedule", "NoExecute"):
        return None
    if (pod := _pod_without_toleration(view, taint)) is not None:
        return f"pod {pod.metadata.namespace}/{pod.name} was admitted without a toleration for it"
    if not view.unseen:
        return None
    promise = view.unseen[0]
    return f"cards here are reserved for pod {promise.namespace}/{promise.pod}, which has not appeared yet"


def _withheld_message(taint: Taint, pool: str, why: str, there: str | None) -> str:
    meanwhile = f" Until then the node keeps its value {there!r}." if there is not None else ""
    return (
        f"Taint {taint.key}={taint.value or ''}:{taint.effect} of pool {pool} is not put on the node yet: {why},"
        f" and would lose its cards. The taint is put there once there is no such pod.{meanwhile}"
    )
