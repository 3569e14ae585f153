"""Progress of a GPUDevice with its part of the node's MIG layout. Pure.

A card has `maintenance.deadline` from when it was asked for. What has come true and is so no longer counts as failed at
once, but where the driver was loaded anew, as by a reboot: its instances end with that, and the card is requested again
by itself (`retry`). The report may be the first to be of the new loading: then the MIG manager's answer is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.domain.allocation import is_applied
from controllers.domain.clock import seconds
from controllers.domain.eligibility import check_mig_state, teller
from controllers.domain.issuing import offer_of
from controllers.domain.pool_lifecycle import last_phase
from controllers.gpupool.mig import retry
from controllers.gpupool.mig.cards import acknowledged, is_done

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, MigApply
    from controllers.api.kube import Node
    from controllers.domain.mig import PlannedCard
    from controllers.gpupool.views import ObservedPool

NEVER: Final = float("inf")
HAS_BEEN: Final = ("Drifted", "Offered", "AwaitingWithdrawal")
"""Field `offer` of a card that was offered until its layout was found to be another."""


@dataclass(frozen=True, slots=True)
class CardProgress:
    """How far one card is: done where `due` and `failed` are None."""

    due: float | None = None
    """When it will have had its time; NEVER where its time has not begun."""
    failed: str | None = None
    drifted: bool = False
    """Whether it failed after it had been as it should."""


def part_progress(view: ObservedPool, device: GPUDevice, part: PlannedCard, now: float) -> CardProgress:
    """How far one card is."""
    if is_done(part, device):
        return CardProgress()
    reply, node = acknowledged(part, device), view.facts(device.status.node_name).node
    if reply is not None and (outcome := _outcome(view, device, part, reply, node)) is not None:
        return outcome
    began, patience = _began(part), view.settings.maintenance.deadline
    if began is None:
        return CardProgress(due=NEVER)
    if now < began + patience:
        return CardProgress(due=began + patience)
    how_far = f"the MIG manager says {reply.phase}" if reply is not None else "the MIG manager has not answered"
    if reply is not None and reply.phase == "Done":
        how_far += f", and the node's report does not show it; see whether {teller(device)} runs"
    return CardProgress(failed=f"not divided within maintenance.deadline ({patience:g} s): {how_far}")


def _outcome(
    view: ObservedPool, device: GPUDevice, part: PlannedCard, reply: MigApply, node: Node | None
) -> CardProgress | None:
    """The progress of a card with which the MIG manager is through; None where it works on it."""
    if reply.phase == "Failed":
        return CardProgress(failed=reply.explanation or "the MIG manager does not say why")
    if reply.phase == "Lost":
        if retry.may_retry(part, node):
            return CardProgress(due=NEVER)  # it is requested again once nobody uses it
        return CardProgress(
            failed=f"{reply.explanation}; in this boot of the node that was mended {retry.RETRIES_MAX} times already"
        )
    # Of another loading in the same boot: a pool in Maintenance keeps its deadline, whatever is not told.
    if retry.is_of_another_boot(reply, node) or (is_applied(view.pool) and retry.is_of_another_loading(reply, device)):
        return CardProgress(due=NEVER)  # the manager answers anew when it is back
    if _has_drifted(view, device, reply):
        return CardProgress(failed=str(check_mig_state(device) or "it is no longer divided as it was"), drifted=True)
    return None


def _began(part: PlannedCard) -> float | None:
    """When a card's part was requested, in epoch seconds; None where somebody has edited that away."""
    try:
        return seconds(part.asked)
    except ValueError:
        return None


def _has_drifted(view: ObservedPool, device: GPUDevice, reply: MigApply) -> bool:
    """Whether a card was partitioned as its part asks, and is no longer.

    A report may come after the acknowledgement: only a card that was offered had been as it should, by what its plugin
    reports or, once that has withdrawn it, by the card's last `offer`. Once that is Drifted, or the pool has
    halted for it, it stays so until somebody resumes or the card is right again.
    """
    if reply.phase != "Done":
        return False
    was_offered = device.status.published is not None and device.status.published.pool == view.pool.name
    has_been = offer_of(device) in HAS_BEEN and is_applied(view.pool)
    return was_offered or last_phase(view.pool) == "Halted" or has_been
