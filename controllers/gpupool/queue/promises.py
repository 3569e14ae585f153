"""Whether a Pod got the cards that the webhook reserved for it: its annotation against kubelet's allocation. Pure.

The scheduler need not follow the preference for a node that the webhook writes, and kubelet need not take the cards
that the annotation names: the classic device plugin API only prefers. A card counts once for each pod that it is
given to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from controllers.domain.named_devices import named_devices, named_nodes

if TYPE_CHECKING:
    from controllers.api.gpudevice import Allocation, GPUDevice
    from controllers.api.kube import Pod

Outcome = Literal["card", "node", "elsewhere"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("card", "node", "elsewhere")
"""The promised card; another card of the promised node; a card of another node."""


def new_allocations(old: GPUDevice, new: GPUDevice) -> list[Allocation]:
    """The pods that have come to have a card, each once."""
    before = {taken.pod_uid for taken in old.status.allocations}
    return list({taken.pod_uid: taken for taken in new.status.allocations if taken.pod_uid not in before}.values())


def promise_outcome(card: GPUDevice, pod: Pod) -> Outcome | None:
    """What the card is to a pod that has it; None where the pod was promised nothing."""
    named = named_devices(pod)
    if not named:
        return None
    if card.status.inventory_id in named:
        return "card"
    return "node" if card.status.node_name in named_nodes(pod) else "elsewhere"
