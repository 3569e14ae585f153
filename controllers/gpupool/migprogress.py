"""How far a card is with its part of its node's MIG layout. Pure.

A card has `maintenance.deadline` from when it was asked for. What has come true and is so no longer counts as failed at
once, but where the driver was loaded anew, as by a reboot: its instances end with that, and the card is asked for again
by itself (`again`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.domain.allocation import is_applied
from controllers.domain.clock import seconds
from controllers.domain.eligibility import teller, untold_state
from controllers.domain.pool_lifecycle import last_phase
from controllers.domain.slots import offer_of
from controllers.gpupool import again
from controllers.gpupool.migcards import acknowledged, is_done

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, MigApply
    from controllers.api.kube import Node
    from controllers.domain.mig import PlannedCard
    from controllers.gpupool.observe import ObservedPool

NEVER: Final = float("inf")
HAS_BEEN: Final = ("Drifted", "Offered", "AwaitingWithdrawal")
"""What is said last of the offer of a card that was offered until its division was found to be another."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one card is: done where `due` and `failed` are None."""

    due: float | None = None
    """When it will have had its time; NEVER where its time has not begun."""
    failed: str | None = None
    drifted: bool = False
    """Whether it failed after it had been as it should."""


def of_part(seen: ObservedPool, device: GPUDevice, part: PlannedCard, now: float) -> Progress:
    """How far one card is."""
    if is_done(part, device):
        return Progress()
    told, node = acknowledged(part, device), seen.facts(device.status.node_name).node
    if told is not None and (ended := _ended(seen, device, part, told, node)) is not None:
        return ended
    began, patience = _began(part), seen.settings.maintenance.deadline
    if began is None:
        return Progress(due=NEVER)
    if now < began + patience:
        return Progress(due=began + patience)
    how_far = f"the MIG manager says {told.phase}" if told is not None else "the MIG manager has not answered"
    if told is not None and told.phase == "Done":
        how_far += f", and the node's report does not show it; see whether {teller(device)} runs"
    return Progress(failed=f"not divided within maintenance.deadline ({patience:g} s): {how_far}")


def _ended(
    seen: ObservedPool, device: GPUDevice, part: PlannedCard, told: MigApply, node: Node | None
) -> Progress | None:
    """How far a card is with which the MIG manager is through in vain, or was once; None where it is at it."""
    if told.phase == "Failed":
        return Progress(failed=told.why or "the MIG manager does not say why")
    if told.phase == "Lost":
        if again.has_turn(part, node):
            return Progress(due=NEVER)  # it is asked for again once nobody is on it
        return Progress(failed=f"{told.why}; in this boot of the node that was mended {again.TIMES} times already")
    if again.is_of_another_boot(told, node):
        return Progress(due=NEVER)  # the manager looks at it when it is back, and says what the reboot has left
    if _has_drifted(seen, device, told):
        return Progress(failed=str(untold_state(device) or "it is no longer divided as it was"), drifted=True)
    return None


def _began(part: PlannedCard) -> float | None:
    """When a card's time began; None where a foreign hand has taken that away."""
    try:
        return seconds(part.asked)
    except ValueError:
        return None


def _has_drifted(seen: ObservedPool, device: GPUDevice, told: MigApply) -> bool:
    """Whether a card that was as its part says is so no longer.

    A report may come after the acknowledgement: only a card that was offered had been as it should, by what its plugin
    says or, once that has withdrawn it, by what the card said last. Once it has said that it drifted, or the pool has
    halted for it, it stays so until somebody resumes or the card is right again.
    """
    if told.phase != "Done":
        return False
    was_offered = device.status.published is not None and device.status.published.pool == seen.pool.name
    has_been = offer_of(device) in HAS_BEEN and is_applied(seen.pool)
    return was_offered or last_phase(seen.pool) == "Halted" or has_been
