"""One MIG layout for a node out of all its pools: what it is to be next, and the writes for it. Pure.

A card's part changes, or is asked for again (`again`), only while nobody can be using the card: it is on no list,
published by no plugin, allocated and promised to nobody, and no pod of its pool is bound to the node that may have it
beside what kubelet tells. A pool's cards follow what the pool has applied, and what its spec asks for once the pool has
come so far. A card that leaves its pool is turned back before the pool lets go of it, and its part stays until the MIG
manager has said that it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE, is_true
from controllers.api.resources import CONFIGMAP
from controllers.domain.allocation import applied, wanted
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import stamp_exact
from controllers.domain.eligibility import part_of
from controllers.domain.mig import DISABLED, NodeLayout, PlannedCard, card_of, configmap, plan, was_ours
from controllers.domain.mig.configmap import COMPONENT
from controllers.domain.pool_lifecycle import last_phase
from controllers.domain.request import pools_of
from controllers.domain.usage import is_clear, is_unused, unreported
from controllers.gpupool import again
from controllers.gpupool.migcards import is_done, rewrite
from controllers.gpupool.quorum import bound_to, nobody_else_on, still_unbound
from controllers.runtime.drift import is_as_written
from controllers.runtime.plan import Action, Apply, Delete, Precondition, Ref, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import ConfigMap, Pod
    from controllers.domain.mig import MigCard
    from controllers.gpupool.observe import ObservedNode

BUILDING = ("Rebuilding", "Halted")
"""Phases of a pool whose cards are to become what its spec asks for."""


@dataclass(frozen=True, slots=True)
class ObservedLayout:
    """What more is looked at of a node that has, or is to have, a layout."""

    config: ConfigMap | None
    """The layout as it is written."""
    pods: tuple[Pod, ...] = ()
    """Bound pods of all pools on the node."""
    unlabelled: tuple[Pod, ...] = ()
    """Unbound pods of the pools of its cards that no list by label shows."""
    listed: frozenset[str] = frozenset()
    """Cards (inventoryIDs) of the node that a list of their pool allows."""


def profile(pool: GPUPool) -> str | None:
    """The MIG profile that the pool's cards are to have now; None in other modes."""
    allocation = wanted(pool) if last_phase(pool) in BUILDING else applied(pool)
    return allocation.mig_profile if allocation.mode == "MIG" else None


def writes(seen: ObservedNode, now: float) -> list[Action]:
    """The node's layout ConfigMap, where it is not as it should be."""
    node, around = seen.facts.node, seen.layout
    if node is None or around is None:
        return []
    made = layout(seen, now)
    body, found = configmap(node, made), around.config
    if body is None:
        return [Delete(ref(CONFIGMAP, found), found.metadata.resource_version)] if found is not None else []
    owners = [owner.uid for owner in found.metadata.owner_references] if found is not None else []
    if found is not None and is_as_written(found, body) and owners == [node.metadata.uid]:
        return []
    actions: list[Action] = []
    before = {card.address: card.version for card in seen.facts.layout.cards} if seen.facts.layout else {}
    if any(card.version != before.get(card.address) for card in made.cards):
        known = (pod.key for pod in around.pods)
        actions += [nobody_else_on(node.name, known), *still_unbound(around.unlabelled, bound_to(node.name))]
    if found is not None:
        return [*actions, rewrite(found, body)]
    # None of ours may be there: it remembers what a cache that lags does not. One without our label is in no cache,
    # and gets the label back.
    name, ours = names.mig_layout(node.name), f"{names.LABEL_COMPONENT}={COMPONENT}"
    actions.append(Precondition(CONFIGMAP, frozenset(), names.NAMESPACE, labels=ours, fields=f"metadata.name={name}"))
    return [*actions, Apply(Ref(CONFIGMAP, name, names.NAMESPACE), body)]


def layout(seen: ObservedNode, now: float) -> NodeLayout:
    """The node's layout as it is to be next."""
    previous = seen.facts.layout
    devices: dict[str, GPUDevice] = {}
    cards: list[MigCard] = []
    for device in seen.devices:
        served = device.status.hardware is not None and device.status.hardware.uuid is not None
        card = card_of(device, served=served and not is_true(device.status.conditions, INVENTORY_INCOMPLETE))
        if card is None or card.address in devices:
            continue
        devices[card.address] = device
        # Where nobody has told how a card is divided, whether MIG mode is ours to turn off could not be known either.
        card = replace(card, profile=_profile(seen, device) if card.actual is not None else None)
        cards.append(replace(card, ours=was_ours(previous, card)))
    planned = {card.address: card for card in plan(cards).cards}
    made = [_next(seen, devices[card.address], card, planned.get(card.address), now) for card in cards]
    ordered = {card.address: card for card in made if card is not None}
    return NodeLayout(tuple(ordered[address] for address in sorted(ordered)))


def _profile(seen: ObservedNode, device: GPUDevice) -> str | None:
    """The profile that a card is to have now; None for one that is in no pool, or is leaving it."""
    pool = seen.by_name.get(device.status.pool_ref.name) if device.status.pool_ref is not None else None
    if pool is None or assigned_pool(device) != pool.name or pool.metadata.deletion_timestamp is not None:
        return None
    return profile(pool)


def _next(
    seen: ObservedNode, device: GPUDevice, card: MigCard, planned: PlannedCard | None, now: float
) -> PlannedCard | None:
    """A card's part of the layout: as planned, where it may change now."""
    before = part_of(seen.facts.layout, device)
    if before is not None and card.actual is None:
        return before  # a driver that is away tells nothing; what was asked stands
    if before is not None and not _is_same(before, card):
        before = None  # another card in the same slot
    if before is not None and planned is None:
        planned = _turning_back(device, card, before)
    if before is not None and planned is not None and before.layout == planned.layout:
        return _kept(seen, device, before, planned, now)
    if not _is_clear(seen, device, now):
        return before
    return replace(planned, asked=stamp_exact(now)) if planned is not None else None


def _kept(seen: ObservedNode, device: GPUDevice, before: PlannedCard, planned: PlannedCard, now: float) -> PlannedCard:
    """A part that stays as it is; asked for again where a reason for that has come about, and nobody is on the card."""
    node = seen.facts.node
    if again.is_due(before, device) and again.has_turn(before, node) and _is_clear(seen, device, now):
        times = again.counted(before, node) + 1
        return replace(planned, asked=stamp_exact(now), boot=again.boot_of(node), again=times)
    held = again.is_held(before, device)
    return replace(planned, asked=before.asked, boot=before.boot, again=before.again, held=held)


def _is_same(before: PlannedCard, card: MigCard) -> bool:
    told = before.uuid is not None and card.uuid is not None  # a driver that is away tells no uuid
    return before.device == card.device and (not told or before.uuid == card.uuid)


def _turning_back(device: GPUDevice, card: MigCard, before: PlannedCard) -> PlannedCard | None:
    """The part of a card that needs no division any more; None once that has come true, or was never ours."""
    if not before.ours or (before.layout == DISABLED and is_done(before, device)):
        return None
    if device.status.pool_ref is None and card.actual == DISABLED:
        return None  # its pool could not wait for it, and there is nobody to acknowledge
    return replace(before, layout=DISABLED)


def _is_clear(seen: ObservedNode, device: GPUDevice, now: float) -> bool:
    """Whether nobody can be using the card, or be about to."""
    around = seen.layout
    if around is None or not is_unused(device) or device.status.inventory_id in around.listed:
        return False
    home = device.status.pool_ref
    pool = home.name if home is not None else ""
    members = [d for d in seen.devices if d.status.pool_ref is not None and d.status.pool_ref.name == pool]
    pods = [pod for pod in around.pods if pool and pool in pools_of(pod)]
    return is_clear(device, unreported(pool, members, pods), now)
