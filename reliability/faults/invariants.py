"""What must hold on every revision, replayed from a trace (docs/dev/design.md, Invariants); each tells what does not.

Pure: revisions and requests in, sentences out. `slack` is how long, in seconds, something may stand that a sweep is to
end; `away` are times in which nobody was there to sweep (`standing`); `behind` is by how many seconds the clock may be
behind of who reserves cards for the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reliability.faults import driver_invariants, mps_invariants, takeover_invariants
from reliability.faults.eventual_invariants import EventualInvariants, Excess, overdue
from reliability.faults.fencing import Fence, one_list, unowned
from reliability.faults.queue_invariants import QueueInvariants, over_limit, unsettled
from reliability.faults.rollout_invariants import RolloutInvariants
from reliability.faults.runtime_invariants import RuntimeTurns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reliability.faults.eventual_invariants import Span
    from reliability.faults.process_proxy import Sent
    from reliability.faults.trace import Objects, Revision

Found = list[str]
OWN_EXISTENCE = {
    "inventory": {"gpudevices", "gpunodeinventories", "nodefeaturerules"},
    "bootstrap": {"daemonsets", "configmaps", "runtimeclasses"},
    "gpupool": {"daemonsets", "configmaps"},
    "driver": {"daemonsets", "configmaps", "pods"},
    "webhook": {"secrets"},
}
"""Kinds of which a process makes objects: an apply of those need not say which object it means."""
GUARDED = ("gpudevices", "gpunodeinventories", "gpupools", "gpudrivers", "nodes")


def replay(
    initial: Objects,
    history: Sequence[Revision],
    *,
    until: float,
    slack: float,
    away: Sequence[Span] = (),
    behind: float = 0.0,
) -> Found:
    """Every invariant of state on every revision, in the order of versions. `until`: when the run ended, epoch."""
    state, found, generations = dict(initial), Found(), dict[tuple[str, str], int]()
    fence, excess, standing = Fence(), Excess(), EventualInvariants(slack, away)
    queue, rollout, turns = QueueInvariants(slack, away, behind), RolloutInvariants(slack), RuntimeTurns()

    def stands(at: float) -> Found:
        return standing.look(overdue(state) | unowned(state) | unsettled(state) | excess.look(state), at)

    every = sorted(history, key=lambda r: r.version)
    said = stands(every[0].at if every else until)
    for revision in every:
        kind, name = revision.key
        where = f"at version {revision.version}, {kind} {name}: "
        looks = [*fence.look(state, revision), *queue.look(state, revision)]
        looks += [*driver_invariants.look(state, revision), *rollout.look(state, revision)]
        looks += [*mps_invariants.look(state, revision), *takeover_invariants.look(state, revision)]
        looks += turns.look(state, revision)
        said += [where + sentence for sentence in looks]
        if revision.type == "DELETED":
            state.pop(revision.key, None)
        else:
            state[revision.key] = revision.object
            said += [where + sentence for sentence in _alone(generations, revision)]
        if kind == "ConfigMap":
            said += [where + sentence for sentence in one_list(state)]
        if kind in ("GPUDevice", "Pod"):
            said += [where + sentence for sentence in (*stands(revision.at), *over_limit(state))]
        found, said = found + said, Found()
    return list(dict.fromkeys(found + said + [f"at the end, {sentence}" for sentence in standing.end(until)]))


def _alone(generations: dict[tuple[str, str], int], revision: Revision) -> Found:
    """What an object's own record tells."""
    kind = revision.key[0]
    state = one_pool(revision.object) if kind == "GPUDevice" else sums(revision.object) if kind == "GPUPool" else []
    return state + rising(generations, revision)


def one_pool(device: Mapping[str, Any]) -> Found:
    """A card is in one pool at most, and no other pool's plugin offers it."""
    status = device.get("status", {})
    pool, published = status.get("poolRef"), status.get("published")
    if pool and published and pool["name"] != published["pool"]:
        return [f"in pool {pool['name']}, and published by the plugin of {published['pool']}"]
    return []


def sums(pool: Mapping[str, Any]) -> Found:
    """Used + reserved + unavailable + available = total, or available = 0 and the others exceed it."""
    c = pool.get("status", {}).get("capacity")
    if not c:
        return []
    taken = c["used"] + c["reserved"] + c["unavailable"]
    if taken + c["available"] == c["total"] or (c["available"] == 0 and taken > c["total"]):
        return []
    return [f"capacity does not add up: {c}"]


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
