"""Records of the MIG manager: scans of the node's cards, jobs and attempts. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.domain.mig import CardLayout, PlannedCard


@dataclass(frozen=True, slots=True)
class Loading:
    """One loading of the driver: MIG instances live in its memory, and no longer than it."""

    boot: str
    """The node's boot id."""
    driver: str = ""
    """A word for the loading that no other one of that boot has; empty where the kernel does not tell."""


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """What can be seen of the node without a question to the driver."""

    loading: Loading | None = None
    """None where no driver is loaded, or nobody tells the boot."""
    lost: frozenset[str] = frozenset()
    """Cards that are not on the bus."""
    taken: frozenset[str] = frozenset()
    """Cards that the driver has taken."""
    instances: tuple[str, ...] = ()
    """MIG instances that have a file of their own."""


@dataclass(frozen=True, slots=True)
class DriverReport:
    """A card as its driver tells it now."""

    layout: CardLayout | None
    """How it is divided; None where the driver did not say, or not all of it."""
    uuid: str = ""
    capable: bool | None = None
    profiles: tuple[str, ...] = ()
    """What it offers, in the driver's spelling."""
    index: int | None = None
    """Its place among the cards that NVML counts; None where one before it does not answer, so that nobody knows."""


@dataclass(frozen=True, slots=True)
class NodeScan:
    """One look at the node; addresses are spelled as in a GPUDevice."""

    cards: Mapping[str, DriverReport] = field(default_factory=lambda: MappingProxyType({}))
    """Those for which the driver answers."""
    lost: frozenset[str] = frozenset()
    """Cards that are not on the bus."""
    unavailable_reason: str = ""
    """Why the driver tells nothing; empty where it does."""
    loading: Loading | None = None
    """As it was before the look began; None where no driver is loaded, or nobody tells the boot."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Work on a card that has begun and has not been told of as over: what a restart has to know."""

    version: str
    before: CardLayout
    """How the card was divided before anything was done to it."""
    begun: int = 1
    """How often the work was begun."""
    failed: str = ""
    """Why it failed; then what the card had before is put back."""


@dataclass(frozen=True, slots=True)
class Job:
    """A card whose part of the layout is not done with."""

    part: PlannedCard
    card: GPUDevice
    target: CardLayout
    before: CardLayout
    begun: int
    """How often the work was begun before."""
    failed: str
    """Why it failed already, where only the way back is left; else empty."""
    needs_reset: bool
    """Whether the GPU may have to be reset, so that its clients must be gone."""
    blocker: str
    """Why it cannot begin now, one of the words of `plan`; empty where it can."""

    @property
    def address(self) -> str:
        """The card's PCI address."""
        return self.part.address
