"""Whether it is the node's turn to have its container runtime restarted: its GPUNodeInventory says so.

gpu-bootstrap-controller gives turns to a few nodes at a time. Who cannot be asked has given none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.resources import GPUNODEINVENTORY
from nodeagent.toolkit.asking import ask

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


async def has_turn(node: str, kubeconfig: Path | None) -> bool:
    """Whether the node's runtime may be restarted now."""
    found = await _inventory(node, kubeconfig)
    return found is not None and allows(found)


async def is_elsewhere(node: str, kubeconfig: Path | None) -> bool:
    """Whether somebody else's toolkit is to serve the node, though it may not run yet; True where nobody says."""
    found = await _inventory(node, kubeconfig)
    return found is None or bool(((found.get("status") or {}).get("managedElsewhere") or {}).get("toolkit"))


async def _inventory(node: str, kubeconfig: Path | None) -> dict[str, Any] | None:
    """The node's GPUNodeInventory, empty where there is none; None where nobody can be asked."""
    about = "how it is with the node; its runtime is not restarted"
    found = await ask(kubeconfig, about, (GPUNODEINVENTORY, node, None))
    return found[0] or {} if found is not None else None


def allows(inventory: dict[str, Any]) -> bool:
    """Whether a GPUNodeInventory says that it is its node's turn."""
    runtime = (inventory.get("status") or {}).get("runtime") or {}
    return runtime.get("restartAllowed") is True
