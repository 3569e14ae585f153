"""What must hold of nodes whose driver is replaced, checked on every revision. Pure.

No more nodes are out of service for a driver's sake than its budget says, in any group; nobody is begun with a revision
that is known to be bad, in a wave with one that is not proved, or while nothing may be begun; nobody gets a card of a
node that is leaving service; and the fuse of unplanned outages is not used up by planned ones. Pods are asked to leave
only where they have to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reliability.faults.trace import Objects, Revision

Found = list[str]
OUT: Final = frozenset(
    (
        *("Withdrawing", "Draining", "Clearing", "Removing", "Installing", "Validating", "Relayout", "Returning"),
        "HandedOver",
    )
)
"""Phases of work for which the node is out of service."""
EMPTIED: Final = frozenset(("Draining", "Clearing", "Removing", "Installing", "HandedOver"))
"""Phases in which a node's cards are offered by nobody."""
INVENTORY: Final = "GPUNodeInventory"
READY: Final = "ReadyForPooling"


@dataclass
class RolloutInvariants:
    """Of one trace. `slack`: seconds for which a start that was decided before may be under way."""

    slack: float
    _stopped: dict[tuple[str, ...], float] = field(default_factory=dict)
    """When it was first told that nothing may be started: by driver, revision and kind of node."""

    def look(self, state: Objects, revision: Revision) -> Found:
        """What this revision breaks; `state` is that before it."""
        kind, name = revision.key
        gone = revision.type == "DELETED"
        if kind == "GPUDriver":
            self._note(name, {} if gone else revision.object, revision.at)
        if gone:
            return []
        if kind == INVENTORY:
            return self._start(state, revision)
        if kind == "GPUDevice":
            return _reserved(state, revision)
        return _fuse(state, revision) if kind == "Event" else []

    def _note(self, name: str, driver: Mapping[str, Any], at: float) -> None:
        said = set(_stops(name, driver))
        for key in [key for key in self._stopped if key[0] == name and key not in said]:
            del self._stopped[key]
        for key in said:
            self._stopped.setdefault(key, at)

    def _start(self, state: Objects, revision: Revision) -> Found:
        """A node is taken out of service."""
        name, now = revision.key[1], _work(revision.object)
        if not _is_out(now) or _is_out(_work(state.get(revision.key, {}))):
            return []
        after = {**state, revision.key: revision.object}
        return [*_budgets(after, name, now), *self._against(now, revision.at), *_unproved(state, now)]

    def _against(self, work: Mapping[str, Any], at: float) -> Iterator[str]:
        """Why it should not have been."""
        driver, to = work["driver"], revision_of(work.get("to"))
        asked: list[tuple[str, ...]] = [(driver, "paused")]
        if not work.get("undoes") and not work.get("handOver"):
            asked += [(driver, "bad", to, ""), (driver, "bad", to, str(work.get("stratum")))]
        for key in asked:
            since = self._stopped.get(key)
            if since is not None and at - since > self.slack:
                yield f"it is taken out of service, {' '.join(filter(None, key))} for {at - since:.1f} s"


def _unproved(state: Objects, work: Mapping[str, Any]) -> Iterator[str]:
    """A node is begun in a wave after the canary although no node has shown the revision to be good."""
    wanted = revision_of(work.get("to"))
    if not work.get("wave") or work.get("undoes") or work.get("handOver"):
        return
    ended = (obj.get("status", {}).get("lastDriverWork") or {} for (kind, _), obj in state.items() if kind == INVENTORY)
    shown = any((one.get("revision"), one.get("result")) == (wanted, "Good") for one in ended)
    driver = state.get(("GPUDriver", work["driver"]), {}).get("status", {})
    known = (one for one in driver.get("revisions", ()) if one["hash"] == wanted)
    told = any(stratum["result"] == "Good" for one in known for stratum in one.get("strata", ()))
    if not (shown or told):
        yield f"it is taken out of service in wave {work['wave']}, and revision {wanted} is proved on no node"


def _stops(name: str, driver: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    if driver.get("spec", {}).get("rollout", {}).get("paused"):
        yield (name, "paused")
    for known in driver.get("status", {}).get("revisions", ()):
        if known.get("halted"):
            yield (name, "bad", known["hash"], "")
        for stratum in known.get("strata", ()):
            if stratum["result"] == "Bad":
                yield (name, "bad", known["hash"], stratum["key"])


def _budgets(state: Objects, name: str, work: Mapping[str, Any]) -> Iterator[str]:
    """What is out of service with this node, in each of its groups."""
    driver = state.get(("GPUDriver", work["driver"]))
    most = driver.get("spec", {}).get("rollout", {}).get("maxUnavailable", {}) if driver is not None else {}
    if not most:
        return
    own = {node for node, known in _works(state).items() if known.get("driver") == work["driver"]}
    total = (driver or {}).get("status", {}).get("counts", {}).get("nodes", 0)
    out = {node for node, known in _works(state).items() if _is_out(known)}
    groups = [(f"driver {work['driver']}", own & out, max(total, len(own)), most.get("nodes"))]
    groups += [
        (f"pool {pool}", nodes & out, len(nodes), most.get("perPool"))
        for pool, nodes in _pools(state).items()
        if name in nodes
    ]
    for group, there, number, limit in groups:
        if limit is not None and len(there) > share(limit, number):
            yield f"{len(there)} of {number} nodes of {group} are out of service, {limit} may be: {sorted(there)}"
    cards = most.get("cards", 0)
    held = {node: len(_cards(state, node)) for node in own & out}
    if cards and len(held) > 1 and sum(held.values()) > cards:
        yield f"{sum(held.values())} cards of driver {work['driver']} are out of service, {cards} may be"


def share(text: str, total: int) -> int:
    """A number of nodes, or a share of them rounded down; at least one."""
    return max(1, total * int(text[:-1]) // 100 if text.endswith("%") else int(text))


def revision_of(variant: str | None) -> str:
    """The revision that a variant names."""
    return (variant or "").partition("-")[0]


def _reserved(state: Objects, revision: Revision) -> Found:
    """Nobody is promised a card of a node whose cards have been withdrawn."""

    def requests(obj: Mapping[str, Any]) -> set[str]:
        return {one["requestID"] for one in obj.get("status", {}).get("reservations", ())}

    new = requests(revision.object) - requests(state.get(revision.key, {}))
    node = revision.object.get("status", {}).get("nodeName", "")
    work = _works(state).get(node, {})
    if not new or work.get("phase") not in EMPTIED or work.get("outSince") is None:
        return []
    return [f"it is reserved for {', '.join(sorted(new))} while node {node} is in phase {work['phase']}"]


def _fuse(state: Objects, revision: Revision) -> Found:
    """Whatever is out of service by plan leaves the fuse alone."""
    about = revision.object.get("regarding") or revision.object.get("involvedObject") or {}
    if revision.object.get("reason") != names.EVENT_FUSE_HELD:
        return []
    works = _works(state)
    planned = {node for node, work in works.items() if _is_out(work)}
    others = {
        name for (kind, name), obj in state.items() if kind == INVENTORY and name not in planned and not _is_ready(obj)
    }
    if planned and not others - {about.get("name")}:
        return [f"node {about.get('name')} is kept in service while {sorted(planned)} alone are out of it, by plan"]
    return []


def _is_ready(inventory: Mapping[str, Any]) -> bool:
    said = inventory.get("status", {}).get("conditions", ())
    return any(one["type"] == READY and one["status"] == "True" for one in said)


def _work(inventory: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = inventory.get("status", {}).get("driverWork") or {}
    return found


def _works(state: Objects) -> dict[str, Mapping[str, Any]]:
    return {name: work for (kind, name), obj in state.items() if kind == INVENTORY and (work := _work(obj))}


def _is_out(work: Mapping[str, Any]) -> bool:
    """Whether a node that served is out of service."""
    return work.get("phase") in OUT and work.get("outSince") is not None


def _cards(state: Objects, node: str) -> list[Mapping[str, Any]]:
    return [
        obj for (kind, _), obj in state.items() if kind == "GPUDevice" and obj.get("status", {}).get("nodeName") == node
    ]


def _pools(state: Objects) -> dict[str, set[str]]:
    """The nodes of each pool."""
    found: dict[str, set[str]] = {}
    for (kind, _), obj in state.items():
        status = obj.get("status", {})
        if kind == "GPUDevice" and status.get("poolRef"):
            found.setdefault(status["poolRef"]["name"], set()).add(status.get("nodeName", ""))
    return found
