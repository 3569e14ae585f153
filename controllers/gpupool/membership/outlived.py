"""Removes assignment annotations that outlived their GPUPool while the card's Node was deleted. Pure.

A card whose Node was deleted is to no pool there, so its pool goes without waiting for it, and the record would keep
the pool's name: whoever made a pool of that name later would get the card, and its pods, once it is recognised. But a
card is confirmed for a pool, not for a name. So the annotation goes with the pool: before its finalizer does, or, where
nobody looked then, once that is seen. Of a card that is there the annotation stays for a while instead, for a person to
see (`controllers.gpupool.membership.unassigned`). The pool's name in its status goes next: what a person says after
that is said of what is called so by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUDEVICE
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import seconds
from controllers.domain.usage import is_promised
from controllers.gpupool.membership.approval import REMOVE_ASSIGNMENT
from controllers.gpupool.membership.assignment import released_status
from controllers.gpupool.operands.device_plugin import cards_in
from controllers.runtime.plan import Action, EmitEvent, Merge, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.gpupool.views import ObservedPool


def remove_outlived_annotations(view: ObservedPool, now: float) -> list[Action]:
    """Remove the annotations of cards whose Node is deleted and whose pool is gone, then their place in it."""
    actions: list[Action] = []
    for device in view.remembered:
        if device.metadata.deletion_timestamp is not None or not _is_over(view.pool, device):
            continue
        if assigned_pool(device) != view.pool.name:
            actions += _forgotten(view, device, now)
        else:
            about = ref(GPUDEVICE, device)
            message = (
                f"The card was confirmed for a GPUPool {view.pool.name} that is gone, while its own Node was, too: the"
                f" annotation {names.ASSIGNMENT}={view.pool.name} was removed. Confirm the card anew once it is back."
            )
            actions += [
                Merge(about, device.metadata.resource_version, REMOVE_ASSIGNMENT, parallel_safe=True),
                EmitEvent(about, "Normal", names.EVENT_ANNOTATION_REMOVED, message, parallel_safe=True),
            ]
    return actions


def _forgotten(view: ObservedPool, device: GPUDevice, now: float) -> list[Action]:
    """The pool that is gone, to be taken off the card, with what its plugin said; its pods and lists go before that."""
    home, card = device.status.pool_ref, device.status.inventory_id
    used = any(pod.node == device.status.node_name and not pod.finished for pod in view.pods)
    listed = any(card in cards_in(config) for config in view.configs)
    if home is None or home.name != view.pool.name or used or listed or is_promised(device, now):
        return []
    body = {"status": released_status(device, now, "published", "allocations")}
    return [Merge(ref(GPUDEVICE, device), device.metadata.resource_version, body, "status", parallel_safe=True)]


def _is_over(pool: GPUPool, device: GPUDevice) -> bool:
    """Whether the pool that the card was confirmed for is gone, or going."""
    if pool.metadata.uid and pool.metadata.deletion_timestamp is not None:
        return True
    home, since = device.status.pool_ref, device.status.node_gone_since
    if home is None or home.name != pool.name or since is None:
        return False  # an annotation that a person wrote since is for the pool that comes
    return not pool.metadata.uid or seconds(pool.metadata.creation_timestamp) > seconds(since)
