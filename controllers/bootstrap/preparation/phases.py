"""The order in which components start on a node, and how far a node is. Pure.

A component's gate is a label of the node. It opens when everything before it is ready there,
and stays open: a driver's validator that restarts must not tear the toolkit from under
running pods. It closes only with the node (not managed, no cards), with the component's setting, or while a card
that it holds is to be reset (see `mig_work`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.components import COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from controllers.api.component import Component
    from controllers.api.settings import BootstrapSettings

PHASES: Final = COMPONENTS
"""The order of the table: a component starts once all before it are ready."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a node is."""

    gates: frozenset[str]
    """Components that may run on the node."""
    blocking: Component | None
    """The component that is waited for; None when all that counts is ready."""


def enabled(settings: BootstrapSettings) -> list[Component]:
    """The components that are to run, in order."""
    return [phase for phase in PHASES if settings.enabled(phase.name)]


def progress(
    phases: Iterable[Component], ready: Collection[str], opened: Collection[str], closed: Collection[str] = ()
) -> Progress:
    """Which gates are open from what is ready on the node and which gates were open, and who is waited for.

    `closed`: components that may not run for now, whatever is ready.
    """
    gates: set[str] = set()
    waiting: list[Component] = []
    for phase in phases:
        if phase.name not in closed and (phase.name in opened or not waiting):
            gates.add(phase.name)
        if phase.name not in ready:
            waiting.append(phase)
    if not any(phase.essential for phase in waiting):
        return Progress(frozenset(gates), None)
    # One that runs and fails is the cause; one behind a closed gate only waits for another.
    failing = (phase for phase in waiting if phase.essential and phase.name in gates)
    return Progress(frozenset(gates), next(failing, waiting[0]))
