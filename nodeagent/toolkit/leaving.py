"""Whether the pod ends because its DaemonSet is deleted, so that changes on the node are reverted.

A pod is told to end by SIGTERM whether it is replaced by another or goes for ever. It goes for ever with its
DaemonSet, and where its node's gate label is closed. Who cannot be asked has not said so: then all stays, which does no
harm, and is taken away by the next pod of this role that ends for good.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import structlog

from controllers.api import names
from controllers.api.resources import DAEMONSET, NODE
from controllers.runtime.client import Client
from controllers.runtime.errors import NotFound, RuntimeFault

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.get_logger()
COMPONENT: Final = "toolkit"
OBJECT: Final = "gpu-toolkit"
ASK_SECONDS: Final = 5.0


async def for_good(node: str, kubeconfig: Path | None) -> bool:
    """Whether no other pod of this role follows on the node."""
    try:
        client = await Client.connect(kubeconfig, user_agent=names.MANAGER_TOOLKIT, connections=1)
    except RuntimeFault as error:
        log.warning("nobody can be asked whether the toolkit stays; its settings do", why=str(error))
        return False
    client.timeout = ASK_SECONDS
    try:
        return is_over(await _get(client, DAEMONSET, OBJECT, names.NAMESPACE), await _get(client, NODE, node))
    except RuntimeFault as error:
        log.warning("the API server does not say whether the toolkit stays; its settings do", why=str(error))
        return False
    finally:
        await client.close()


def is_over(daemonset: dict[str, Any] | None, node: dict[str, Any] | None) -> bool:
    """Whether the role's work on a node is over, from both objects; None of one that is not there."""
    if daemonset is None or node is None or daemonset["metadata"].get("deletionTimestamp"):
        return True
    labels = node["metadata"].get("labels") or {}
    return labels.get(names.deploy_label(COMPONENT)) != "true"


async def _get(client: Client, resource: Any, name: str, namespace: str | None = None) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(await client.get(resource, name, namespace))
    except NotFound:
        return None
    return found
