"""The condition Faulted of a GPUDevice, out of every source of faults. Pure.

A card is faulted because it is gone, because its telemetry says so, or because a validator finds fault with it
alone, in this order. Each is shown of that card, so no fuse keeps it in service (ADR 0026).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.conditions import Finding
from controllers.bootstrap.health import evaluate
from controllers.bootstrap.health.recall import fault_of
from controllers.bootstrap.preparation.validations import fails, validation_of
from controllers.bootstrap.telemetry_records import CardFault
from controllers.domain.position import is_lost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.gpudevice import Fault, FaultEnd
    from controllers.bootstrap.health.evaluate import CardEvaluation
    from controllers.bootstrap.records import Card
    from controllers.bootstrap.views import ObservedNode

LOST: Final = "CardLost"
BACK: Final = "CardBack"
"""Of a card that was gone."""
VALIDATION_FAILED: Final = "ValidationFailed"
VALIDATED: Final = "Validated"
REASONS: Final = (*evaluate.REASONS, LOST, BACK, VALIDATION_FAILED, VALIDATED)
"""Every reason of the condition Faulted."""


@dataclass(frozen=True, slots=True)
class Faulted:
    """What the condition Faulted should say of a card, and the fields beside it."""

    finding: Finding
    fault: Fault | None = None
    end: FaultEnd | None = None


def faulted(seen: ObservedNode, card: Card, made: CardEvaluation | None, roles: Sequence[str]) -> Faulted | None:
    """What the condition should say; None where nothing can be said."""
    if (fault := _fault(seen, card, made, roles)) is not None:
        return Faulted(fault.finding, fault.kind)
    over = _ended(card)
    if made is None or made.verdict.finding is None:
        return over
    # How the last fault ended telemetry knows, or, where that was another's verdict, the status.
    return Faulted(made.verdict.finding, end=made.verdict.end or (over.end if over else card.status.fault_end))


def _fault(seen: ObservedNode, card: Card, made: CardEvaluation | None, roles: Sequence[str]) -> CardFault | None:
    """What keeps the card out of service."""
    if is_lost(card.status):
        return CardFault(LOST, f"card {card.status.inventory_id} is gone from node {seen.name} while it is in a pool")
    if made is not None and made.verdict.fault is not None:
        return made.verdict.fault
    for role in roles:
        found = validation_of(seen, role)
        if found is not None and fails(found, card):
            message = f"the {role} check of node {seen.name} finds fault with the card alone: {found.message}"
            return CardFault(VALIDATION_FAILED, message)
    return _unrefuted(seen, card, roles)


def _unrefuted(seen: ObservedNode, card: Card, roles: Sequence[str]) -> CardFault | None:
    """What a validator found with the card, where none has looked since the node started or its report went."""
    recorded = fault_of(card.status)
    if recorded is None or recorded.kind != VALIDATION_FAILED or not roles:
        return None
    return recorded if all(validation_of(seen, role) is None for role in roles) else None


def _ended(card: Card) -> Faulted | None:
    """How a fault that telemetry did not find is over; None where the status records no such fault."""
    recorded = fault_of(card.status)
    if recorded is None:
        return None
    if recorded.kind == LOST:
        message = f"card {card.status.inventory_id} is back in node {card.status.node_name}"
        return Faulted(Finding(False, BACK, message), end="Back")
    if recorded.kind == VALIDATION_FAILED:
        return Faulted(Finding(False, VALIDATED, "no validator finds fault with the card any more"), end="Validated")
    return None
