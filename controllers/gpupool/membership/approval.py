"""Assignment annotations of cards in automatic GPUPools: the controller writes them, and removes them. Pure.

The oldest pool that takes a card so and has room on its node gets it. A card that a person
has annotated is never touched, and what is written is the same annotation, so that from
there on both ways are one.

Where a person declines a card, the annotation goes if it names a pool that takes the card by
itself: there it is the controller's to set, whoever wrote it. Once the card is no longer
declined the oldest pool that takes it so gets it, which need not be the same one. Elsewhere
the annotation is that person's decision, and stays.

So it is where such a pool is deleted: its annotations go before it does, and the next pool
that takes the cards by itself gets them at once; and where a card of such a pool is gone from
its node for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE, find
from controllers.api.resources import GPUDEVICE
from controllers.domain.approval import is_automatic, is_ignored
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import seconds
from controllers.domain.eligibility import count_places
from controllers.domain.position import is_lost
from controllers.gpupool.membership.obstacles import MatchedCard, check_annotation
from controllers.runtime.plan import Merge, ref

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.gpupool.views import ObservedNode, ObservedPool

REMOVE_ASSIGNMENT: dict[str, Any] = {"metadata": {"annotations": {names.ASSIGNMENT: None}}}


def approve_cards(view: ObservedNode) -> list[Merge]:
    """Write the annotation of cards that an automatic pool can take, on the versions that were read."""
    writes = []
    counts = count_cards_by_pool(view)
    for device in view.unassigned:
        if assigned_pool(device) is not None:
            continue
        pool = _oldest_pool_with_room(view, device, counts)
        if pool is not None:
            counts[pool] += 1
            body = {"metadata": {"annotations": {names.ASSIGNMENT: pool}}}
            writes.append(Merge(ref(GPUDEVICE, device), device.metadata.resource_version, body, parallel_safe=True))
    return writes


def withdraw_annotations(view: ObservedNode) -> list[Merge]:
    """Remove the annotation of cards that are declined, on the versions that were read."""
    return [
        Merge(ref(GPUDEVICE, device), device.metadata.resource_version, REMOVE_ASSIGNMENT, parallel_safe=True)
        for device in view.devices
        if is_annotation_withdrawn(view, device)
    ]


def is_annotation_withdrawn(view: ObservedNode, device: GPUDevice) -> bool:
    """Whether the card's annotation is removed: the card is declined, and its pool is automatic."""
    return (
        device.metadata.deletion_timestamp is None and is_ignored(device.metadata) and _is_automatic_here(view, device)
    )


def seconds_until_write_off(view: ObservedNode, device: GPUDevice, now: float) -> float | None:
    """Seconds until the annotation of a lost member of an automatic pool is removed; None of others.

    What is gone for a moment (a reset of its slot) is back by then. The rest nobody would take out: nobody put it in.
    """
    lost = find(device.status.conditions, INVENTORY_INCOMPLETE)
    if lost is None or not is_lost(device.status) or not _is_automatic_here(view, device):
        return None
    if is_ignored(device.metadata) or device.metadata.deletion_timestamp is not None:
        return None  # it goes at once, or with the record
    return seconds(lost.last_transition_time) + view.settings.pools.dangling_after - now


def write_off_lost_card(device: GPUDevice) -> Merge:
    """Remove the annotation of a lost card, on the version that was read: its pool releases it then."""
    return Merge(ref(GPUDEVICE, device), device.metadata.resource_version, REMOVE_ASSIGNMENT, parallel_safe=True)


def loses_annotation_with_pool(view: ObservedNode, device: GPUDevice) -> bool:
    """Whether the annotation of a card in no pool is removed with its pool, see `unassign_with_pool`."""
    pool = view.by_name.get(assigned_pool(device) or "")
    leaves = pool is not None and pool.metadata.deletion_timestamp is not None
    return leaves and device.metadata.deletion_timestamp is None and _is_automatic_here(view, device)


def unassign_with_pool(view: ObservedPool, devices: Iterable[GPUDevice]) -> list[Merge]:
    """Remove the annotations of cards that an automatic pool took, before that pool is deleted.

    Once it is gone nobody can tell that it did, and the annotation would keep the card from every other pool.
    """
    if view.pool.metadata.deletion_timestamp is None:
        return []
    return [
        Merge(ref(GPUDEVICE, device), device.metadata.resource_version, REMOVE_ASSIGNMENT, parallel_safe=True)
        for device in devices
        if assigned_pool(device) == view.pool.name
        and device.metadata.deletion_timestamp is None
        and is_automatic(view.pool, device, view.settings)
    ]


def count_cards_by_pool(view: ObservedNode) -> Counter[str]:
    """How many places of the node each pool has taken (`domain.eligibility.places`)."""
    return count_places(view.devices, lambda device: check_annotation(view, device) is None)


def _is_automatic_here(view: ObservedNode, device: GPUDevice) -> bool:
    """Whether the card's annotation names a pool that takes it by itself."""
    pool = view.by_name.get(assigned_pool(device) or "")
    return pool is not None and is_automatic(pool, device, view.settings)


def _oldest_pool_with_room(view: ObservedNode, device: GPUDevice, counts: Counter[str]) -> str | None:
    """The oldest pool with room that takes the card by itself, and can serve it."""
    automatic = [pool for pool in view.matching_pools.get(device.name, ()) if is_automatic(pool, device, view.settings)]
    if not automatic:
        return None
    card = MatchedCard(view, device)
    return next((pool.name for pool in automatic if card.check_pool(pool, counts[pool.name]) is None), None)
