"""What the checks of a card's eligibility look at, and what one that fails says. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.meta import Condition
    from controllers.api.reasons.typed import Reason
    from controllers.domain.mig import PlannedCard
    from controllers.domain.selectors.explain import Mismatch


@dataclass(frozen=True, slots=True)
class Ineligible:
    """Why a card cannot come into a pool, or be served there."""

    kind: Reason
    """What is in the way, as the reason of a condition; where a condition of the card is, its type."""
    message: str
    """What was found and what was expected, without a full stop."""
    action: str
    """What to do, without a full stop."""
    cause: Condition | None = None
    """The condition of the card that is in the way, where it is one."""
    lasting: bool = False
    """Whether it stays until somebody decides about the card or the pool; else it ends with what it is about."""

    @property
    def detail(self) -> str:
        """What that condition says itself, after `found`; no other condition repeats it, since it changes."""
        return f" ({self.cause.reason}): {self.cause.message}".rstrip(".") if self.cause is not None else ""

    def __str__(self) -> str:
        """As sentences, without the last full stop."""
        return f"{self.kind}: {self.message}. {self.action}"


class CardContext(NamedTuple):
    """A card, the pool that it is to come into, and what surrounds both at one moment.

    One is made for each pool that matches a card, so for thousands: a tuple is made in a third of a dataclass's time.
    """

    device: GPUDevice
    name: str
    """Of the pool."""
    pool: GPUPool | None
    """None where there is no such pool."""
    mismatch: Mismatch | None
    """Why the pool's selectors, or its profile, leave the card out; None where they match it."""
    ready: bool | None
    """Whether the card's node is ReadyForPooling; None where that could not be read."""
    part: PlannedCard | None
    """The card's part of its node's MIG layout; None where it has none, or `knows_layout` is False."""
    siblings: int
    """Cards of the same node that the pool has."""
    maybe_in_use: bool
    """Whether a bound pod was given the card and kubelet has not told otherwise."""
    knows_layout: bool = True
    """Whether the node's MIG layout could be read."""

    def of(self, name: str, pool: GPUPool | None, siblings: int, mismatch: Mismatch | None = None) -> CardContext:
        """The same card at the same moment, and another pool."""
        return CardContext(
            self.device, name, pool, mismatch, self.ready, self.part, siblings, self.maybe_in_use, self.knows_layout
        )
