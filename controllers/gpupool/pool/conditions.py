"""What the conditions of a pool, and of its cards on a node that is away, say: found, expected, what to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import AVAILABLE, CAPACITY_LOW, MAINTENANCE, MISCONFIGURED, Finding, is_true
from controllers.domain.allocation import spelled
from controllers.domain.assignment import annotation_hint
from controllers.domain.capacity import is_low
from controllers.domain.eligibility import SERVED_MODES
from controllers.domain.wording import SHOWN, listed

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Offer
    from controllers.api.gpupool import Capacity
    from controllers.gpupool.pool.maintenance import Standing
    from controllers.gpupool.views import NodeFacts, ObservedPool


@dataclass(frozen=True, slots=True)
class Saying:
    """What a card says of its offer: the condition Configured, and the field that goes with it."""

    finding: Finding
    offer: Offer = "KeptOut"


NOT_OFFERED: Final = "CardsNotOffered"
"""CapacityLow is not judged, since the pool offers nothing, or its plugins have yet to offer what it has."""
SLOTS_NOT_SHOWN: Final = "SlotsNotShown"
"""Available of a pool whose plugins offer what kubelet does not show."""
LAYOUT_DRIFTED: Final = "LayoutDrifted"
"""Configured of a card that was divided as asked, and is no longer."""
PODS_UNKNOWN: Final = "PodsUnknown"
LEAVE_OUT: Final = f"kubectl label gpudevice <card> {names.LABEL_IGNORE}=true"
"""How an administrator says that a card is to be waited for no more."""

_DISABLED = (
    "The module is disabled: its programs leave the nodes and no card is given out. Pods that run keep their cards, and"
    f" the pool keeps its own. spec.enabled: true in ModuleConfig {names.MODULE} brings all of it back."
)


def findings(
    seen: ObservedPool, standing: Standing, total: Capacity, *, offered: int, coming: int, unshown: int
) -> dict[str, Finding]:
    """Every condition of a pool by its type.

    `offered`: its cards that plugins offer as they should. `coming`: slots of those that are about to be offered.
    `unshown`: free slots that plugins offer, and that kubelet should have shown by now.
    """
    return {
        AVAILABLE: _available(seen, standing, total, offered, unshown),
        MAINTENANCE: _maintenance(seen, standing),
        MISCONFIGURED: _misconfigured(seen, standing),
        CAPACITY_LOW: _capacity_low(seen, standing, total, coming),
    }


def _available(seen: ObservedPool, standing: Standing, total: Capacity, offered: int, unshown: int) -> Finding:
    members = len(seen.members)
    if offered and unshown:
        patience = seen.settings.pools.plugin_patience
        message = (
            f"{offered} of {members} cards are offered, but kubelet has not shown {unshown} free slots of them"
            f" (status.allocatable of the Nodes) within pools.pluginPatience ({patience:g} s): nobody is promised"
            " these. status.nodes says where, and what to do."
        )
        return Finding(total.available + total.used + total.reserved > 0, SLOTS_NOT_SHOWN, message)
    if offered:
        return Finding(True, "CardsOffered", f"{offered} of {members} cards are offered.")
    if members and standing.maintenance:
        return Finding(False, "InMaintenance", f"{members} cards are in the pool; condition Maintenance says why.")
    if members:
        message = f"{members} cards are in the pool and none is offered yet; status.nodes says why."
        return Finding(False, "NotYetOffered", message)
    to_do = f"Confirm candidates: kubectl annotate gpudevice <card> {annotation_hint(seen.pool.name)}"
    if standing.undividable:
        to_do = "None can come in; condition Misconfigured says why."
    return Finding(False, "NoCards", f"No card is in the pool. {to_do}")


def _maintenance(seen: ObservedPool, standing: Standing) -> Finding:
    if not standing.maintenance:
        configured = f"The nodes are configured for {spelled(standing.applied)}."
        none = "The pool has no cards, and no node is configured for it."
        return Finding(False, "AsExpected", none if standing.undividable else configured)
    if standing.phase == "Halted":
        return Finding(True, names.REASON_LAYOUT_FAILED, _failures(seen, standing))
    if standing.phase == "Disabled":
        return Finding(True, names.REASON_MODULE_DISABLED, _DISABLED)
    goal = f"spec.allocation asks for {spelled(standing.wanted)}; nodes are configured for {spelled(standing.applied)}."
    if standing.phase == "Rebuilding":
        return Finding(True, "Rebuilding", f"{goal} Nodes at work: {listed(standing.built.pending) or 'none yet'}.")
    if standing.phase == "Applying":
        return Finding(True, "Applying", f"{goal} Nobody uses a card; they are about to be offered anew.")
    return _draining(seen, standing, goal)


def _draining(seen: ObservedPool, standing: Standing, goal: str) -> Finding:
    """Who is waited for: pods before plugins, since only people can do something about them."""
    pods, cards = standing.holders, standing.offered
    told = [goal]
    if pods:
        # Counted, not named: whoever may ask for cards may read a pool.
        find = f"kubectl get pods -A -l {names.LABEL_POOL}={seen.pool.name}"
        told.append(f"Waiting for pods that hold cards or are promised some ({len(pods)}). To find them: {find}; those")
        told.append("without that label stand in status.allocations of the cards.")
    if cards:
        told.append(f"Waiting for device plugins to withdraw cards ({len(cards)}): {listed(cards)}.")
    if not standing.overdue:
        return Finding(True, "WaitingForPods" if pods else "AwaitingWithdrawal", " ".join(told))
    told.append(f"That takes longer than maintenance.deadline ({seen.settings.maintenance.deadline:g} s).")
    if cards:
        told.append(f"A card that its node does not let go of can be left out: {LEAVE_OUT}.")
    told.append(f"Nothing is killed: end what is in the way, or set the spec back to {spelled(standing.applied)}.")
    return Finding(True, "PodsOverdue" if pods else "PluginsOverdue", " ".join(told))


def _misconfigured(seen: ObservedPool, standing: Standing) -> Finding:
    if standing.phase == "Halted":
        return Finding(True, names.REASON_LAYOUT_FAILED, _failures(seen, standing))
    if standing.phase == "NotServed":
        mode, served = seen.pool.spec.allocation.mode, ", ".join(SERVED_MODES)
        now = f" Pods that run stay; the nodes go on as {spelled(standing.applied)}." if standing.known else ""
        message = f"spec.allocation.mode is {mode}; this version of the module hands out {served} only.{now}"
        return Finding(True, "ModeNotServed", message)
    if standing.undividable:
        return Finding(True, names.INVALID_MIG_PROFILE, standing.undividable)
    return Finding(False, "AsExpected", "The pool is served as it is written.")


def _failures(seen: ObservedPool, standing: Standing) -> str:
    failed = standing.built.failed
    told = "; ".join(f"{node}: {why}" for node, why in sorted(failed.items())[:SHOWN])
    again = f"kubectl annotate gpupool {seen.pool.name} {names.RESUME}=true"
    asked = f"{spelled(standing.wanted)} did not come true on {len(failed)} nodes ({told})."
    return f"{asked} Mend them and try again: {again}; leave a card out: {LEAVE_OUT}; or change spec.allocation."


def _capacity_low(seen: ObservedPool, standing: Standing, total: Capacity, coming: int) -> Finding:
    low = is_low(total)
    counted = f"{total.available} of {total.total} slots are available."
    if not standing.offers or (low and not is_low(replace(total, available=total.available + coming))):
        # Each Maintenance ends with what it began with, and a card that has just come in alarms nobody.
        why = "Cards are not offered now, or not yet; what was said before stands until they are."
        return Finding(is_true(seen.pool.status.conditions, CAPACITY_LOW), NOT_OFFERED, f"{counted} {why}")
    return Finding(low, "BelowTenPercent" if low else "Enough", counted)


def stray(device: GPUDevice) -> Saying:
    """What Configured says of a card that is kept off the lists by a pod that the cluster does not have."""
    node, pods = device.status.node_name, sorted({f"{a.namespace}/{a.pod}" for a in device.status.allocations})
    message = (
        f"The card is not offered: kubelet on {node} tells of pods on it that the cluster does not have there, or that"
        f" have ended ({listed(pods)}). It is offered once kubelet tells of them no more: a pod that was deleted by"
        " force may run on. Where there is no such pod, the node's device plugin lies: replace the node."
    )
    return Saying(Finding(False, PODS_UNKNOWN, message))


def aside(seen: ObservedPool, device: GPUDevice, why: str, *, drifted: bool) -> Saying:
    """What Configured says of a card that could not be divided, or turned back: the pool goes on without it."""
    again = f"kubectl annotate gpupool {seen.pool.name} {names.RESUME}=true"
    out = LEAVE_OUT.replace("<card>", device.name)
    what = why.rstrip(".")
    message = f"The card is not offered: {what}. Mend it and have it tried again: {again}; or leave it out: {out}."
    if drifted:
        return Saying(Finding(False, LAYOUT_DRIFTED, message), "Drifted")
    return Saying(Finding(False, names.REASON_LAYOUT_FAILED, message))


def away(facts: NodeFacts, name: str) -> str:
    """Why nothing on a card's node answers, and what to do; empty where the node is there and Ready.

    A card is let go only by its plugin and by kubelet, or with its node: on one that does not answer pods may run on.
    """
    node = facts.node
    if node is None:
        return (
            f"Node {name} is gone from the cluster, and the card leaves the pool with it. If a person confirmed it,"
            " that is remembered for inventory.rememberFor: it is in the pool again once a Node of that name has it."
        )
    if node.ready:
        return ""
    since = next((c.last_transition_time for c in node.status.conditions if c.type == "Ready"), None)
    found = f"Node {name} is not Ready{f' since {since}' if since else ''}: nothing there answers, and pods may run on."
    return (
        f"{found} The card stays as it is until the node is back. If that machine is off for good, say so:"
        f" kubectl delete node {name}; its cards leave their pools with it, and what a person said of them is"
        " remembered for inventory.rememberFor."
    )
