"""What must hold of pods that wait behind our scheduling gate, checked on every revision. Pure.

A pod goes on when all its cards are reserved, or where its pool lets pods go on without cards for an autoscaler; gates
of others are theirs; a namespace has no more than its limit. A pod is not let go on before an older one that would do
with the same cards, and that gpupool-controller had the time to see (`slack`). For a moment only, a gang is partly let
go on, and a pod behind a gate of others has a reservation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.gangs import GANG
from reliability.faults.eventual_invariants import overlap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reliability.faults.eventual_invariants import Span, Wrong
    from reliability.faults.trace import Objects, Revision

_NOW = float("-inf")


@dataclass(frozen=True, slots=True)
class Tenant:
    """What the rules ask of a pod that asks for cards."""

    uid: str
    key: str
    """`namespace/name`."""
    namespace: str
    pool: str
    units: int
    created: str
    request: str
    has_devices: bool
    gang: str
    gates: frozenset[str]
    is_over: bool
    """Whether it has ended or is being deleted."""

    @property
    def is_gated(self) -> bool:
        """Whether it has our gate."""
        return names.CARDS_GATE in self.gates

    @property
    def waits_alone(self) -> bool:
        """Whether cards are all that it waits for."""
        return self.gates == {names.CARDS_GATE} and not self.gang and not self.is_over


def tenant(pod: Mapping[str, Any]) -> Tenant | None:
    """A pod, in JSON; None of one that asks for no cards."""
    meta, spec = pod["metadata"], pod["spec"]
    annotations, pool = meta.get("annotations", {}), meta.get("labels", {}).get(names.LABEL_POOL, "")
    if not pool or names.REQUEST_ID not in annotations:
        return None
    limits = [container.get("resources", {}).get("limits", {}) for container in spec.get("containers", ())]
    return Tenant(
        uid=str(meta["uid"]),
        key=f"{meta['namespace']}/{meta['name']}",
        namespace=meta["namespace"],
        pool=pool,
        units=sum(int(each.get(names.resource_name(pool), 0)) for each in limits),
        created=meta.get("creationTimestamp", ""),
        request=annotations[names.REQUEST_ID],
        has_devices=names.DEVICES in annotations,
        gang=annotations.get(GANG, ""),
        gates=frozenset(gate["name"] for gate in spec.get("schedulingGates", ())),
        is_over="deletionTimestamp" in meta or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"),
    )


def tenants(state: Objects) -> Iterator[Tenant]:
    """All pods that ask for cards."""
    for (kind, _), obj in state.items():
        if kind == "Pod" and (found := tenant(obj)) is not None:
            yield found


class QueueInvariants:
    """Looks at each revision before it is taken into the state; knows since when each pod waits for cards alone."""

    def __init__(self, slack: float, away: Sequence[Span] = ()) -> None:
        """`slack`: seconds in which nobody needs to have seen that a pod waits, beside those in `away` (epoch)."""
        self._slack, self._away = slack, away
        self._since: dict[str, float] = {}

    def look(self, state: Objects, revision: Revision) -> list[str]:
        """What this revision breaks; `state` is that before it."""
        if revision.key[0] != "Pod":
            return []
        now, was = tenant(revision.object), state.get(revision.key)
        before = tenant(was) if was is not None and was["metadata"]["uid"] == revision.uid else None
        found: list[str] = []
        if now is None or revision.type == "DELETED" or not now.waits_alone:
            self._since.pop(revision.uid, None)
        else:
            self._since.setdefault(revision.uid, revision.at)
        if now is not None and before is not None and before.is_gated and not now.is_gated:
            if gone := sorted(before.gates - now.gates - {names.CARDS_GATE}):
                found.append(f"our gate went together with those of others: {', '.join(gone)}")
            found += [*self._unpaid(state, now), *self._overtaken(state, now, revision.at)]
        return found

    def _unpaid(self, state: Objects, pod: Tenant) -> Iterator[str]:
        """It was let go on without all its cards."""
        if not pod.has_devices:
            spec = state.get(("GPUPool", pod.pool), {}).get("spec", {})
            if "scaleUp" not in (spec.get("queue") or {}):
                yield "it was let go on without cards, and its pool lets none go on for an autoscaler"
            return
        reserved = Counter[str]()
        for status in _cards(state, pod.pool):
            slots = sum(held["slots"] for held in status.get("reservations", ()) if held["requestID"] == pod.request)
            reserved[status.get("nodeName", "")] += slots
        if max(reserved.values(), default=0) < pod.units:
            yield f"it was let go on with {dict(reserved)} of {pod.units} slots reserved for it"

    def _overtaken(self, state: Objects, pod: Tenant, at: float) -> Iterator[str]:
        """Another was first."""
        if pod.gang:
            return
        for other in tenants(state):
            alike = (other.namespace, other.pool, other.units) == (pod.namespace, pod.pool, pod.units)
            since = self._since.get(other.uid, at)
            if alike and other.waits_alone and other.created < pod.created:
                waited = at - since - overlap((since, at), self._away)
                if waited > self._slack:
                    yield f"it was let go on before {other.key}, which is older and has waited {waited:.1f} s"


def over_limit(state: Objects) -> list[str]:
    """Namespaces that have more of a pool than its spec allows: what pods that are there have, or have reserved."""
    pods = {pod.request: pod for pod in tenants(state)}
    there = {pod.uid for pod in pods.values()}
    found = []
    for (kind, name), obj in state.items():
        limits = {each["name"]: each["limit"] for each in _shares(kind, obj) if "limit" in each}
        if not limits:
            continue
        used = Counter[str]()
        for status in _cards(state, name):
            served = {entry["podUID"] for entry in status.get("allocations", ())}
            for entry in status.get("allocations", ()):
                used[entry["namespace"]] += entry["slots"] * (entry["podUID"] in there)
            for held in status.get("reservations", ()):
                holder = pods.get(held["requestID"])
                used[held["namespace"]] += held["slots"] * (holder is not None and holder.uid not in served)
        found += [
            f"namespace {namespace} has {used[namespace]} slots of pool {name}, whose limit for it is {limit}"
            for namespace, limit in limits.items()
            if used[namespace] > limit
        ]
    return found


def unsettled(state: Objects) -> dict[tuple[str, ...], Wrong]:
    """What may be so for a moment only: gangs of which a part waits, and cards reserved behind gates of others."""
    found: dict[tuple[str, ...], Wrong] = {}
    gangs: dict[tuple[str, ...], dict[str, bool]] = defaultdict(dict)
    reserved = {
        held["requestID"]
        for (kind, _), obj in state.items()
        if kind == "GPUDevice"
        for held in obj.get("status", {}).get("reservations", ())
    }
    for pod in tenants(state):
        if pod.gang and not pod.is_over:
            gangs[pod.namespace, pod.pool, pod.gang][pod.key] = pod.is_gated
        if (others := sorted(pod.gates - {names.CARDS_GATE})) and pod.request in reserved:
            found["foreign", pod.uid] = _NOW, f"{pod.key} has cards reserved behind {', '.join(others)}"
    for key, members in gangs.items():
        if len(set(members.values())) > 1:
            waiting = sorted(name for name, is_gated in members.items() if is_gated)
            found["torn", *key] = _NOW, f"of gang {key[2]} {', '.join(waiting)} wait, and others were let go on"
    return found


def _cards(state: Objects, pool: str) -> Iterator[Mapping[str, Any]]:
    """The statuses of a pool's cards."""
    for (kind, _), obj in state.items():
        status = obj.get("status", {})
        if kind == "GPUDevice" and (status.get("poolRef") or {}).get("name") == pool:
            yield status


def _shares(kind: str, obj: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """What a pool's queue says of namespaces."""
    if kind != "GPUPool":
        return ()
    found: Sequence[Mapping[str, Any]] = (obj["spec"].get("queue") or {}).get("namespaces", ())
    return found
