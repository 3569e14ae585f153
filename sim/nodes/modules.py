"""The driver's kernel modules that a container loaded: the kernel's own state, in an annotation of the Node. Pure.

As real modules do they outlive the container that loaded them, and end with the node's boot.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import orjson

from sim.nodes import names

if TYPE_CHECKING:
    from controllers.api.kube import Node


@dataclass(frozen=True, slots=True)
class Loaded:
    """Modules that are loaded."""

    version: str
    boot: str
    """The node's start in which they were loaded: they are there in no other."""
    flavour: str = "open"
    """open or proprietary."""
    pod: str = ""
    """uid of the pod whose container loaded them."""
    revision: str = ""
    """What that pod's DaemonSet is about."""
    at: str = ""
    """When they were loaded."""
    xid: bool = False
    """Whether fault xid-after-10-s has befallen the first card."""
    rebooted: bool = False
    """Whether fault reboot-in-Installing has befallen the node; then nothing need be loaded, and version is empty."""


def noted(node: Node) -> Loaded | None:
    """What was noted of them last, whichever boot that was in."""
    try:
        return Loaded(**orjson.loads(node.metadata.annotations.get(names.MODULES, "")))
    except (ValueError, TypeError):
        return None


def loaded(node: Node) -> Loaded | None:
    """Those that are loaded now."""
    found = noted(node)
    return found if found is not None and found.version and found.boot == node.status.node_info.boot_id else None


def text(modules: Loaded | None) -> str | None:
    """The same as the annotation has it; None where none are loaded."""
    return orjson.dumps(asdict(modules)).decode() if modules is not None else None
