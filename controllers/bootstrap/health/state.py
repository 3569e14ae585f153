"""What is known of one card's health between two scrapes, and the verdict that was given on it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.conditions import Finding

if TYPE_CHECKING:
    from controllers.api.gpudevice import Fault, FaultEnd

CRITICAL_XID: Final = "CriticalXid"
DOUBLE_BIT_ECC: Final = "DoubleBitEcc"
REMAP_FAILURE: Final = "RowRemapFailure"
OVERHEATED: Final = "Overheated"
FAULTS: Final[tuple[Fault, ...]] = (CRITICAL_XID, DOUBLE_BIT_ECC, REMAP_FAILURE, OVERHEATED)
"""Every fault that telemetry shows."""
EVENTS: Final[frozenset[Fault]] = frozenset({CRITICAL_XID, DOUBLE_BIT_ECC})
"""Those that happen at a moment; the others last as long as samples show them."""


@dataclass(frozen=True, slots=True)
class CardFault:
    """Why a card is out of service."""

    kind: Fault
    text: str

    @property
    def finding(self) -> Finding:
        """As the condition Faulted says it."""
        return Finding(True, self.kind, self.text)


@dataclass(frozen=True, slots=True)
class CardHealthState:
    """A fold of one card's samples; the planner takes what is unread of it, nothing here is a verdict."""

    last_heard: float
    """When a sample last came, or none was expected; seconds since the epoch."""
    has_new_sample: bool = False
    """Whether a sample came since the last evaluation."""
    pending: CardFault | None = None
    """The gravest fault that samples showed since the last evaluation, the newest of several events."""
    warnings: tuple[str, ...] = ()
    """Errors that do not fault the card and of which no event was sent yet."""
    clean_scrapes: int = 0
    """Scrapes in a row without a new error, with rows in order or accepted, below the fault temperature."""
    cool_scrapes: int = 0
    """Scrapes in a row below the clear temperature."""
    last_xids: frozenset[int] | None = None
    """Error numbers that DCGM last showed; None before the first look."""
    last_xid: int | None = None
    ecc_volatile: int | None = None
    ecc_aggregate: int | None = None
    temperature: int | None = None
    """Degrees Celsius."""
    hot_scrapes: int = 0
    """Scrapes in a row at or over the fault temperature."""
    throttled: bool | None = None
    contradicting_scrapes: int = 0
    """Scrapes in a row that contradict `throttled`."""
    remap_pending: bool = False
    """Whether a row waits to be replaced at the next reset."""
    remap_accepted: bool | None = None
    """Whether a person took the card back although its rows cannot be remapped; None while nobody took it back."""


@dataclass(frozen=True, slots=True)
class CardVerdict:
    """What was concluded from a card's telemetry, as the status records it."""

    finding: Finding | None = None
    """The condition Faulted: True, False or Unknown (None); no finding while nothing can be said."""
    fault: CardFault | None = None
    """Why the card is out of service."""
    end: FaultEnd | None = None
    """How the last fault ended, while there is none."""
