"""The cards of a pool as they are, whichever pod asks: the verdicts that a pod's own are made from. Pure.

They stand on `domain.slots` (what keeps a card from being given) and `domain.placement` (what is free of it): these
rules decide, and this module gives their answers a name.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.slots import gives, withheld
from controllers.domain.taints import keeps_off

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import Toleration
    from controllers.api.kube import Node, NodeTaint
    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.verdict.records import CardReason, Kept


@dataclass(frozen=True, slots=True)
class CardState:
    """A card, and the first reason that keeps it from every newcomer; `Free` where none does."""

    device: GPUDevice
    reason: CardReason
    free: int = 0


@dataclass(slots=True)
class NodeCards:
    """The cards of a pool on one node."""

    name: str
    node: Node | None
    """None where the Node is not there."""
    free: int = 0
    """Slots that newcomers could get if nobody were before them."""
    total: int = 0
    kept: Kept | None = None
    """What of the free ones others get first."""
    refuses: str = ""
    """Why the node takes no pod of the pool at all, in words."""
    cards: list[CardState] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Free slots that nobody is before."""
        return self.free - (min(self.free, self.kept.slots) if self.kept is not None else 0)


def pool_cards(
    pool: str,
    members: Iterable[GPUDevice],
    capacities: Iterable[NodeCapacity],
    *,
    tolerated: Collection[Toleration],
    kept: Mapping[str, Kept],
) -> dict[str, NodeCards]:
    """The cards by node, both by name.

    `members`: cards that are looked at; `capacities`: nodes that are there, with all their free slots; a node whose
    `slots` name no card has none free. `tolerated`: what the pool's pods tolerate; `kept`: by node.
    """
    found: dict[str, NodeCards] = {}
    counted: dict[str, _Counted] = {}
    for capacity in capacities:
        name = capacity.slots.node
        refuses = "" if capacity.node is None else refusal(pool, capacity.node, tolerated)
        found[name] = NodeCards(name, capacity.node, capacity.free, capacity.total, kept.get(name), refuses)
        free_by_card = {card.device.name: card.free for card in capacity.free_cards}
        for card in capacity.slots.cards:
            counted[card.device.name] = _Counted(card.used, card.slots, free_by_card.get(card.device.name, 0))
    by_node: dict[str, list[GPUDevice]] = defaultdict(list)
    for device in members:
        by_node[device.status.node_name or ""].append(device)
    for name in sorted(by_node):
        place = found.setdefault(name, NodeCards(name, None))
        for device in sorted(by_node[name], key=lambda device: device.name):
            seen = counted.get(device.name) or _counted(device)
            place.cards.append(CardState(device, _reason(device, pool, place, seen), seen.free))
    return {name: found[name] for name in sorted(found)}


def refusal(pool: str, node: Node, tolerated: Collection[Toleration]) -> str:
    """Why a node that is there takes no pod of the pool, in words; empty where it does."""
    if node.ready and not gives(node):
        return "cordoned"
    if (taint := keeps_off(node, tolerated)) is not None:
        return spelled_taint(taint)
    label = names.pool_node_label(pool)
    return "" if label in node.metadata.labels else f"label {label} is missing"


def spelled_taint(taint: NodeTaint) -> str:
    """A taint in words."""
    return f"taint {taint.key}={taint.value}" if taint.value else f"taint {taint.key}"


@dataclass(frozen=True, slots=True)
class _Counted:
    """Slots of a card."""

    used: int
    size: int
    free: int = 0


def _counted(device: GPUDevice) -> _Counted:
    """A card of which nobody counted more than that nothing is free: it has what is taken of it."""
    used = sum(taken.slots for taken in device.status.allocations)
    return _Counted(used, used + sum(promise.slots for promise in device.status.reservations))


def _reason(device: GPUDevice, pool: str, place: NodeCards, seen: _Counted) -> CardReason:
    """The first reason that holds."""
    status = device.status
    if (own := withheld(device, pool)) is not None:
        return own
    if seen.size == 0 and place.node is not None and not status.foreign_allocations:
        return "NotPublished"  # as the pool's nodes are configured it has no slots
    if place.node is None or not place.node.ready:
        return "NodeAway"
    if place.refuses:
        return "NodeRefused"
    if seen.free > 0:
        return "Free"
    return "InUse" if seen.used or status.foreign_allocations else "Promised"
