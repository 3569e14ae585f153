"""The table of a node's phases while its driver is brought or replaced. Pure.

Limits and what follows come from `controllers/domain/driver/states.py`; what ends a phase is written here, a sentence
for each: a phase without one is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.driver.states import PRECOMPILED_LIMIT, STATES

if TYPE_CHECKING:
    from controllers.api.driver_work import Phase
    from controllers.domain.driver.states import State

MINUTE: Final = 60.0
OF_THE_DRIVER: Final[dict[Phase, str]] = {
    "Draining": "`drain.waitFor` + `drain.timeout`",
    "Soaking": "`canary.soak` or `waveSoak`",
}
"""Limits that the GPUDriver sets."""
ENDS: Final[dict[Phase, str]] = {
    "Preflight": "the check pod has ended; what it found holds for an hour",
    "Blocked": "the choice is another one; where a look found something, after 1 to 30 min; `driver-retry`",
    "Queued": "there is a start permit, the revision is proved on such nodes or nobody tries it, nobody has paused it,"
    " and the node is neither cordoned nor leaving; where the driver is replaced: the roll-out takes the node out of"
    " service",
    "Withdrawing": "the node is out of service, and no card of it is offered or promised",
    "Draining": "no pod uses a card of the node",
    "Clearing": "clients of the driver have left, and a pod that looks has found nobody who has it open",
    "Removing": "the former driver's pod has ended",
    "Installing": "the driver's pod is ready; it says that it failed",
    "Validating": "the node is in service with the version that is wanted",
    "Relayout": "every card has its MIG layout again",
    "Returning": "no card of the node is about to be offered: each that its pool offers is, or is kept out",
    "Soaking": "it has served so long, a canary with `evidence: Use` also until a pod has used it, for a day at most;"
    " without a result where another revision is wanted, or the node is out of service for an hour",
    "Failed": "it serves after all; a new revision, a new boot, `driver-retry`, `resume` of the GPUDriver",
    "Deferred": "its roll-out begins it again: after 30 min, then twice as long each time, up to a day; `driver-retry`",
    "RolledBack": "another revision is wanted; `resume` of the GPUDriver; `driver-retry`; where the node was at fault,"
    " when it is time to try again, as in Deferred",
    "Broken": "it serves after all; a new boot, `driver-retry`",
    "HandedOver": "the annotation goes",
}
"""What ends each phase before its limit."""


def phases() -> str:
    """The phases in their order: limit, what follows it, whether it is finished, its start permit, what ends it."""
    lines = [
        "| phase | limit | then | finished | start permit | is left when |",
        "|---|---|---|---|---|---|",
    ]
    for phase, state in STATES.items():
        cells = (f"`{phase}`", _limit(phase, state), _then(state), "–" if state.let_go else "yes", state.permit or "–")
        lines.append(f"| {' | '.join(cells)} | {ENDS[phase]} |")
    return "\n".join(lines)


def _limit(phase: Phase, state: State) -> str:
    if state.limit is None:
        return OF_THE_DRIVER.get(phase, "–")
    precompiled = f"; precompiled {PRECOMPILED_LIMIT / MINUTE:g} min" if phase == "Installing" else ""
    return f"{state.limit / MINUTE:g} min{precompiled}"


def _then(state: State) -> str:
    if state.late is None:
        return "–"
    return f"`{state.late}`" + (f" (`{state.late_reason}`)" if state.late_reason else "")
