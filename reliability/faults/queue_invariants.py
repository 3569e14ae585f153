"""What must hold of pods that wait behind our scheduling gate, checked on every revision. Pure.

A pod is released when all its cards are reserved, or where its pool releases pods without cards for an autoscaler; our
gate never goes together with one of others; a namespace has no more than its limit. A pod is not released before an
older one of its namespace that needs no more, and that gpupool-controller had the time to see (`slack`). For a moment
only, a gang is partly released, and a pod behind a gate of others has a reservation.

The order between namespaces is not replayed: property tests of `controllers.domain.queue` are about it. Policy
`gpu-control-plane-pod-gate` refuses that one of ours takes off a gate of others alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.gangs import GANG
from controllers.domain.clock import seconds
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
    priority: int
    devices: frozenset[str]
    """The inventoryIDs that its annotation names."""
    gang: str
    gates: frozenset[str]
    is_denied: bool
    """Whether its release was refused, so that others come first."""
    is_over: bool
    """Whether it has ended or is being deleted."""

    @property
    def is_gated(self) -> bool:
        """Whether it has our gate."""
        return names.CARDS_GATE in self.gates

    @property
    def waits_alone(self) -> bool:
        """Whether cards are all that it waits for."""
        return self.gates == {names.CARDS_GATE} and not (self.gang or self.is_denied or self.is_over)


def tenant(pod: Mapping[str, Any]) -> Tenant | None:
    """A pod, in JSON; None of one that asks for no cards."""
    meta, spec = pod["metadata"], pod["spec"]
    annotations, pool = meta.get("annotations", {}), meta.get("labels", {}).get(names.LABEL_POOL, "")
    if not pool or names.REQUEST_ID not in annotations:
        return None
    limits = [container.get("resources", {}).get("limits", {}) for container in spec.get("containers", ())]
    said = [c for c in pod.get("status", {}).get("conditions", ()) if c["type"] == names.QUEUED]
    return Tenant(
        uid=str(meta["uid"]),
        key=f"{meta['namespace']}/{meta['name']}",
        namespace=meta["namespace"],
        pool=pool,
        units=sum(int(each.get(names.resource_name(pool), 0)) for each in limits),
        created=meta.get("creationTimestamp", ""),
        request=annotations[names.REQUEST_ID],
        priority=spec.get("priority", 0),
        devices=frozenset(filter(None, annotations.get(names.DEVICES, "").split(","))),
        gang=annotations.get(GANG, ""),
        gates=frozenset(gate["name"] for gate in spec.get("schedulingGates", ())),
        is_denied=any(condition["reason"] == "ReleaseDenied" for condition in said),
        is_over="deletionTimestamp" in meta or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"),
    )


def tenants(state: Objects) -> Iterator[Tenant]:
    """All pods that ask for cards."""
    for (kind, _), obj in state.items():
        if kind == "Pod" and (found := tenant(obj)) is not None:
            yield found


class QueueInvariants:
    """Looks at each revision before it is taken into the state; knows since when each pod waits for cards alone."""

    def __init__(self, slack: float, away: Sequence[Span] = (), behind: float = 0.0) -> None:
        """`slack`: seconds in which nobody needs to have seen that a pod waits, beside those in `away` (epoch).

        `behind`: seconds by which the clock may be behind that dates reservations.
        """
        self._slack, self._away, self._behind = slack, away, behind
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
            found += [*self._unreserved(state, now, revision.at), *self._overtaken(state, now, revision.at)]
        return found

    def _unreserved(self, state: Objects, pod: Tenant, at: float) -> Iterator[str]:
        """It was released without all its cards."""
        if not pod.devices:
            spec = state.get(("GPUPool", pod.pool), {}).get("spec", {})
            if "scaleUp" not in (spec.get("queue") or {}):
                yield "it was released without cards, and its pool releases none for an autoscaler"
            return
        slots, cards = Counter[str](), set[str]()
        for status in _cards(state, pod.pool):
            for held in status.get("reservations", ()):
                ends = seconds(held["expiresAt"]) + self._behind
                if held["requestID"] == pod.request and ends + self._slack >= at:
                    slots[status.get("nodeName", "")] += held["slots"]
                    cards.add(status.get("inventoryID", ""))
        if max(slots.values(), default=0) < pod.units:
            yield f"it was released with {dict(slots)} of {pod.units} slots reserved for it"
        elif cards != pod.devices:
            yield f"it was released for {sorted(pod.devices)}, and {sorted(cards)} are reserved for it"

    def _overtaken(self, state: Objects, pod: Tenant, at: float) -> Iterator[str]:
        """Another was first: whatever is free for this one would do for it."""
        if pod.gang:
            return
        for other in tenants(state):
            alike = (other.namespace, other.pool) == (pod.namespace, pod.pool)
            first = other.created < pod.created and other.priority >= pod.priority and other.units <= pod.units
            since = self._since.get(other.uid, at)
            if alike and first and other.waits_alone:
                waited = at - since - overlap((since, at), self._away)
                if waited > self._slack:
                    yield f"it was released before {other.key}, which is older and has waited {waited:.1f} s"


def over_limit(state: Objects) -> list[str]:
    """Namespaces that have more of a pool than its spec allows: what pods that are there have, or have reserved."""
    found = []
    for (kind, name), obj in state.items():
        shares = {each["name"]: each for each in _shares(kind, obj)}
        if not any("limit" in each for each in shares.values()):
            continue
        used = Counter[str]()
        for pod in tenants(state):
            if not pod.is_over:
                used[pod.namespace] += _taken(state, name, pod)
        for namespace, slots in used.items():
            limit = (shares.get(namespace) or shares.get("*") or {}).get("limit")
            if limit is not None and slots > limit:
                found.append(f"namespace {namespace} has {slots} slots of pool {name}, whose limit for it is {limit}")
    return found


def _taken(state: Objects, pool: str, pod: Tenant) -> int:
    """Slots of a pool that a pod has, or has reserved: kubelet may give it other cards than those that are reserved."""
    allocated = reserved = 0
    for status in _cards(state, pool):
        allocated += sum(one["slots"] for one in status.get("allocations", ()) if one["podUID"] == pod.uid)
        reserved += sum(one["slots"] for one in status.get("reservations", ()) if one["requestID"] == pod.request)
    return max(allocated, reserved)


def unsettled(state: Objects) -> dict[tuple[str, ...], Wrong]:
    """What may be so for a moment only: gangs that are partly released, and cards reserved behind gates of others."""
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
            gangs[pod.namespace, pod.pool, pod.gang][pod.key] = bool(pod.gates)
        if (others := sorted(pod.gates - {names.CARDS_GATE})) and pod.request in reserved:
            found["foreign", pod.uid] = _NOW, f"{pod.key} has cards reserved behind {', '.join(others)}"
    for key, members in gangs.items():
        if len(set(members.values())) > 1:
            waiting = sorted(name for name, waits in members.items() if waits)
            found["torn", *key] = _NOW, f"of gang {key[2]} {', '.join(waiting)} wait, and others were released"
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
