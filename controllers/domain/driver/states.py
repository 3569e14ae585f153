"""The states of a node whose driver the module brings, as data: limits, and what follows where one passes. Pure.

A node without a driver goes from Queued to Installing. One whose driver is replaced leaves service between the two
(`LEAVING`, then Removing), and comes back by way of `BACK`. Up to Clearing it can be given back as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from controllers.api.driver_work import Phase
    from controllers.api.reasons.typed import Reason

StartPermit = Literal["preflight", "install"]
"""What only so many nodes do at once: to be looked at, or to get a driver. A node in that phase has the permit."""
Fault = Literal["revision", "node"]
"""Whose fault a failure is: the revision's, on every node of its kind, or the node's alone."""

MINUTE: Final = 60.0
DAY: Final = 86_400.0
"""Seconds for which what a node has cost out of service counts in the budget of GPU hours."""
PREFLIGHT_HOLDS: Final = 60 * MINUTE
"""Seconds for which a look at a node holds; then it is looked at anew before anything starts."""
DEFER_FIRST: Final = 30 * MINUTE
DEFER_MAX: Final = 24 * 60 * MINUTE
"""Seconds between two tries to take a node out of service, or one whose roll-back was its own fault: likewise."""
EVIDENCE_MAX: Final = 24 * 60 * MINUTE
"""Seconds after which a canary that no pod has used is proved by the module's own CUDA call."""
RETRY_FIRST: Final = MINUTE
RETRY_MAX: Final = 30 * MINUTE
"""Seconds between two looks at a node that cannot get its driver: doubled each time, up to this."""


@dataclass(frozen=True, slots=True)
class State:
    """One phase."""

    limit: float | None
    """Seconds that it may last; None for as long as it takes."""
    late: Phase | None = None
    """The phase that follows where the limit passes."""
    late_reason: Reason | None = None
    """The reason that it then has."""
    let_go: bool = True
    """Whether the node can be let go at once, as nothing has been done to it: where its GPUDriver is deleted, has
    another target now, or the module is disabled. Else the phase is finished first."""
    permit: StartPermit | None = None
    """The permit that a node in this phase has."""


STATES: Final[dict[Phase, State]] = {
    "Preflight": State(15 * MINUTE, "Blocked", "PreflightTimeout", permit="preflight"),
    "Blocked": State(None),
    "Queued": State(None),
    "Withdrawing": State(5 * MINUTE, "Deferred", "CardsNotWithdrawn"),
    "Draining": State(None, "Deferred", "PodsRemain"),
    "Clearing": State(5 * MINUTE, "Deferred", "DevicesHeld"),
    "Removing": State(10 * MINUTE, "Failed", "OldDriverStuck", let_go=False),
    "Installing": State(30 * MINUTE, "Failed", "InstallTimeout", let_go=False, permit="install"),
    "Validating": State(15 * MINUTE, "Failed", "ValidationTimeout", let_go=False),
    "Relayout": State(10 * MINUTE, "Returning"),
    "Returning": State(5 * MINUTE, "Soaking"),
    "Soaking": State(None),
    "Failed": State(None),
    "Deferred": State(None),
    "RolledBack": State(None),
    "Broken": State(None),
    "HandedOver": State(None),
}
"""The phases of a node, in order; beside them, those in which it goes no further. How long Draining may last, and
Soaking does, the GPUDriver says."""
LEAVING: Final[tuple[Phase, ...]] = ("Withdrawing", "Draining", "Clearing")
"""Phases in which a node is out of service with the driver that it had, and can be given back at once."""
BACK: Final[tuple[Phase, ...]] = ("Relayout", "Returning", "Soaking")
"""Phases of a node on which a driver that replaced another one serves."""
PRECOMPILED_LIMIT: Final = 10 * MINUTE
"""Seconds that Installing may last where nothing is compiled."""
UNDER_WAY: Final[frozenset[Phase]] = frozenset(phase for phase, state in STATES.items() if not state.let_go)
"""Phases that are finished, whatever becomes of the GPUDriver."""
TRYING: Final[frozenset[Phase]] = frozenset((*LEAVING, "Removing", "Installing", "Validating", *BACK))
"""Phases in which a node tries a revision: while that is not proved on its kind, no new node gets it."""


def limit_of(phase: Phase, *, compiled: bool = True) -> float | None:
    """Seconds that a phase may last; None for as long as it takes. `compiled`: modules are made on the node."""
    return STATES[phase].limit if compiled or phase != "Installing" else PRECOMPILED_LIMIT


def defer_for(attempt: int) -> float:
    """Seconds after which a node is tried again that was given back in that attempt."""
    return float(min(DEFER_MAX, DEFER_FIRST * 2 ** min(attempt - 1, 10)))


def retry_after(attempt: int) -> float:
    """Seconds after which a node that was blocked in that attempt is looked at again."""
    return float(min(RETRY_MAX, RETRY_FIRST * 2 ** min(attempt - 1, 10)))
