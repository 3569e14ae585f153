"""Cards of a pool that is gone, of which its plugins can tell no more: they went first. Pure.

A pool can be deleted under its pods while the module is disabled or away: its finalizer is gone by then, and so are its
plugins, with or without having withdrawn their cards. `published` and `allocations` stay as they were left, and no
plugin of another pool says anything of such a card. So the quorum is asked for what they would say: nothing is there
that could offer the card for the pool (no list, no DaemonSet, no pod of either on the node), and no pod to which
kubelet may have given it. A node that is not Ready may run what the cluster has forgotten: there the cards stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import CONFIGMAP, DAEMONSET, GPUDEVICE, POD
from controllers.domain.lifecycle import apply_transition, facts_of, project
from controllers.domain.usage import Unreported, is_clear, is_withdrawn
from controllers.gpupool.quorum import still_unbound
from controllers.runtime.plan import Action, EmitEvent, Merge, Precondition, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.gpupool.observe import ObservedPool

RUNS = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector for pods that have not ended."""


def abandon(seen: ObservedPool, now: float) -> list[Action]:
    """Let go of these cards; what is said of each by its plugin goes with its `poolRef`, in one conditional write.

    `seen` is a pool that a quorum read, which comes before this, does not find.
    """
    if seen.configs or seen.daemonset is not None or seen.mig_manager is not None:
        return []  # they are being collected, and wake the pool
    served = Unreported(frozenset(pod.node for pod in seen.pods if pod.node and not pod.finished))
    # Of the others a plugin of the pool has nothing left to take back: `release` lets go of them.
    leaving = [device for device in seen.members if not is_withdrawn(device) and _is_clear(seen, device, served, now)]
    if not leaving:
        return []
    actions: list[Action] = [
        Precondition(kind, frozenset(), names.NAMESPACE, labels=f"{names.LABEL_POOL}={seen.pool.name}")
        for kind in (CONFIGMAP, DAEMONSET)
    ]
    # One that its DaemonSet, as it went, started late finds no list to go by, and offers nothing.
    for node in sorted({device.status.node_name or "" for device in leaving}):
        ours = f"{names.LABEL_POOL}={seen.pool.name}"
        here = f"spec.nodeName={node},{RUNS}"
        actions += [
            Precondition(POD, frozenset(), labels=ours, fields=here),
            *still_unbound(seen.unlabelled, here),
            *_served(node, leaving),
        ]
    return [*actions, *(action for device in leaving for action in _let_go(seen, device, now))]


def _is_clear(seen: ObservedPool, device: GPUDevice, served: Unreported, now: float) -> bool:
    """Whether the caches know of nobody who could be using the card, whatever its plugin said last."""
    node = seen.facts(device.status.node_name).node
    unsaid = replace(device, status=replace(device.status, published=None, allocations=()))
    return node is not None and node.ready and is_clear(unsaid, served, now)


def _served(node: str, devices: list[GPUDevice]) -> list[Action]:
    """The pods that kubelet gave the cards to must be gone, those that went round the webhook too: no label tells."""
    pods = {(a.namespace, a.pod) for d in devices if d.status.node_name == node for a in d.status.allocations}
    return [
        Precondition(POD, frozenset(), namespace, fields=f"metadata.name={name},spec.nodeName={node},{RUNS}")
        for namespace, name in sorted(pods)
    ]


def _let_go(seen: ObservedPool, device: GPUDevice, now: float) -> list[Action]:
    state = project(apply_transition(facts_of(device, now), "release"))
    body = {"status": {"poolRef": None, "published": None, "allocations": None, "state": state}}
    message = f"The card left pool {seen.pool.name}, which is gone with its plugins; no pod uses the card."
    about = ref(GPUDEVICE, device)
    return [
        Merge(about, device.metadata.resource_version, body, "status", parallel_safe=True),
        EmitEvent(about, "Normal", names.EVENT_RELEASED, message, parallel_safe=True),
    ]
