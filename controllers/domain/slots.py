"""Slots of one pool's cards on one node: how many a card has, and what is used, reserved and free of them. Pure.

`accounting` counts them. Of what is left no more is free than the Node's own `allocatable` has room for: schedulers go
by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from controllers.domain.allocation import slots_under

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Published
    from controllers.api.gpupool import AllocationSpec


class Card(NamedTuple):
    """One card of a pool."""

    device: GPUDevice
    slots: int
    used: int
    reserved: int
    issuable: bool

    @property
    def free(self) -> int:
        """Slots that a new pod can get."""
        return max(0, self.slots - self.used - self.reserved) if self.issuable else 0

    @property
    def displaced(self) -> int:
        """Slots that are used or promised beyond what the card has.

        Kubelet gave a reserved slot to another pod, or the plugin offers fewer than before.
        """
        return max(0, self.used + self.reserved - self.slots)

    @property
    def unavailable(self) -> int:
        """Unused slots that cannot be issued now."""
        return 0 if self.issuable else max(0, self.slots - self.used - self.reserved)


@dataclass(frozen=True)
class NodeSlots:
    """The cards of one pool on one node. What it adds up it adds up once: several ask for each node of a pool."""

    node: str
    cards: tuple[Card, ...]
    overflow: int = 0
    """Slots of bound pods beyond what the cards have: kubelet gave what we do not know of."""
    allocatable: int | None = None
    """Slots that the Node offers to schedulers, used or not; None where it tells nothing of the kind."""

    @cached_property
    def displaced(self) -> int:
        """Slots that the cards do not have: each needs another card of the node, and the scheduler counts it there."""
        return sum(card.displaced for card in self.cards)

    @cached_property
    def taken(self) -> int:
        """Slots that pods have or are promised."""
        return sum(card.used + card.reserved for card in self.cards) + self.overflow

    @cached_property
    def free(self) -> int:
        """Slots that new pods can get on this node."""
        return self.offered(self._idle, self.taken)

    @property
    def hidden(self) -> int:
        """Slots that the cards have to give, and that the Node does not offer: no scheduler would find them."""
        return self._idle - self.free

    @property
    def unshown(self) -> int:
        """Slots of those hidden that kubelet has yet to show.

        The others stand behind pods on cards that no plugin offers now: schedulers count these too, until they end.
        """
        beside = sum(card.used + card.reserved for card in self.cards if card.device.status.published is None)
        return self._idle - self.offered(self._idle, self.taken - beside)

    @cached_property
    def _idle(self) -> int:
        return max(0, sum(card.free for card in self.cards) - self.overflow - self.displaced)

    def offered(self, free: int, taken: int) -> int:
        """So many of the `free` slots as the Node offers beside those `taken`: what the scheduler will count.

        Kubelet shows a plugin's cards with its next status update, up to ten seconds after it has acknowledged them.
        """
        return free if self.allocatable is None else max(0, min(free, self.allocatable - taken))


def slots_of(device: GPUDevice, allocation: AllocationSpec, profile: str | None = None) -> int:
    """Slots of a card under the layout that its pool's nodes are configured for; of one profile, where one is named.

    Never more than its plugin offers, nor than the layout has: a plugin that is behind may still offer the card as
    it was before a reconfiguration, and nobody is to be admitted to what is about to go.
    """
    intended, published = slots_under(device, allocation, profile), device.status.published
    return intended if published is None else min(intended, offered_slots(published, profile))


def offered_slots(published: Published, profile: str | None = None) -> int:
    """Slots that a card's plugin offers; of one profile, where one is named."""
    if profile is None:
        return published.slots
    return sum(each.slots for each in published.profiles or () if each.profile == profile)


def is_of(profile: str | None, said: str | None) -> bool:
    """Whether slots that are `said` to be of a profile count where one is asked about; None asks about all."""
    return profile is None or said == profile
