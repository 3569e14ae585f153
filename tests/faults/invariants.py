"""What must hold on every revision (design §10), replayed from a trace; each function returns what does not.

Pure: revisions and requests in, sentences out. `slack` is how long, in seconds, something may stand that a sweep is to
end: a sweep, and the time for which a fault kept the sweeper away.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.faults.tap import Sent
    from tests.faults.trace import Objects, Revision

Found = list[str]
OWN_EXISTENCE = {
    "inventory": {"gpudevices", "gpunodeinventories", "nodefeaturerules"},
    "bootstrap": {"daemonsets", "configmaps", "runtimeclasses"},
    "gpupool": {"daemonsets", "configmaps"},
    "webhook": {"secrets"},
}
"""Kinds of which a process makes objects: an apply of those need not say which object it means."""
GUARDED = ("gpudevices", "gpunodeinventories", "gpupools", "nodes")


def replay(initial: Objects, history: Sequence[Revision], *, until: float, slack: float) -> Found:
    """Every invariant of state on every revision, in the order of versions. `until`: when the run ended, epoch."""
    state, found, excess = dict(initial), [], _Excess(slack)
    generations: dict[tuple[str, str], int] = {}
    for revision in sorted(history, key=lambda r: r.version):
        if revision.type == "DELETED":
            state.pop(revision.key, None)
        else:
            state[revision.key] = revision.object
        kind, name = revision.key
        where = f"at version {revision.version}, {kind} {name}: "
        said: Found = []
        if revision.type != "DELETED":
            if kind == "GPUDevice":
                said += one_pool(revision.object) + overdue(state, revision.object, revision.at, slack)
            elif kind == "GPUPool":
                said += sums(revision.object)
            said += rising(generations, revision)
        if kind == "ConfigMap":
            said += one_list(state)
        if kind in ("GPUDevice", "Pod"):
            said += excess.look(state, revision.at)
        found += [where + sentence for sentence in said]
    for (kind, name), obj in state.items():
        if kind == "GPUDevice":
            found += [f"at the end, {kind} {name}: {sentence}" for sentence in overdue(state, obj, until, slack)]
    found += [f"at the end: {sentence}" for sentence in excess.look(state, until)]
    return list(dict.fromkeys(found))


def one_pool(device: Mapping[str, Any]) -> Found:
    """A card is in one pool at most, and no other pool's plugin offers it."""
    status = device.get("status", {})
    pool, published = status.get("poolRef"), status.get("published")
    if pool and published and pool["name"] != published["pool"]:
        return [f"in pool {pool['name']}, and published by the plugin of {published['pool']}"]
    return []


def one_list(state: Objects) -> Found:
    """A card is on one pool's list of allowed devices at most."""
    listed: dict[str, set[str]] = defaultdict(set)
    for (kind, _), obj in state.items():
        if kind == "ConfigMap" and (allowed := obj.get("data", {}).get(names.ALLOWED_DEVICES)):
            pool = obj["metadata"].get("labels", {}).get(names.LABEL_POOL, obj["metadata"]["name"])
            for card in allowed.split():
                listed[card].add(pool)
    return [f"{card} is on the lists of {', '.join(sorted(pools))}" for card, pools in listed.items() if len(pools) > 1]


def sums(pool: Mapping[str, Any]) -> Found:
    """used + reserved + unavailable + available = total, or available = 0 and the others exceed it."""
    c = pool.get("status", {}).get("capacity")
    if not c:
        return []
    taken = c["used"] + c["reserved"] + c["unavailable"]
    if taken + c["available"] == c["total"] or (c["available"] == 0 and taken > c["total"]):
        return []
    return [f"capacity does not add up: {c}"]


def overdue(state: Objects, device: Mapping[str, Any], at: float, slack: float) -> Found:
    """Every reservation has a pod, or expires in the future, or did so a sweep ago."""
    found = []
    for held in device.get("status", {}).get("reservations", ()):
        if seconds(held["expiresAt"]) + slack < at and held["requestID"] not in requests(state):
            found.append(f"reservation {held['requestID']} has no pod and expired at {held['expiresAt']}")
    return found


def requests(state: Objects) -> dict[str, str]:
    """The uids of pods by their request-id."""
    return {
        request: obj["metadata"]["uid"]
        for (kind, _), obj in state.items()
        if kind == "Pod" and (request := obj["metadata"].get("annotations", {}).get(names.REQUEST_ID))
    }


def rising(known: dict[tuple[str, str], int], revision: Revision) -> Found:
    """`observedGeneration` never falls and never runs ahead, of the status and of each condition."""
    status, generation = revision.object.get("status"), revision.object["metadata"].get("generation")
    if not isinstance(status, dict) or not revision.key[0].startswith("GPU"):
        return []
    seen = {"status": status.get("observedGeneration")}
    seen |= {c["type"]: c.get("observedGeneration") for c in status.get("conditions", ())}
    found = []
    for place, number in seen.items():
        if number is None:
            continue
        key = (revision.uid, place)
        if number < known.get(key, 0):
            found.append(f"observedGeneration of {place} fell from {known[key]} to {number}")
        if generation is not None and number > generation:
            found.append(f"observedGeneration of {place} is {number}, the generation {generation}")
        known[key] = number
    return found


class _Excess:
    """On a node and pool, allocations + reservations of pods not yet allocated ≤ slots; an excess ends in a sweep."""

    def __init__(self, slack: float) -> None:
        self._slack = slack
        self._since: dict[tuple[str, str], float] = {}

    def look(self, state: Objects, at: float) -> Found:
        found, over = [], dict(self._over(state))
        for place in [place for place in self._since if place not in over]:
            del self._since[place]
        for (node, pool), (taken, slots) in over.items():
            since = self._since.setdefault((node, pool), at)
            if at - since > self._slack:
                found.append(f"on node {node}, pool {pool} gives {taken} of {slots} slots, for {at - since:.1f} s")
        return found

    def _over(self, state: Objects) -> Iterable[tuple[tuple[str, str], tuple[int, int]]]:
        uids = requests(state)
        places: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for (kind, _), obj in state.items():
            status = obj.get("status", {})
            if kind == "GPUDevice" and status.get("poolRef"):
                places[status.get("nodeName", ""), status["poolRef"]["name"]].append(status)
        for (node, pool), cards in places.items():
            sizes = [slots_of(card, state.get(("GPUPool", pool))) for card in cards]
            if any(size is None for size in sizes):
                continue
            served = {entry["podUID"] for card in cards for entry in card.get("allocations", ())}
            given = sum(entry["slots"] for card in cards for entry in card.get("allocations", ()))
            promised = sum(
                held["slots"]
                for card in cards
                for held in card.get("reservations", ())
                if uids.get(held["requestID"]) not in served
            )
            slots = sum(size for size in sizes if size is not None)
            if given + promised > slots:
                yield (node, pool), (given + promised, slots)


def slots_of(card: Mapping[str, Any], pool: Mapping[str, Any] | None) -> int | None:
    """Slots of a card in a pool; None where only the node knows (MIG), or the pool is changing."""
    if card.get("published"):
        return int(card["published"]["slots"])
    allocation = (pool or {}).get("status", {}).get("appliedAllocation")
    if allocation is None or card.get("allocations"):
        return None
    mode = allocation.get("mode", "Exclusive")
    if mode == "TimeSlice":
        return int(allocation["timeSlice"]["maxSlicesPerDevice"])
    return 1 if mode == "Exclusive" else None


def conditional(sent: Iterable[Sent]) -> Found:
    """Writes say which object they mean, where another of that name could be there by then.

    A deletion names a uid; an apply names it too, unless its process owns the object's existence; state and
    reservations of a card, which have two writers, are written on a version.
    """
    found = []
    for one in sent:
        body = one.body if isinstance(one.body, dict) else {}
        meta = body.get("metadata") or {}
        what = f"{one.process}: {one.verb} {one.about}"
        if one.verb == "delete" and not (body.get("preconditions") or {}).get("uid"):
            found.append(f"{what} without the uid of what it means")
        if one.resource in GUARDED and one.verb == "apply" and not meta.get("uid"):
            owns = one.resource in OWN_EXISTENCE.get(one.process, ()) and one.subresource is None
            made = one.resource in OWN_EXISTENCE.get(one.process, ())
            if not owns and not made:
                found.append(f"{what} without the uid of what it means")
        if (
            one.resource == "gpudevices"
            and one.verb in ("patch", "update")
            and one.subresource == "status"
            and not meta.get("resourceVersion")
        ):
            found.append(f"{what} without the version it was decided on")
    return list(dict.fromkeys(found))


def one_leader(sent: Iterable[Sent], ended: Mapping[str, Sequence[float]]) -> Found:
    """Who writes holds the lease: its last word on it came after its own start, and no other's came since.

    `ended`: by process, when it was killed, monotonic. Every replica of the webhook acts; its lease is of certificates.
    """
    found, holder = [], dict[str, tuple[str, float]]()
    for one in sorted(sent, key=lambda s: s.at):
        if one.process == "webhook" or one.orphan:  # what a dead process sent while it lived was its right
            continue
        if one.resource == "leases":
            if one.landed and one.verb in ("create", "update") and isinstance(one.body, dict):
                holder[str(one.name)] = (str(one.body["spec"].get("holderIdentity") or ""), one.at)
            continue
        lease = LEASES[one.process]
        identity, since = holder.get(lease, ("", float("-inf")))
        starts = [at for at in ended.get(one.process, ()) if at < one.at]
        if starts and (not identity or since < max(starts)):
            found.append(f"{one.process}: {one.verb} {one.about} by a process that does not lead")
        elif lease in holder and not identity:
            found.append(f"{one.process}: {one.verb} {one.about} after it gave the lease back")
    return list(dict.fromkeys(found))


LEASES = {"inventory": names.INVENTORY, "bootstrap": names.BOOTSTRAP, "gpupool": names.POOL_CONTROLLER}
