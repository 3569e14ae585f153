"""MIG work on a node's cards: what it stops of the preparation, and for how long. Pure.

The node's MIG manager tells of its work in each card's `migApply`. While a card waits or is being changed the node's
preparation is suspended: `bootstrap.suspended` says so, and the clock of all waits (`bootstrap.lastRun`, see `plan`)
starts with it. A suspension that outlasts `bootstrap.phaseDeadline` is over for us, whatever the manager says, until
no card is worked on any more: components come back, and what is missing then counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.gpudevice import MIG_WORK
from controllers.bootstrap.phases import CLIENTS, VALIDATOR
from controllers.domain.catalogue import model
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpunodeinventory import Bootstrap
    from controllers.bootstrap.records import Card

WITNESS: Final = frozenset({VALIDATOR})
"""What goes in any case: a container has the device nodes of the moment when it was made, and NVML shows it no instance
whose nodes it lacks. The one that comes when the work is done tells how the cards are divided. One that nobody sent
away ends itself (`nodeagent.validate.checks.renewal`), but after each division kubelet restarts it later."""


@dataclass(frozen=True, slots=True)
class Suspension:
    """What MIG work makes of a node's preparation."""

    on: bool | None = None
    """Whether it is suspended; False while work goes on that took too long, None without work."""
    closed: frozenset[str] = frozenset()
    """Components whose gates are closed meanwhile."""
    left: float = 0.0
    """Seconds that remain of it."""


NONE: Final = Suspension()


def suspension(cards: Iterable[Card], recorded: Bootstrap | None, deadline: float, now: float) -> Suspension:
    """What MIG work makes of a node; `recorded`: what was told of it last."""
    working = [card for card in cards if at_work(card)]
    if not working:
        return NONE
    left = deadline
    if recorded is not None and recorded.suspended is not None:
        since = _since(recorded, now)
        left = since + deadline - now
        if not recorded.suspended or left <= 0:
            return Suspension(on=False)
    return Suspension(True, CLIENTS if any(map(_is_reset, working)) else WITNESS, left)


def silences(cards: Iterable[Card], recorded: Bootstrap | None) -> bool:
    """Whether MIG work excuses that nobody tells of the node's cards."""
    over = recorded is not None and recorded.suspended is False
    return not over and any(map(at_work, cards))


def at_work(card: Card) -> bool:
    """Whether the MIG manager has to do with the card."""
    return card.status.mig_apply is not None and card.status.mig_apply.phase in MIG_WORK


def _is_reset(card: Card) -> bool:
    """Whether the GPU may be reset, so that its clients must go first.

    The catalogue says it of entering and leaving MIG mode; which of these the work is, the manager knows. A card that
    is not in the catalogue is taken to need it: to send clients away in vain costs a minute, to keep them the work.
    """
    pci = card.status.hardware.pci if card.status.hardware else None
    known = model(pci.vendor, pci.device) if pci else None
    return known is None or known.mig_needs_reset is not False


def _since(recorded: Bootstrap, now: float) -> float:
    """When it began; now, where somebody spoiled the record, which is then written anew."""
    try:
        return seconds(recorded.last_run or "")
    except ValueError:
        return now
