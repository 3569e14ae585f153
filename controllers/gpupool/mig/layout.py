"""The MIG layout ConfigMap of a Node: made from all pools that have cards there. Pure.

A card's part changes, or is requested again (`retry`), only while nobody can be using the card: it is on no list,
published by no plugin, allocated and promised to nobody, and no pod of its pool is bound to the node that may have it
beside what kubelet reports. A pool's cards follow what the pool has applied, and what its spec asks for once the
pool has come so far. MIG mode of a card that leaves is disabled before its pool releases it, and its part stays until
the MIG manager has acknowledged that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE, is_true
from controllers.api.resources import CONFIGMAP
from controllers.domain.allocation import applied, division_of, wanted
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import stamp_exact
from controllers.domain.eligibility import part_of
from controllers.domain.mig import DISABLED, NodeLayout, PlannedCard, card_of, configmap, plan, was_ours
from controllers.domain.mig.configmap import COMPONENT
from controllers.domain.pool_lifecycle import last_phase
from controllers.domain.request import pools_of
from controllers.domain.usage import is_clear, is_unused, unreported
from controllers.gpupool.mig import retry
from controllers.gpupool.mig.cards import is_done, replace_layout
from controllers.gpupool.quorum import bound_to, nobody_else_on, still_unbound
from controllers.runtime.drift import is_as_written
from controllers.runtime.plan import Action, Apply, Delete, Precondition, Ref, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.domain.mig import Division, MigCard
    from controllers.gpupool.views import ObservedNode

BUILDING = ("Rebuilding", "Halted")
"""Phases of a pool whose cards are to become what its spec asks for."""


def desired_division(pool: GPUPool) -> Division | None:
    """How the pool's cards are to be divided by MIG now; None in other modes."""
    return division_of(wanted(pool) if last_phase(pool) in BUILDING else applied(pool))


def plan_layout(view: ObservedNode, now: float) -> list[Action]:
    """The node's layout ConfigMap, where it is not as it should be."""
    node, observed = view.facts.node, view.layout
    if node is None or observed is None:
        return []
    layout = next_layout(view, now)
    body, found = configmap(node, layout), observed.config
    if body is None:
        return [Delete(ref(CONFIGMAP, found), found.metadata.resource_version)] if found is not None else []
    owners = [owner.uid for owner in found.metadata.owner_references] if found is not None else []
    if found is not None and is_as_written(found, body) and owners == [node.metadata.uid]:
        return []
    actions: list[Action] = []
    before = {card.address: card.version for card in view.facts.layout.cards} if view.facts.layout else {}
    if any(card.version != before.get(card.address) for card in layout.cards):
        known = (pod.key for pod in observed.pods)
        actions += [nobody_else_on(node.name, known), *still_unbound(observed.unlabelled, bound_to(node.name))]
    if found is not None:
        return [*actions, replace_layout(found, body)]
    # None of ours may be there: it remembers what a cache that lags does not. One without our label is in no cache,
    # and gets the label back.
    name, ours = names.mig_layout(node.name), f"{names.LABEL_COMPONENT}={COMPONENT}"
    actions.append(Precondition(CONFIGMAP, frozenset(), names.NAMESPACE, labels=ours, fields=f"metadata.name={name}"))
    return [*actions, Apply(Ref(CONFIGMAP, name, names.NAMESPACE), body)]


def next_layout(view: ObservedNode, now: float) -> NodeLayout:
    """The node's layout as it is to be next."""
    previous = view.facts.layout
    devices: dict[str, GPUDevice] = {}
    cards: list[MigCard] = []
    for device in view.devices:
        served = device.status.hardware is not None and device.status.hardware.uuid is not None
        card = card_of(device, served=served and not is_true(device.status.conditions, INVENTORY_INCOMPLETE))
        if card is None or card.address in devices:
            continue
        devices[card.address] = device
        # Where nobody reports how a card is partitioned, whether MIG mode is ours to disable is not known either.
        card = replace(card, division=_division_of(view, device) if card.actual is not None else None)
        cards.append(replace(card, ours=was_ours(previous, card)))
    planned = {card.address: card for card in plan(cards).cards}
    layout = [_next_part(view, devices[card.address], card, planned.get(card.address), now) for card in cards]
    ordered = {card.address: card for card in layout if card is not None}
    return NodeLayout(tuple(ordered[address] for address in sorted(ordered)))


def _division_of(view: ObservedNode, device: GPUDevice) -> Division | None:
    """How a card is to be divided now; None for one that is in no pool, or is leaving it."""
    pool = view.by_name.get(device.status.pool_ref.name) if device.status.pool_ref is not None else None
    if pool is None or assigned_pool(device) != pool.name or pool.metadata.deletion_timestamp is not None:
        return None
    return desired_division(pool)


def _next_part(
    view: ObservedNode, device: GPUDevice, card: MigCard, planned: PlannedCard | None, now: float
) -> PlannedCard | None:
    """A card's part of the layout: as planned, where it may change now."""
    before = part_of(view.facts.layout, device)
    if before is not None and card.actual is None:
        return before  # without a driver nothing is reported; what was requested stands
    if before is not None and not _is_same_card(before, card):
        before = None  # another card in the same slot
    if before is not None and planned is None:
        planned = _disable_mig(device, card, before)
    if before is not None and planned is not None and before.layout == planned.layout:
        return _kept_part(view, device, before, planned, now)
    if not _is_unused_now(view, device, now):
        return before
    return replace(planned, asked=stamp_exact(now)) if planned is not None else None


def _kept_part(
    view: ObservedNode, device: GPUDevice, before: PlannedCard, planned: PlannedCard, now: float
) -> PlannedCard:
    """A part that stays as it is; requested again where a retry is due and nobody uses the card."""
    node = view.facts.node
    if retry.is_retry_due(before, device) and retry.may_retry(before, node) and _is_unused_now(view, device, now):
        times = retry.retries_in_period(before, node) + 1
        return replace(planned, asked=stamp_exact(now), boot=retry.period_of(node), again=times)
    held = retry.is_used_by_others(before, device)
    return replace(planned, asked=before.asked, boot=before.boot, again=before.again, used_since_failure=held)


def _is_same_card(before: PlannedCard, card: MigCard) -> bool:
    known = before.uuid is not None and card.uuid is not None  # without a driver there is no uuid
    return before.device == card.device and (not known or before.uuid == card.uuid)


def _disable_mig(device: GPUDevice, card: MigCard, before: PlannedCard) -> PlannedCard | None:
    """The part of a card whose MIG mode is to be disabled; None once it is, or where it was never ours to disable."""
    if not before.ours or (before.layout == DISABLED and is_done(before, device)):
        return None
    if device.status.pool_ref is None and card.actual == DISABLED:
        return None  # its pool could not wait for it, and there is nobody to acknowledge
    return replace(before, layout=DISABLED)


def _is_unused_now(view: ObservedNode, device: GPUDevice, now: float) -> bool:
    """Whether nobody can be using the card, or be about to."""
    observed = view.layout
    if view.facts.elsewhere.mig is not None:
        return False  # another MIG manager would undo it
    if observed is None or not is_unused(device) or device.status.inventory_id in observed.listed:
        return False
    home = device.status.pool_ref
    pool = home.name if home is not None else ""
    members = [d for d in view.devices if d.status.pool_ref is not None and d.status.pool_ref.name == pool]
    pods = [pod for pod in observed.pods if pool and pool in pools_of(pod)]
    return is_clear(device, unreported(pool, members, pods), now)
