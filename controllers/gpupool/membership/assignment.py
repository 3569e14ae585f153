"""Membership of GPUDevices in a GPUPool: `poolRef` is set, and cleared behind the fence (docs/dev/design.md, Fence).

In: the annotation names the pool, the selectors match the card, the card is fit and its node
ready. `poolRef` is written on the version that was read, so two pools never both take it.

Out, when the annotation is gone or names another pool, or the pool is being deleted: first
the card is off the allowed list (pods on it keep it); then the node's plugin acknowledges by
withdrawing `published`; then, with no allocation, no live reservation and no bound pod that
kubelet has yet to report, `poolRef` is cleared. So nobody who was admitted is overtaken, and
two plugins never offer one card. Pure.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE, is_true
from controllers.api.resources import GPUDEVICE
from controllers.domain.clock import seconds
from controllers.domain.eligibility import check_card, serves
from controllers.domain.lifecycle import apply_transition, facts_of, is_allowed, project
from controllers.domain.usage import is_clear, unreported
from controllers.gpupool.membership.obstacles import check_assignment
from controllers.gpupool.mig.cards import needs_no_mig_work
from controllers.gpupool.quorum import nobody_else_bound, nobody_else_on
from controllers.runtime.plan import Action, EmitEvent, Merge, Precondition, ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.domain.usage import Unreported
    from controllers.gpupool.views import ObservedPool


CACHE_LAG = 600.0
"""Seconds that no cache lags: a watch that is silent is begun anew after a minute or two."""
ASSIGNMENTS_MAX = 100
"""Cards that one plan assigns: the lists that offer them are written after it, and none is to wait for thousands."""


def assign_cards(view: ObservedPool, now: float) -> list[Action]:
    """Assign the cards whose annotation names the pool; `approval` writes it for automatic pools."""
    pool = view.pool
    if not serves(pool):
        return []
    taken = Counter(device.status.node_name for device in view.members)
    checks: dict[str, Action] = {}  # by node; all of them first, since they are carried out together
    came = 0
    actions: list[Action] = []
    for device in view.assigned_cards:
        node = device.status.node_name or ""
        if check_assignment(view, device, taken[node]) is not None:
            continue
        if (came := came + 1) > ASSIGNMENTS_MAX:
            break  # the writes of these bring the pool back for the rest
        if node not in checks and not _is_first_object(view, device, now):
            checks[node] = nobody_else_on(node, view.bound.get(node, frozenset()))
        actions += _join(device, pool.name, now)
        taken[node] += 1
    return [*checks.values(), *actions]


def releasable_cards(view: ObservedPool, now: float) -> list[GPUDevice]:
    """The members that no longer belong to the pool and that nobody uses."""
    leaving = [device for device in view.members if not view.wants(device)]
    if not leaving:
        return []
    unreported_pods = unreported(view.pool.name, view.members, view.pods)
    return [device for device in leaving if _can_leave(view, device, unreported_pods, now)]


def release_cards(view: ObservedPool, now: float) -> list[Action]:
    """Release the cards that no longer belong to the pool and that nobody uses."""
    checks: dict[str, list[Precondition]] = {}  # by node, and first, as above
    actions: list[Action] = []
    for device in releasable_cards(view, now):
        # What is told of a daemon is of a card or a plugin that is gone: nobody else would take it back.
        daemon = ("mps",) if device.status.mps is not None else ()
        status = released_status(device, now, *daemon)
        message = f"The card left pool {view.pool.name}."
        node = device.status.node_name or ""
        if node not in checks:
            checks[node] = nobody_else_bound(view, node)
        actions += [
            _status(device, status),
            EmitEvent(ref(GPUDEVICE, device), "Normal", names.EVENT_RELEASED, message, parallel_safe=True),
        ]
    return [*chain.from_iterable(checks.values()), *actions]


def released_status(device: GPUDevice, now: float, *fields: str) -> dict[str, object]:
    """The changes to the status of a card that leaves its pool, in which `fields` go, too.

    Reservations that have ended go with them: nobody would expect one of a card in no pool.
    """
    ended = ("reservations",) if device.status.reservations else ()
    state = project(apply_transition(facts_of(device, now), "release"))
    return {**dict.fromkeys(("poolRef", *fields, *ended)), "state": state}


def is_mig_cleared(view: ObservedPool, device: GPUDevice) -> bool:
    """Whether MIG mode of a leaving card is disabled: its pool's MIG manager is there as long as the card is.

    Nobody waits for a card that is gone, nor where the pool, and so its manager, is: whichever pool takes the card
    next has MIG mode disabled before it offers it.
    """
    lost = is_true(device.status.conditions, INVENTORY_INCOMPLETE)
    facts = view.facts(device.status.node_name)
    return lost or facts.node is None or not view.pool.metadata.uid or needs_no_mig_work(facts, device)


def is_daemon_gone(view: ObservedPool, device: GPUDevice) -> bool:
    """Whether no MPS control daemon is left on a leaving card, and its compute mode is the driver's own again.

    As with MIG mode, nobody waits for a card or a node that is gone, nor where the pool, and so its plugin, is.
    """
    lost = is_true(device.status.conditions, INVENTORY_INCOMPLETE)
    facts = view.facts(device.status.node_name)
    return lost or facts.node is None or not view.pool.metadata.uid or device.status.mps is None


def is_offerable(view: ObservedPool, device: GPUDevice) -> bool:
    """Whether the node's plugin is to offer a member, as far as the card goes: a pool in Maintenance offers none."""
    return view.wants(device) and check_card(device, ready=view.facts(device.status.node_name).ready) is None


def _can_leave(view: ObservedPool, device: GPUDevice, unreported_pods: Unreported, now: float) -> bool:
    may_leave = is_allowed(facts_of(device, now), "release")
    return may_leave and is_clear(device, unreported_pods, now) and _is_as_it_was(view, device)


def _is_as_it_was(view: ObservedPool, device: GPUDevice) -> bool:
    """Whether what the pool's mode did to the card is undone."""
    return is_mig_cleared(view, device) and is_daemon_gone(view, device)


def _join(device: GPUDevice, pool: str, now: float) -> list[Action]:
    status = {
        "poolRef": {"name": pool, "resource": names.resource_name(pool)},
        "state": project(apply_transition(facts_of(device, now), "assign")),
    }
    message = f"The card is in pool {pool}; its node's plugin will offer it as {names.resource_name(pool)}."
    note = EmitEvent(ref(GPUDEVICE, device), "Normal", names.EVENT_ASSIGNED, message, parallel_safe=True)
    return [_status(device, status), note]


def _status(device: GPUDevice, status: Mapping[str, object]) -> Merge:
    # Each card for itself: whichever of them are written, the rest is for the next plan.
    version = device.metadata.resource_version
    return Merge(ref(GPUDEVICE, device), version, {"status": status}, "status", parallel_safe=True)


def _is_first_object(view: ObservedPool, device: GPUDevice, now: float) -> bool:
    """Whether no earlier object of this card can have been given to a pod that the cache does not know yet.

    Only an object that was deleted and made anew hides that: a card leaves a pool after a quorum read of its
    node's pods. One as old as its node's record is the first, and what was before one that is older than any
    cache lags is known. The read it saves takes 100 ms, and seconds where much is written: the API server
    answers it once its cache has caught up with etcd.
    """
    created, inventory = device.metadata.creation_timestamp, view.facts(device.status.node_name).inventory
    if not created or inventory is None:
        return False
    return created <= inventory.metadata.creation_timestamp or now - seconds(created) > CACHE_LAG
