"""What must hold of cards in mode MPS, checked on every revision of a card. Pure.

No pool offers a card whose control daemon is not Ready, nor one by MPS without a daemon, nor one by another mode while
a daemon is left; and no card goes from its pool while it has that pool's daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.domain import plugin_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reliability.faults.trace import Objects, Revision

Found = list[str]
READY: Final = "Ready"
"""Phase of a daemon that serves."""


def look(state: Objects, revision: Revision) -> Found:
    """What this revision breaks; `state` is that before it."""
    if revision.key[0] != "GPUDevice" or revision.type == "DELETED":
        return []
    status: Mapping[str, Any] = revision.object.get("status", {})
    pool, daemon, published = status.get("poolRef") or {}, status.get("mps"), status.get("published")
    found = Found()
    if daemon and daemon["pool"] != pool.get("name"):
        found.append(f"it is in pool {pool.get('name')} with the control daemon of {daemon['pool']}")
    if published and daemon and daemon["phase"] != READY:
        found.append(f"it is offered while its control daemon is {daemon['phase']}")
    if published and (mode := _mode(state, published, str(status.get("inventoryID", "")))):
        if mode == "MPS" and not daemon:
            found.append("it is offered by MPS without a control daemon")
        if mode != "MPS" and daemon:
            found.append(f"it is offered by mode {mode} while a control daemon has it")
    return found


def _mode(state: Objects, published: Mapping[str, Any], card: str) -> str:
    """The mode by which a card is offered; empty where its pool's list asks for another offer by now."""
    key = ("ConfigMap", f"{names.NAMESPACE}/{names.plugin_object(published['pool'])}")
    text = state.get(key, {}).get("data", {}).get(names.PLUGIN_SETTINGS, "")
    asked = plugin_settings.read(str(published["pool"]), text)
    is_same = asked is not None and asked.of(card).config_version == published["configVersion"]
    return asked.mode if asked is not None and is_same else ""
