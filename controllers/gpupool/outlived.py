"""Confirmations that outlived their pool: cards that are only remembered, and for a pool that is gone. Pure.

A card whose Node was deleted is to no pool there, so its pool goes without waiting for it, and the record would keep
the pool's name: whoever made a pool of that name later would get the card, and its pods, once it is recognised. But a
card is confirmed for a pool, not for a name. So the annotation goes with the pool: before its finalizer does, or, where
nobody looked then, once that is seen. Of a card that is there the annotation stays for a while instead, for a person to
see (`controllers.gpupool.free`). The pool's name in its status goes next: what a person says after that is said of
what is called so by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUDEVICE
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import seconds
from controllers.domain.lifecycle import after, facts_of, project
from controllers.domain.usage import is_promised
from controllers.gpupool.approve import UNASSIGNED
from controllers.gpupool.operands import cards_in
from controllers.runtime.plan import Action, Merge, Note, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.gpupool.observe import ObservedPool


def outlived(seen: ObservedPool, now: float) -> list[Action]:
    """The annotations of remembered cards to be removed, then their place, on the versions that were read."""
    actions: list[Action] = []
    for device in seen.remembered:
        if device.metadata.deletion_timestamp is not None or not _is_over(seen.pool, device):
            continue
        if assigned_pool(device) != seen.pool.name:
            actions += _forgotten(seen, device, now)
        else:
            about = ref(GPUDEVICE, device)
            message = (
                f"The card was confirmed for a GPUPool {seen.pool.name} that is gone, while its own Node was, too: the"
                f" annotation {names.ASSIGNMENT}={seen.pool.name} was removed. Confirm the card anew once it is back."
            )
            actions += [
                Merge(about, device.metadata.resource_version, UNASSIGNED, together=True),
                Note(about, "Normal", names.EVENT_ANNOTATION_REMOVED, message, together=True),
            ]
    return actions


def _forgotten(seen: ObservedPool, device: GPUDevice, now: float) -> list[Action]:
    """The pool that is gone, to be taken off the card, with what its plugin said; its pods and lists go before that."""
    home, card = device.status.pool_ref, device.status.inventory_id
    used = any(pod.node == device.status.node_name and not pod.finished for pod in seen.pods)
    listed = any(card in cards_in(config) for config in seen.configs)
    if home is None or home.name != seen.pool.name or used or listed or is_promised(device, now):
        return []
    state = project(after(facts_of(device, now), "release"))
    body = {"status": {"poolRef": None, "published": None, "allocations": None, "state": state}}
    return [Merge(ref(GPUDEVICE, device), device.metadata.resource_version, body, "status", together=True)]


def _is_over(pool: GPUPool, device: GPUDevice) -> bool:
    """Whether the pool that the card was confirmed for is gone, or going."""
    if pool.metadata.uid and pool.metadata.deletion_timestamp is not None:
        return True
    home, since = device.status.pool_ref, device.status.node_gone_since
    if home is None or home.name != pool.name or since is None:
        return False  # what a person has said since for a pool that there was not yet is meant for what comes
    return not pool.metadata.uid or seconds(pool.metadata.creation_timestamp) > seconds(since)
