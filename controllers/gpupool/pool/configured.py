"""Condition Configured of a GPUPool's member card: whether its device plugin offers what it should. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import Finding
from controllers.domain.eligibility import HELD_ELSEWHERE, check_mig_mode, check_mig_state, part_of
from controllers.domain.request import suffixes_for
from controllers.domain.usage import foreign_users
from controllers.domain.wording import listed
from controllers.gpupool.membership.assignment import is_daemon_gone, is_mig_cleared, is_offerable
from controllers.gpupool.mig.awaited_cards import card_progress
from controllers.gpupool.mig.retry import is_of_another_boot, is_of_another_loading
from controllers.gpupool.pool.conditions import LAYOUT_DRIFTED, LEAVE_OUT, PODS_UNKNOWN
from controllers.gpupool.pool.layouts import is_card_ready
from controllers.gpupool.pool.node_outage import explain_node_outage
from controllers.gpupool.pool.offering import is_withheld_for_unknown_pods

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Offer, Published
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool


@dataclass(frozen=True, slots=True)
class CardFinding:
    """Condition Configured of a card, and the field `offer` that goes with it."""

    finding: Finding
    offer: Offer = "KeptOut"


def evaluate_configured(
    view: ObservedPool, state: PoolState, device: GPUDevice, desired: Published | None, now: float
) -> CardFinding:
    """Condition Configured of a card; `desired` is None where the card is not to be offered."""
    found = (
        _withheld(view, state, device)
        or _elsewhere(view, state, device)
        or _awaiting_mig(view, state, device, now)
        or _awaiting_daemon(view, device, desired)
        or _published(device, desired)
    )
    node = device.status.node_name
    is_waiting = not (found.finding.status and view.wants(device))
    if is_waiting and (why := explain_node_outage(view.facts(node), node or "")):
        return replace(found, finding=replace(found.finding, message=f"{found.finding.message} {why}"))
    return found


def _withheld(view: ObservedPool, state: PoolState, device: GPUDevice) -> CardFinding | None:
    """Of a card that would be offered, but for pods that are not the pool's, or that nobody knows."""
    if not state.offers or not is_offerable(view, device):
        return None
    if (what := foreign_users(device)) is not None:
        return _used_by_others(device, what)
    is_withheld = device.status.published is None and is_withheld_for_unknown_pods(view, state, device)
    return _used_by_unknown_pods(device) if is_withheld else None


def _used_by_others(device: GPUDevice, what: str) -> CardFinding:
    """Of a card that others have by a resource that is not the module's."""
    both = " Pods of this pool have it, too, and keep it: two tenants share its memory."
    own = both if device.status.allocations else ""
    message = f"The card is not offered: {what}.{own} It comes back once they have ended."
    return CardFinding(Finding(False, HELD_ELSEWHERE, message))


def _elsewhere(view: ObservedPool, state: PoolState, device: GPUDevice) -> CardFinding | None:
    """Of a card that would be offered, or divided, but for another program that does so on its node."""
    if not state.offers or not is_offerable(view, device):
        return None
    other, node = view.facts(device.status.node_name).elsewhere, device.status.node_name
    if other.plugin is not None:
        does = f"another device plugin offers the cards of node {node} ({other.plugin})"
    elif other.mig is not None and not is_card_ready(view, state.applied, device):
        does = f"another MIG manager divides the cards of node {node} ({other.mig})"
    else:
        return None
    message = f"The card is not offered: {does}. It is as soon as that has left the node: docs/coexistence.md."
    return CardFinding(Finding(False, "ManagedElsewhere", message))


def _used_by_unknown_pods(device: GPUDevice) -> CardFinding:
    """Of a card that is kept off the lists by a pod that the cluster does not have."""
    node, pods = device.status.node_name, sorted({f"{a.namespace}/{a.pod}" for a in device.status.allocations})
    message = (
        f"The card is not offered: kubelet on {node} tells of pods on it that the cluster does not have there, or that"
        f" have ended ({listed(pods)}). It is offered once kubelet tells of them no more: a pod that was deleted by"
        " force may run on. Where there is no such pod, the node's device plugin lies: replace the node."
    )
    return CardFinding(Finding(False, PODS_UNKNOWN, message))


def _awaiting_mig(view: ObservedPool, state: PoolState, device: GPUDevice, now: float) -> CardFinding | None:
    """Of a card that waits for its MIG manager, or for which MIG has failed; None elsewhere."""
    if device.status.published is not None:
        return None
    if not view.wants(device):
        if is_mig_cleared(view, device):
            return None
        message = f"Node {device.status.node_name} has yet to turn MIG mode off: {_mig_manager_reply(view, device)}"
        return CardFinding(Finding(False, "AwaitingTurnBack", message))
    if not state.offers or not is_offerable(view, device) or is_card_ready(view, state.applied, device):
        return None
    if (failed := _mig_failed(view, state, device, now)) is not None:
        return failed
    message = f"Node {device.status.node_name} has yet to divide the card: {_mig_manager_reply(view, device)}"
    return CardFinding(Finding(False, "AwaitingLayout", message), "AwaitingLayout")


def _awaiting_daemon(view: ObservedPool, device: GPUDevice, desired: Published | None) -> CardFinding | None:
    """Of a card whose MPS control daemon has yet to serve, or to go; None elsewhere."""
    daemon, node = device.status.mps, device.status.node_name
    if daemon is None or daemon.phase == "Ready" or device.status.published is not None:
        return None
    if desired is not None and daemon.phase == "Down":
        message = (
            f"The card is not offered: {names.MPS_DOWN} on node {node}: {daemon.spelled}. It is tried again by itself."
        )
        return CardFinding(Finding(False, names.MPS_DOWN, message), "AwaitingPlugin")
    if desired is None and (view.wants(device) or is_daemon_gone(view, device)):
        return None
    message = f"Node {node} has yet to end the card's MPS control daemon: {daemon.spelled}."
    return CardFinding(Finding(False, "AwaitingDaemonEnd", message), "KeptOut" if desired is None else "AwaitingPlugin")


def _mig_manager_reply(view: ObservedPool, device: GPUDevice) -> str:
    """What the MIG manager has answered for a card, and what its node does not report of it."""
    reply = device.status.mig_apply
    phase = f"its MIG manager says {reply.phase}" if reply is not None else "its MIG manager has not answered"
    why = f" ({reply.explanation})" if reply is not None and reply.explanation else ""
    if reply is not None and is_of_another_boot(reply, view.facts(device.status.node_name).node):
        why = " and has not looked again since the node was started anew"
    elif reply is not None and reply.phase == "Done" and is_of_another_loading(reply, device):
        why = " of another loading of the driver than the card's report is of; the older of the two comes anew"
    missing = f" {unknown}." if (unknown := check_mig_state(device)) is not None else ""
    return f"{phase}{why}.{missing}"


def _mig_failed(view: ObservedPool, state: PoolState, device: GPUDevice, now: float) -> CardFinding | None:
    """Of a card that is left out until a person does something; None where it is waited for."""
    part = part_of(view.facts(device.status.node_name).layout, device)
    if (ineligible := check_mig_mode(state.applied.mode, part, device)) is not None:
        message = f"The card is not offered: {ineligible.message}. {ineligible.action}."
        return CardFinding(Finding(False, ineligible.kind, message))
    progress = card_progress(view, device, state.applied, now)
    if progress.failed is None:
        return None
    retry = f"kubectl annotate gpupool {view.pool.name} {names.RESUME}=true"
    out = LEAVE_OUT.replace("<card>", device.name)
    what = progress.failed.rstrip(".")
    message = f"The card is not offered: {what}. Mend it and have it tried again: {retry}; or leave it out: {out}."
    if progress.drifted:
        return CardFinding(Finding(False, LAYOUT_DRIFTED, message), "Drifted")
    return CardFinding(Finding(False, names.REASON_LAYOUT_FAILED, message))


def _published(device: GPUDevice, desired: Published | None) -> CardFinding:
    """Of what the plugin publishes against what it should."""
    published, node = device.status.published, device.status.node_name
    if desired is None:
        if published is None:
            return CardFinding(Finding(True, "Withdrawn", "The card is not to be offered, and is not."), "Withdrawn")
        message = f"The device plugin on {node} has yet to withdraw the card."
        return CardFinding(Finding(False, names.REASON_AWAITING_WITHDRAWAL, message), "AwaitingWithdrawal")
    if published is None:
        message = f"The device plugin on {node} has yet to offer the card."
        return CardFinding(Finding(False, "AwaitingPlugin", message), "AwaitingPlugin")
    if published != desired:
        message = f"The device plugin on {node} offers {_spelled(published)}; {_spelled(desired)} is expected."
        return CardFinding(Finding(False, "SettingsDiffer", message))
    suffixes = suffixes_for(desired.pool, (each.profile for each in desired.profiles or ()))
    resources = listed(map(names.resource_name, suffixes))
    message = f"The device plugin on {node} offers the card as {resources}."
    return CardFinding(Finding(True, "Published", message), "Offered")


def _spelled(offer: Published) -> str:
    return f"pool {offer.pool}, settings {offer.config_version}, slots {offer.slots}"
