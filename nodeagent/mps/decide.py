"""What is next for the daemon of one card, from what is wanted and what is there. Pure.

Daemons are never changed while somebody may use the card: the plugin says so by `keep`, and then one that runs stays as
it is. A daemon that has died is started anew all the same, since its clients have failed with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from nodeagent.host.mpsfiles import DaemonState, WantedDaemon

Step = Literal["Start", "Stop", "Probe"]


@dataclass(frozen=True, slots=True)
class Next:
    """The next step of a card, and the settings that it is made with."""

    step: Step
    wanted: WantedDaemon | None = None


def next_step(wanted: WantedDaemon | None, known: DaemonState | None, *, runs: bool) -> Next | None:
    """The step of a card; None where nothing is to be done.

    `known`: what the role has said of the card; `runs`: whether this process has a daemon for it that lives.
    """
    if wanted is None:
        return Next("Stop") if runs or known is not None else None
    if not runs:
        # Who may still be on the card came by the former settings.
        former = known.wanted if known is not None and wanted.keep else None
        return Next("Start", former or wanted)
    if known is not None and known.version != wanted.version and not wanted.keep:
        return Next("Stop")  # and is started with the new settings in the next round
    return Next("Probe", known.wanted if known is not None else wanted)
