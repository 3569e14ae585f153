"""What is known of nodes' exporters and of cards' health between two scrapes, as records. Pure.

The monitor keeps them, views show them, and `health` folds samples into them and gives the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from controllers.api.conditions import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

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


@dataclass(frozen=True, slots=True)
class CardTelemetry:
    """One card, as views show it."""

    state: CardHealthState
    """What its samples showed."""
    verdict: CardVerdict
    """What was concluded last."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What is known of one node's exporter."""

    monitored_since: float
    """When monitoring began, or the suspension was last seen; seconds since the epoch."""
    ready: bool | None = None
    """True ready, False missing, None not known yet."""
    streak: int = 0
    """Fresh scrapes in a row."""
    last: float | None = None
    """The last fresh scrape."""


@dataclass(frozen=True, slots=True)
class NodeTelemetry:
    """One node and its cards, as views show them; nothing is concluded here."""

    heartbeat: Heartbeat | None = None
    """How the exporter answers; None where it is not monitored."""
    is_outage: bool = False
    """Whether so many nodes are silent at once that the silence is taken to be ours."""
    error: str = ""
    """What was wrong with the last scrape, for people; empty when all was well."""
    cards: Mapping[str, CardTelemetry] = field(default_factory=dict)
    """By the names of the GPUDevices; a card without a sample and a verdict so far is not there."""
