"""The cards that the webhook named on a pod, and their nodes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names

if TYPE_CHECKING:
    from controllers.api.kube import Pod


def named_devices(pod: Pod) -> tuple[str, ...]:
    """The inventoryIDs that the webhook wrote on the pod."""
    return tuple(part for part in pod.metadata.annotations.get(names.DEVICES, "").split(",") if part)


def named_nodes(pod: Pod) -> set[str]:
    """The nodes of these cards: an inventoryID ends in the card's PCI address, which has no hyphen."""
    return {name.rpartition("-")[0] for name in named_devices(pod)}
