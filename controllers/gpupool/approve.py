"""Cards that pools take by themselves: the controller writes the annotation for them, and takes it off. Pure.

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

from collections import Counter
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE, find
from controllers.api.resources import GPUDEVICE
from controllers.domain.approval import is_automatic, is_ignored
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import seconds
from controllers.domain.position import is_lost
from controllers.gpupool.claims import is_hindered, obstacle_to
from controllers.runtime.plan import Merge, ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.gpupool.observe import ObservedNode, ObservedPool

UNASSIGNED: dict[str, Any] = {"metadata": {"annotations": {names.ASSIGNMENT: None}}}


def approvals(seen: ObservedNode) -> list[Merge]:
    """The annotations to be written, on the versions that were read."""
    made = []
    taken = Counter(taking(seen))
    for device in seen.free:
        if assigned_pool(device) is not None or device.metadata.deletion_timestamp is not None:
            continue
        pool = _first(seen, device, taken)
        if pool is not None:
            taken[pool] += 1
            body = {"metadata": {"annotations": {names.ASSIGNMENT: pool}}}
            made.append(Merge(ref(GPUDEVICE, device), device.metadata.resource_version, body, together=True))
    return made


def withdrawals(seen: ObservedNode) -> list[Merge]:
    """The annotations to be removed since their cards are declined, on the versions that were read."""
    return [
        Merge(ref(GPUDEVICE, device), device.metadata.resource_version, UNASSIGNED, together=True)
        for device in seen.devices
        if is_withdrawn(seen, device)
    ]


def is_withdrawn(seen: ObservedNode, device: GPUDevice) -> bool:
    """Whether the card's annotation goes since the card is declined, and its pool takes cards by itself."""
    return device.metadata.deletion_timestamp is None and is_ignored(device.metadata) and _is_ours(seen, device)


def stays(seen: ObservedNode, device: GPUDevice, now: float) -> float | None:
    """Seconds until the annotation of a member that is lost goes, where its pool takes it by itself; None of others.

    What is gone for a moment (a reset of its slot) is back by then. The rest nobody would take out: nobody put it in.
    """
    told = find(device.status.conditions, INVENTORY_INCOMPLETE)
    if told is None or not is_lost(device.status) or not _is_ours(seen, device):
        return None
    if is_ignored(device.metadata) or device.metadata.deletion_timestamp is not None:
        return None  # it goes at once, or with the record
    return seconds(told.last_transition_time) + seen.settings.pools.dangling_after - now


def write_off(device: GPUDevice) -> Merge:
    """The annotation of a lost card to be removed, on the version that was read: the pool lets go of it then."""
    return Merge(ref(GPUDEVICE, device), device.metadata.resource_version, UNASSIGNED, together=True)


def is_deserted(seen: ObservedNode, device: GPUDevice) -> bool:
    """Whether the annotation of a card in no pool goes with its pool, as `deserted` has it."""
    pool = seen.by_name.get(assigned_pool(device) or "")
    leaves = pool is not None and pool.metadata.deletion_timestamp is not None
    return leaves and device.metadata.deletion_timestamp is None and _is_ours(seen, device)


def deserted(seen: ObservedPool, devices: Iterable[GPUDevice]) -> list[Merge]:
    """The annotations of cards of a pool that is being deleted, where it took them by itself: it goes after them.

    Once it is gone nobody can tell that it did, and the annotation would keep the card from every other pool.
    """
    if seen.pool.metadata.deletion_timestamp is None:
        return []
    return [
        Merge(ref(GPUDEVICE, device), device.metadata.resource_version, UNASSIGNED, together=True)
        for device in devices
        if assigned_pool(device) == seen.pool.name
        and device.metadata.deletion_timestamp is None
        and is_automatic(seen.pool, device, seen.settings)
    ]


def taking(seen: ObservedNode) -> Counter[str]:
    """Cards of the node that each pool has, or is about to take by their annotation."""
    taken = Counter(d.status.pool_ref.name for d in seen.devices if d.status.pool_ref is not None)
    for device in seen.free:
        named = assigned_pool(device)
        if named is None:
            continue
        # A card that stays out of its pool until an administrator does something about it takes nobody's place.
        if any(pool.name == named and not is_hindered(seen, pool, device) for pool in seen.takers.get(device.name, ())):
            taken[named] += 1
    return taken


def _is_ours(seen: ObservedNode, device: GPUDevice) -> bool:
    """Whether the card's annotation names a pool that takes it by itself."""
    pool = seen.by_name.get(assigned_pool(device) or "")
    return pool is not None and is_automatic(pool, device, seen.settings)


def _first(seen: ObservedNode, device: GPUDevice, taken: Counter[str]) -> str | None:
    """The oldest pool with room that takes the card by itself, and can serve it."""
    for pool in seen.takers.get(device.name, ()):
        if is_automatic(pool, device, seen.settings) and obstacle_to(seen, device, pool, taken[pool.name]) is None:
            return pool.name
    return None
