"""The cards of a pool as they are, whichever pod asks: the verdicts that a pod's own are made from. Pure.

They stand on `domain.issuing` (what keeps a card from being given) and `domain.placement` (what is free of it): these
rules decide, and this module gives their answers a name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from controllers.api import names
from controllers.domain.issuing import accepts_new_pods, withheld
from controllers.domain.slots import is_of
from controllers.domain.taints import keeps_off, spelled_taint
from controllers.domain.verdict.nodes import CORDONED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import Toleration
    from controllers.api.kube import Node
    from controllers.domain.slots import NodeSlots
    from controllers.domain.verdict.records import CardReason, ReservedForOthers


class CardState(NamedTuple):
    """A card, and the first reason that keeps it from every newcomer; `Free` where none does."""

    device: GPUDevice
    verdict: CardReason
    free: int = 0


@dataclass(slots=True)
class NodeCards:
    """The cards of a pool on one node."""

    name: str
    node: Node | None
    """None where the Node is not there."""
    is_away: bool = True
    """Whether it is not there, or not ready."""
    free: int = 0
    """Slots that newcomers could get if nobody were before them."""
    total: int = 0
    kept: ReservedForOthers | None = None
    """What of the free ones others get first."""
    refuses: str = ""
    """Why the node takes no pod of the pool at all, in words."""
    has_promises: bool = False
    """Whether a card of it is promised to somebody."""
    cards: list[CardState] = field(default_factory=list)
    tally: Counter[CardReason] = field(default_factory=Counter)
    """The cards by their reasons."""

    @property
    def left(self) -> int:
        """Free slots that nobody is before."""
        return self.free - (min(self.free, self.kept.slots) if self.kept is not None else 0)


def pool_cards(
    pool: str,
    members: Iterable[GPUDevice],
    nodes: Mapping[str, Node],
    slots: Mapping[str, NodeSlots],
    *,
    tolerated: Collection[Toleration],
    kept: Mapping[str, ReservedForOthers],
    profile: str | None = None,
) -> dict[str, NodeCards]:
    """The cards by node, both by name.

    `members`: cards that are looked at, on whichever nodes; `slots`: nodes on which something may be free, counted;
    `tolerated`: what the pool's pods tolerate; `kept`: by node; `profile`: what was counted, in a mixed layout.
    """
    by_node: dict[str, list[GPUDevice]] = defaultdict(list)
    for device in members:
        by_node[device.status.node_name or ""].append(device)
    found: dict[str, NodeCards] = {}
    for name in sorted(by_node):
        node, counted = nodes.get(name), slots.get(name)
        place = found[name] = NodeCards(name, node, is_away=node is None or not node.ready, kept=kept.get(name))
        place.refuses = "" if node is None else refusal(pool, node, tolerated)
        if counted is not None:
            place.free = counted.free
        known = {card.device.name: card for card in counted.cards} if counted is not None else {}
        for device in sorted(by_node[name], key=_name):
            card = known.get(device.name)
            seen = _uncounted(device, profile) if card is None else _Counted(card.used, card.slots, card.free)
            place.total += seen.size
            place.has_promises = place.has_promises or bool(device.status.reservations)
            reason = _reason(device, pool, place, seen)
            place.cards.append(CardState(device, reason, seen.free))
            place.tally[reason] += 1
    return found


def _name(device: GPUDevice) -> str:
    return device.metadata.name


def refusal(pool: str, node: Node, tolerated: Collection[Toleration]) -> str:
    """Why a node that is there takes no pod of the pool, in words; empty where it does."""
    if node.ready and not accepts_new_pods(node):
        return CORDONED
    if (taint := keeps_off(node, tolerated)) is not None:
        return spelled_taint(taint)
    label = names.pool_node_label(pool)
    return "" if label in node.metadata.labels else f"label {label} is missing"


class _Counted(NamedTuple):
    """Slots of a card."""

    used: int
    size: int
    free: int = 0


def _uncounted(device: GPUDevice, profile: str | None) -> _Counted:
    """A card of which nobody counted more than that nothing is free: it has what is taken of it."""
    used = promised = 0
    for taken in device.status.allocations:
        used += taken.slots if is_of(profile, taken.profile) else 0
    for promise in device.status.reservations:
        promised += promise.slots if is_of(profile, promise.profile) else 0
    return _Counted(used, used + promised)


def _reason(device: GPUDevice, pool: str, place: NodeCards, seen: _Counted) -> CardReason:
    """The first reason that holds."""
    if seen.free > 0:
        return "Free"  # by the count: no slot is free of a card that is kept from everybody
    status = device.status
    if (own := withheld(device, pool)) is not None:
        return own
    if seen.size == 0 and place.node is not None and not status.foreign_allocations:
        return "NotPublished"  # as the pool's nodes are configured it has no slots
    if place.is_away:
        return "NodeAway"
    if place.refuses:
        return "NodeRefused"
    return "InUse" if seen.used or status.foreign_allocations else "Promised"
