"""Whether the pod ends because its DaemonSet is deleted, so that changes on the node are reverted.

A pod is told to end by SIGTERM whether it is replaced by another or goes for ever. It goes for ever with its
DaemonSet, and where its node's gate label is closed. Who cannot be asked has not said so: then all stays, which does no
harm, and is taken away by the next pod of this role that ends for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.resources import DAEMONSET, NODE
from nodeagent.toolkit.asking import ask

if TYPE_CHECKING:
    from pathlib import Path

COMPONENT: Final = "toolkit"
OBJECT: Final = "gpu-toolkit"


async def for_good(node: str, kubeconfig: Path | None) -> bool:
    """Whether no other pod of this role follows on the node."""
    about = "whether the toolkit stays; its settings do"
    found = await ask(kubeconfig, about, (DAEMONSET, OBJECT, names.NAMESPACE), (NODE, node, None))
    return found is not None and is_over(*found)


def is_over(daemonset: dict[str, Any] | None, node: dict[str, Any] | None) -> bool:
    """Whether the role's work on a node is over, from both objects; None of one that is not there."""
    if daemonset is None or node is None or daemonset["metadata"].get("deletionTimestamp"):
        return True
    labels = node["metadata"].get("labels") or {}
    return labels.get(names.deploy_label(COMPONENT)) != "true"
