"""The states of a node whose driver the module installs, as data: limits, and what follows where one passes. Pure.

Rows for nodes that have a driver already (Withdrawing to Removing, Relayout to Soaking, RollingBack) come with the
roll-out of new revisions; their phases are in the contract (`controllers.api.driver_work`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from controllers.api.driver_work import Phase
    from controllers.api.reasons.typed import Reason

Slot = Literal["preflight", "install"]
"""What only so many nodes do at once: to be looked at, or to get a driver. A node in that phase has the slot."""
Fault = Literal["revision", "node"]
"""Whose fault a failure is: the revision's, on every node of its kind, or the node's alone."""

MINUTE: Final = 60.0
PREFLIGHT_HOLDS: Final = 60 * MINUTE
"""Seconds for which a look at a node holds; then it is looked at anew before anything starts."""
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
    slot: Slot | None = None
    """The slot that a node in this phase has."""


STATES: Final[dict[Phase, State]] = {
    "Preflight": State(15 * MINUTE, "Blocked", "PreflightTimeout", slot="preflight"),
    "Blocked": State(None),
    "Queued": State(None),
    "Installing": State(30 * MINUTE, "Failed", "InstallTimeout", let_go=False, slot="install"),
    "Validating": State(15 * MINUTE, "Failed", "ValidationTimeout", let_go=False),
    "Failed": State(None),
}
"""The phases of a node that gets its first driver, in order; beside them, those in which it goes no further."""
PRECOMPILED_LIMIT: Final = 10 * MINUTE
"""Seconds that Installing may last where nothing is compiled."""
UNDER_WAY: Final[frozenset[Phase]] = frozenset(phase for phase, state in STATES.items() if not state.let_go)
"""Phases that are finished, whatever becomes of the GPUDriver."""
TRYING: Final[frozenset[Phase]] = frozenset(("Installing", "Validating"))
"""Phases in which a node tries a revision: of one that is not proved, one node of each kind."""


def limit_of(phase: Phase, *, compiled: bool = True) -> float | None:
    """Seconds that a phase may last; None for as long as it takes. `compiled`: modules are made on the node."""
    return STATES[phase].limit if compiled or phase != "Installing" else PRECOMPILED_LIMIT


def retry_after(attempt: int) -> float:
    """Seconds after which a node that was blocked in that attempt is looked at again."""
    return float(min(RETRY_MAX, RETRY_FIRST * 2 ** min(attempt - 1, 10)))
