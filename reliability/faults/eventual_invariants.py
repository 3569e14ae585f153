"""Invariants that may be broken for a bounded time, until a resync; each is judged when it is over. Pure.

Times are seconds since the epoch. A time counts from when it began to when it ended, less what of it fell into `away`,
in which nobody was there to sweep.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.gpupool import MpsShares
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reliability.faults.trace import Objects

Span = tuple[float, float]
Wrong = tuple[float, str]
"""Not before when it is wrong, and a sentence."""


@dataclass
class EventualInvariants:
    """Times in which something was wrong; told of where one was longer than `slack`."""

    slack: float
    away: Sequence[Span] = ()
    _since: dict[tuple[str, ...], Wrong] = field(default_factory=dict)

    def look(self, wrong: Mapping[tuple[str, ...], Wrong], at: float) -> list[str]:
        """What is wrong from now on; says of what is not any more whether it was too long."""
        over = [key for key in self._since if key not in wrong]
        found = [sentence for key in over for sentence in self._judge(key, at)]
        for key in over:
            del self._since[key]
        for key, (earliest, sentence) in wrong.items():
            self._since.setdefault(key, (max(earliest, at), sentence))
        return found

    def end(self, at: float) -> list[str]:
        """The run has ended: what is wrong now will be, for ever."""
        return [sentence for key in self._since for sentence in self._judge(key, at)]

    def _judge(self, key: tuple[str, ...], at: float) -> list[str]:
        since, sentence = self._since[key]
        took = at - since - overlap((since, at), self.away)
        return [f"{sentence}, for {at - since:.1f} s"] if took > self.slack else []


def overlap(span: Span, others: Iterable[Span]) -> float:
    """Seconds of a span that lie in others, which do not overlap each other."""
    return sum(max(0.0, min(span[1], end) - max(span[0], begin)) for begin, end in others)


def united(spans: Iterable[Span]) -> list[Span]:
    """The same times, as spans that do not overlap."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def requests(state: Objects) -> dict[str, str]:
    """The uids of pods by their request-id."""
    return {
        request: obj["metadata"]["uid"]
        for (kind, _), obj in state.items()
        if kind == "Pod" and (request := obj["metadata"].get("annotations", {}).get(names.REQUEST_ID))
    }


def overdue(state: Objects) -> dict[tuple[str, ...], Wrong]:
    """Every reservation has a pod, or expires in the future, or did so a sweep ago: those without a pod."""
    found, known = dict[tuple[str, ...], Wrong](), requests(state)
    for (kind, name), obj in state.items():
        if kind != "GPUDevice":
            continue
        for held in obj.get("status", {}).get("reservations", ()):
            if held["requestID"] not in known:
                what = f"{name}: reservation {held['requestID']} has no pod and expired at {held['expiresAt']}"
                key = ("overdue", obj["metadata"]["uid"], held["requestID"], held["expiresAt"])
                found[key] = seconds(held["expiresAt"]), what
    return found


class Excess:
    """On a node and pool, allocations + reservations of pods not yet allocated ≤ slots.

    The slots of a card are what its plugin publishes, or published last where pods keep a card that is withdrawn. Where
    only the node could say (a card that is being divided) a card counts as exactly what is taken of it.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}

    def look(self, state: Objects) -> dict[tuple[str, ...], Wrong]:
        """By node and pool where there is one."""
        uids, found = requests(state), dict[tuple[str, ...], Wrong]()
        for (node, pool), cards in _places(state).items():
            served = {entry["podUID"] for card in cards for entry in _status(card).get("allocations", ())}
            taken = slots = 0
            for card in cards:
                status = _status(card)
                mine = sum(entry["slots"] for entry in status.get("allocations", ())) + sum(
                    held["slots"]
                    for held in status.get("reservations", ())
                    if uids.get(held["requestID"]) not in served
                )
                size = self._slots(card, pool, state.get(("GPUPool", pool)))
                taken, slots = taken + mine, slots + (mine if size is None else size)
            if taken > slots:
                what = f"on node {node}, pool {pool} gives {taken} of {slots} slots"
                found["excess", node, pool] = float("-inf"), what
        return found

    def _slots(self, card: Mapping[str, Any], pool: str, record: Mapping[str, Any] | None) -> int | None:
        key, status = (str(card["metadata"]["uid"]), pool), _status(card)
        if status.get("published"):
            self._last[key] = int(status["published"]["slots"])
            return self._last[key]
        if status.get("allocations"):
            return self._last.get(key)
        return by_mode((record or {}).get("status", {}).get("appliedAllocation"))


def by_mode(allocation: Mapping[str, Any] | None) -> int | None:
    """Slots that a card will have in a pool; None where only the node knows (MIG), or the pool is new."""
    if allocation is None or allocation.get("mode", "Exclusive") == "MIG":
        return None
    if allocation.get("mode") == "MPS":
        return int((allocation.get("mps") or {}).get("clients", MpsShares().clients))
    return int(allocation["timeSlice"]["maxSlicesPerDevice"]) if allocation.get("mode") == "TimeSlice" else 1


def _status(card: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = card.get("status", {})
    return found


def _places(state: Objects) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    places: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for (kind, _), obj in state.items():
        if kind == "GPUDevice" and (pool := _status(obj).get("poolRef")):
            places[_status(obj).get("nodeName", ""), pool["name"]].append(obj)
    return places
