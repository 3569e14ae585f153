"""Releases GPUDevices whose GPUPool and device plugins no longer exist. Pure.

A pool can be deleted under its pods while the module is disabled or away: its finalizer is gone by then, and so are its
plugins, with or without having withdrawn their cards. `published` and `allocations` stay as they were left, and no
plugin of another pool reports such a card. So the quorum is asked for what they would report: nothing is there
that could offer the card for the pool (no list, no DaemonSet, no pod of either on the node), and no pod to which
kubelet may have given it. A node that is not Ready may run what the cluster has forgotten: there the cards stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import CONFIGMAP, DAEMONSET, GPUDEVICE, POD
from controllers.domain.usage import Unreported, is_clear, is_withdrawn
from controllers.gpupool.membership.assignment import released_status
from controllers.gpupool.quorum import still_unbound
from controllers.runtime.plan import Action, EmitEvent, Merge, Precondition, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.gpupool.views import ObservedPool


def release_orphaned_cards(view: ObservedPool, now: float) -> list[Action]:
    """Release these cards; the fields that a plugin wrote go with `poolRef`, in one conditional write.

    `view` is of a pool that a quorum read, which comes before this, does not find.
    """
    if view.configs or any(one is not None for one in (view.daemonset, view.mig_manager, view.mps)):
        return []  # they are being collected, and wake the pool
    served = Unreported(frozenset(pod.node for pod in view.pods if pod.node and not pod.finished))
    # Of the others a plugin of the pool has nothing left to take back: `release_cards` releases them.
    leaving = [device for device in view.members if not is_withdrawn(device) and _is_clear(view, device, served, now)]
    if not leaving:
        return []
    actions: list[Action] = [
        Precondition(kind, frozenset(), names.NAMESPACE, labels=f"{names.LABEL_POOL}={view.pool.name}")
        for kind in (CONFIGMAP, DAEMONSET)
    ]
    # One that its DaemonSet, as it went, started late finds no list to go by, and offers nothing.
    for node in sorted({device.status.node_name or "" for device in leaving}):
        ours = f"{names.LABEL_POOL}={view.pool.name}"
        here = f"spec.nodeName={node},{names.PODS_NOT_ENDED}"
        actions += [
            Precondition(POD, frozenset(), labels=ours, fields=here),
            *still_unbound(view.unlabelled, here),
            *_expect_no_allocated_pods(node, leaving),
        ]
    return [*actions, *(action for device in leaving for action in _release_card(view, device, now))]


def _is_clear(view: ObservedPool, device: GPUDevice, served: Unreported, now: float) -> bool:
    """Whether the caches know of nobody who could be using the card, whatever its plugin reported last."""
    node = view.facts(device.status.node_name).node
    silenced = replace(device, status=replace(device.status, published=None, allocations=()))
    return node is not None and node.ready and is_clear(silenced, served, now)


def _expect_no_allocated_pods(node: str, devices: list[GPUDevice]) -> list[Action]:
    """The pods that kubelet gave the cards to must be gone, those that went round the webhook too: no label tells."""
    pods = {(a.namespace, a.pod) for d in devices if d.status.node_name == node for a in d.status.allocations}
    return [
        Precondition(
            POD, frozenset(), namespace, fields=f"metadata.name={name},spec.nodeName={node},{names.PODS_NOT_ENDED}"
        )
        for namespace, name in sorted(pods)
    ]


def _release_card(view: ObservedPool, device: GPUDevice, now: float) -> list[Action]:
    body = {"status": released_status(device, now, "published", "allocations", "mps")}
    message = f"The card left pool {view.pool.name}, which is gone with its plugins; no pod uses the card."
    about = ref(GPUDEVICE, device)
    return [
        Merge(about, device.metadata.resource_version, body, "status", parallel_safe=True),
        EmitEvent(about, "Normal", names.EVENT_RELEASED, message, parallel_safe=True),
    ]
