"""Whether a pod's cards are farther apart than others that were free, and the pod's condition about it. Pure.

What kubelet gave is compared with the cards that were reserved for the pod, as its annotation names them; of a pod
without reserved cards with what else was free on its node when kubelet had given. The first can be said at any time,
also after a restart of the controller; the second only once, so it is said then or never. A condition is written where
they differ, and not again: a pod keeps its cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from controllers.api import names
from controllers.api.conditions import condition
from controllers.api.resources import POD
from controllers.domain import near
from controllers.domain.clock import begun, stamp
from controllers.domain.issuing import issuable
from controllers.domain.lifecycle import live
from controllers.domain.named_devices import named_devices
from controllers.domain.near import LEVELS, CardOption, Level
from controllers.domain.request import asked_of, lasting_of
from controllers.domain.slots import is_of, slots_of
from controllers.domain.wording import listed
from controllers.gpupool.pod_status import apply_condition
from controllers.runtime.plan import EmitEvent, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec
    from controllers.api.tenant import TenantPod
    from controllers.domain.near import Apart, CardLocation

Cause = Literal["OtherCards", "OtherNode", "NotReserved"]
NEW: Final = 60.0
"""Seconds after the start of a pod in which kubelet's word on its cards is new."""
_GROUPS: Final[Mapping[Level, str]] = {
    "bond": "linked to each other by the most NVLinks",
    "clique": "linked to each other by NVLink",
    "link": "of one NVLink group",
    "root": "on one PCI root",
    "numa": "on one NUMA node",
}
_CAUSES: Final[Mapping[Cause, str]] = {
    "OtherCards": "Those reserved for it were, and kubelet took others.",
    "OtherNode": "Those reserved for it when it was made, on another node, were.",
    "NotReserved": "None were reserved for it, and such were free on its node when it came.",
}


@dataclass(frozen=True, slots=True)
class PodCards:
    """A pod with what its nearness depends on."""

    pod: TenantPod
    pool: str
    here: tuple[GPUDevice, ...]
    """The pool's cards on the pod's node."""
    there: tuple[GPUDevice, ...]
    """The pool's cards on the node on which cards were reserved for it; the same ones where it is there."""
    layout: AllocationSpec
    """What the pool's nodes are configured for."""
    is_new: bool = False
    """Whether kubelet has given the pod its cards just now, so that what else is free was free then."""


@dataclass(frozen=True, slots=True)
class Nearness:
    """How far apart the cards of a pod are, and how far those that it could have had: by `near.apart`."""

    cards: tuple[str, ...]
    """inventoryIDs of the cards that it has."""
    got: Apart
    best: Apart
    cause: Cause

    @property
    def is_split(self) -> bool:
        """Whether nearer cards were to be had."""
        return self.got > self.best

    @property
    def missed(self) -> Level:
        """The first level at which its cards are in several groups and could have been in one."""
        return next(level for level, got, best in zip(LEVELS, self.got, self.best, strict=True) if got > best)


def compare(seen: PodCards, now: float) -> Nearness | None:
    """What the pod has and could have had; None where one of the two is not known, or it has no two cards."""
    has = _given(seen)
    places = near.locations(seen.here)
    reserved = _reserved(seen)
    if len(has) <= 1 or not (reserved or (seen.is_new and _has_begun_of_late(seen.pod, now))):
        return None
    if reserved:
        best = near.apart(near.locations(seen.there)[card.name] for card in reserved)
        cause: Cause = "OtherNode" if reserved[0].status.node_name != seen.pod.node else "OtherCards"
    else:
        best, cause = _best_here(seen, places, sum(has.values()), now), "NotReserved"
    cards = {card.name: card.status.inventory_id or card.name for card in seen.here}
    return Nearness(tuple(cards[name] for name in has), near.apart(places[name] for name in has), best, cause)


def plan_near(pod: TenantPod, found: Nearness | None, now: float) -> Plan:
    """The pod's condition, where its cards are farther apart than they could be, or are so no more."""
    draft, current = PlanBuilder(), pod.status.near
    said = current is not None and current.status == "False"
    if found is None or found.is_split == said:
        return draft.build()
    made = condition(
        () if current is None else (current,),
        names.NEAR,
        status=not found.is_split,
        reason=found.cause if found.is_split else "Together",
        message=_message(found),
        now=stamp(now),
    )
    draft.add(apply_condition(pod, made))
    if found.is_split:
        draft.add(EmitEvent(ref(POD, pod), "Normal", names.EVENT_CARDS_APART, made.message))
    return draft.build()


def _has_begun_of_late(pod: TenantPod, now: float) -> bool:
    """Whether kubelet began with the pod just now: an agent that starts anew may tell of old allocations as new."""
    return pod.status.start_time is None or begun(pod.status.start_time, now) + NEW > now


def _given(seen: PodCards) -> dict[str, int]:
    """The slots that kubelet has given the pod, by card; none before it has told all of them."""
    uid = seen.pod.metadata.uid
    slots = {
        card.name: sum(taken.slots for taken in card.status.allocations if taken.pod_uid == uid) for card in seen.here
    }
    found = {name: count for name, count in slots.items() if count}
    return found if sum(found.values()) >= lasting_of(seen.pod, seen.pool) else {}


def _reserved(seen: PodCards) -> list[GPUDevice]:
    """The cards that were reserved for the pod; none where one of them is not there any more."""
    by_id = {card.status.inventory_id: card for card in seen.there}
    named = named_devices(seen.pod)
    found = [by_id[name] for name in named if name in by_id]
    return found if len(found) == len(named) else []


def _best_here(seen: PodCards, places: Mapping[str, CardLocation], units: int, now: float) -> Apart:
    """How far apart so many slots of the node would have been, chosen beside what others have or were promised."""
    profile = asked_of(seen.pod, seen.pool).profile
    left = [(card.name, count) for card in seen.here if (count := _available(seen, card, profile, now))]
    options = [CardOption(name, count, (-count, at), places[name]) for at, (name, count) in enumerate(left)]
    chosen = []
    for option in near.nearest(options, [(places[name], count) for name, count in left], units):
        if units > 0:
            chosen.append(option.location)
            units -= option.free
    return near.apart(chosen)


def _available(seen: PodCards, card: GPUDevice, profile: str | None, now: float) -> int:
    """Slots of a card that the pod has or could have had; of `profile`, in a mixed layout."""
    pod, status = seen.pod, card.status
    own = sum(taken.slots for taken in status.allocations if taken.pod_uid == pod.metadata.uid)
    if not issuable(card, seen.pool):
        return own
    request = pod.metadata.annotations.get(names.REQUEST_ID)
    allocated = (taken for taken in status.allocations if is_of(profile, taken.profile))
    others = sum(taken.slots for taken in allocated if taken.pod_uid != pod.metadata.uid)
    reserved = (each for each in status.reservations if is_of(profile, each.profile))
    promised = sum(each.slots for each in reserved if each.request_id != request and live(each, now))
    return max(own, slots_of(card, seen.layout, profile) - others - promised)


def _message(found: Nearness) -> str:
    has = f"The pod's {len(found.cards)} cards ({listed(found.cards)})"
    if not found.is_split:
        return f"{has} are as near to each other as those that were to be had."
    return f"{has} are not {_GROUPS[found.missed]}. {_CAUSES[found.cause]}"
