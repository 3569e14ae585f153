"""The order in which a node is prepared, as a table, and how far a node is. Pure.

A component's gate is a label of the node. It opens when everything before it is ready there,
and stays open: a driver's validator that restarts must not tear the toolkit from under
running pods. It closes only with the node (not managed, no cards), with the component's setting, or while a card
that it holds is to be reset (see `mig`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import conditions as kinds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from controllers.api.component_settings import ComponentSettings
    from controllers.api.reasons.typed import Reason
    from controllers.api.settings import BootstrapSettings


@dataclass(frozen=True, slots=True)
class Phase:
    """One component of the preparation."""

    component: str
    setting: str
    """Its place in the settings' `bootstrap`."""
    not_ready: Reason
    """What conditions say while its pod is not ready."""
    overdue: Reason
    """The same after the deadline."""
    condition: str
    """The node's condition that says that it is missing."""
    essential: bool = True
    """Whether cards leave circulation when it fails later; GFD only writes labels."""
    opens_cards: bool = False
    """Whether it holds the cards open, so that they cannot be reset (MIG) while it runs."""


EXPORTER: Final = "dcgm-exporter"
VALIDATOR: Final = "validator"
# A managed driver has its seat here: a phase `driver` before all others, its setting `bootstrap.driver` switched off
# by default, and a function that builds its pod in `operands`. All else follows from the row: gate, order, deadline,
# reasons. The check that comes after it is the same, whoever installed the driver.
PHASES: Final = (
    Phase(
        "driver-validator",
        "driver_validator",
        "DriverValidatorNotReady",
        "DriverValidatorOverdue",
        kinds.DRIVER_MISSING,
    ),
    Phase("toolkit", "toolkit", "ToolkitNotReady", "ToolkitOverdue", kinds.TOOLKIT_MISSING),
    # It asks NVML again and again, each time with every card open.
    Phase("gfd", "gfd", "GfdNotReady", "GfdOverdue", kinds.INFRA_DEGRADED, essential=False, opens_cards=True),
    # The host engine watches fields of every card, and keeps all of them open for it.
    Phase("dcgm", "dcgm", "DcgmNotReady", "DcgmOverdue", kinds.MONITORING_MISSING, opens_cards=True),
    # It asks NVML about the cards itself, and without an engine it holds them in its own.
    Phase(
        EXPORTER,
        "dcgm_exporter",
        "DcgmExporterNotReady",
        "DcgmExporterOverdue",
        kinds.MONITORING_MISSING,
        opens_cards=True,
    ),
    # Its container has every card, and asks NVML of each in turn.
    Phase(VALIDATOR, "validator", "ValidatorNotReady", "ValidatorOverdue", kinds.INFRA_DEGRADED, opens_cards=True),
)
CLIENTS: Final = frozenset(phase.component for phase in PHASES if phase.opens_cards)
"""Components that go before a card is reset. The driver's validator has no device nodes and reads the host's files.
The toolkit stays, since pods need their runtime: it opens the cards for a moment when it makes their specification anew
(ADR 0019), and a reset that finds one in use is tried again."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a node is."""

    gates: frozenset[str]
    """Components that may run on the node."""
    blocking: Phase | None
    """The component that is waited for; None when all that counts is ready."""


def setting(phase: Phase, settings: BootstrapSettings) -> ComponentSettings:
    """What the administrator set for a component."""
    chosen: ComponentSettings = getattr(settings, phase.setting)
    return chosen


def enabled(settings: BootstrapSettings) -> list[Phase]:
    """The components that are to run, in order."""
    return [phase for phase in PHASES if setting(phase, settings).enabled]


def progress(
    phases: Iterable[Phase], ready: Collection[str], opened: Collection[str], closed: Collection[str] = ()
) -> Progress:
    """Which gates are open from what is ready on the node and which gates were open, and who is waited for.

    `closed`: components that may not run for now, whatever is ready.
    """
    gates: set[str] = set()
    waiting: list[Phase] = []
    for phase in phases:
        if phase.component not in closed and (phase.component in opened or not waiting):
            gates.add(phase.component)
        if phase.component not in ready:
            waiting.append(phase)
    if not any(phase.essential for phase in waiting):
        return Progress(frozenset(gates), None)
    # One that runs and fails is the cause; one behind a closed gate only waits for another.
    failing = (phase for phase in waiting if phase.essential and phase.component in gates)
    return Progress(frozenset(gates), next(failing, waiting[0]))
