"""Cards into the pool, and out of it through the fence (docs/design.md, Fence). Pure.

In: the annotation names the pool, the selectors mean the card, the card is fit and its node
ready. `poolRef` is written on the version that was read, so two pools never both take it.

Out, when the annotation is gone or names another pool, or the pool is being deleted: first
the card is off the allowed list (pods on it keep it); then the node's plugin acknowledges by
withdrawing `published`; then, with no allocation, no live reservation and no bound pod that
kubelet has yet to report, `poolRef` is cleared. So nobody who was admitted is overtaken, and
two plugins never offer one card.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE, is_true
from controllers.api.resources import GPUDEVICE
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import seconds
from controllers.domain.eligibility import serves, unfit
from controllers.domain.lifecycle import apply_transition, facts_of, is_allowed, project
from controllers.domain.usage import is_clear, unreported
from controllers.gpupool.claims import claim_obstacle
from controllers.gpupool.migcards import is_left_alone
from controllers.gpupool.quorum import nobody_else_bound, nobody_else_on
from controllers.runtime.plan import Action, EmitEvent, Merge, Precondition, ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.domain.lifecycle import Facts
    from controllers.domain.usage import Unreported
    from controllers.gpupool.observe import ObservedPool


CACHE_LAG = 600.0
"""Seconds that no cache lags: a watch that is silent is begun anew after a minute or two."""
AT_ONCE = 100
"""Cards that one plan takes in: the lists that offer them are written after it, and none is to wait for thousands."""


def assign(seen: ObservedPool, now: float) -> list[Action]:
    """Take the confirmed cards in; who confirms those that the pool takes by itself is `approve`."""
    pool = seen.pool
    if not serves(pool):
        return []
    taken = Counter(device.status.node_name for device in seen.members)
    checks: dict[str, Action] = {}  # by node; all of them first, since they are carried out together
    came = 0
    actions: list[Action] = []
    for device in seen.claimants:
        node = device.status.node_name or ""
        if not _takes(seen, device, taken[node], now):
            continue
        if (came := came + 1) > AT_ONCE:
            break  # the writes of these bring the pool back for the rest
        if node not in checks and not _is_first(seen, device, now):
            checks[node] = nobody_else_on(node, seen.bound.get(node, frozenset()))
        actions += _take(device, pool.name, now)
        taken[node] += 1
    return [*checks.values(), *actions]


def release(seen: ObservedPool, now: float) -> list[Action]:
    """Let go of the cards that nobody wants in the pool any more and nobody uses."""
    checks: dict[str, list[Precondition]] = {}  # by node, and first, as above
    actions: list[Action] = []
    leaving = [device for device in seen.members if not is_wanted(seen, device)]
    beside = unreported(seen.pool.name, seen.members, seen.pods) if leaving else None
    for device in leaving:
        facts = facts_of(device, now)
        if beside is not None and _leaves(seen, device, facts, beside, now):
            status = {"poolRef": None, "state": project(apply_transition(facts, "release"))}
            message = f"The card left pool {seen.pool.name}."
            node = device.status.node_name or ""
            if node not in checks:
                checks[node] = nobody_else_bound(seen, node)
            actions += [
                _status(device, status),
                EmitEvent(ref(GPUDEVICE, device), "Normal", names.EVENT_RELEASED, message, parallel_safe=True),
            ]
    return [*chain.from_iterable(checks.values()), *actions]


def is_wanted(seen: ObservedPool, device: GPUDevice) -> bool:
    """Whether a member is to stay: a changed selector never evicts it, only its annotation does."""
    return assigned_pool(device) == seen.pool.name and seen.pool.metadata.deletion_timestamp is None


def is_turned_back(seen: ObservedPool, device: GPUDevice) -> bool:
    """Whether MIG keeps a leaving card no longer: its pool's MIG manager is there as long as the card is.

    Nobody waits for a card that is gone, nor where the pool, and so its manager, is: whichever pool takes the card
    next has it turned back before it offers it.
    """
    lost = is_true(device.status.conditions, INVENTORY_INCOMPLETE)
    facts = seen.facts(device.status.node_name)
    return lost or facts.node is None or not seen.pool.metadata.uid or is_left_alone(facts, device)


def is_offered(seen: ObservedPool, device: GPUDevice) -> bool:
    """Whether the node's plugin is to offer a member, as far as the card goes: a pool in Maintenance offers none."""
    return is_wanted(seen, device) and unfit(device, ready=seen.facts(device.status.node_name).ready) is None


def _leaves(seen: ObservedPool, device: GPUDevice, facts: Facts, beside: Unreported, now: float) -> bool:
    return is_allowed(facts, "release") and is_clear(device, beside, now) and is_turned_back(seen, device)


def _takes(seen: ObservedPool, device: GPUDevice, siblings: int, now: float) -> bool:
    stays = device.metadata.deletion_timestamp is None
    return stays and is_allowed(facts_of(device, now), "assign") and claim_obstacle(seen, device, siblings) is None


def _take(device: GPUDevice, pool: str, now: float) -> list[Action]:
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


def _is_first(seen: ObservedPool, device: GPUDevice, now: float) -> bool:
    """Whether no earlier object of this card can have been given to a pod that the cache does not know yet.

    Only an object that was deleted and made anew hides that: a card leaves a pool after a quorum read of its
    node's pods. One as old as its node's record is the first, and what was before one that is older than any
    cache lags is known. The read it saves takes 100 ms, and seconds where much is written: the API server
    answers it once its cache has caught up with etcd.
    """
    made, inventory = device.metadata.creation_timestamp, seen.facts(device.status.node_name).inventory
    if not made or inventory is None:
        return False
    return made <= inventory.metadata.creation_timestamp or now - seconds(made) > CACHE_LAG
