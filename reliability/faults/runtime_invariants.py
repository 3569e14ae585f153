"""What must hold of turns to restart container runtimes (`bootstrap.toolkit.runtimeRestarts`), on every revision. Pure.

No more nodes get a turn than the settings have let so far, one that was reverted counting as well; and a turn is kept
until the node's runtime is well, or the module does nothing there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api.runtime_state import REVERTED, SETTLED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reliability.faults.trace import Objects, Revision

Found = list[str]
KIND: Final = "GPUNodeInventory"
USUAL: Final = 5
"""Nodes at once where the settings say nothing."""


class RuntimeTurns:
    """Looks at each revision before it is taken into the state; knows how many turns the settings have let at most."""

    def __init__(self) -> None:
        self._most = 0
        """A process may learn of fewer late: what was let once is let."""

    def look(self, state: Objects, revision: Revision) -> Found:
        """What this revision breaks; `state` is that before it."""
        if not self._most:
            self._most = max((_most(obj) for (kind, _), obj in state.items() if kind == "ModuleConfig"), default=0)
        if revision.key[0] == "ModuleConfig":
            self._most = max(self._most, _most(revision.object))
        if revision.key[0] != KIND or revision.type == "DELETED":
            return []
        former = state.get(revision.key)
        is_same = former is not None and former["metadata"]["uid"] == revision.uid
        was, now = _runtime(former) if former is not None and is_same else {}, _runtime(revision.object)
        if now.get("restartAllowed") and not was.get("restartAllowed"):
            return self._given(state, revision.key[1])
        lost = was.get("restartAllowed") and not now.get("restartAllowed")
        if lost and now.get("state") not in SETTLED and _is_on(state):
            return [f"it loses its turn to restart its runtime in state {now.get('state')}"]
        return []

    def _given(self, state: Objects, node: str) -> Found:
        """A node gets its turn."""
        taken = [name for (kind, name), obj in sorted(state.items()) if kind == KIND and _takes(_runtime(obj))]
        others = [name for name in taken if name != node]
        most = self._most or USUAL
        if len(others) < most:
            return []
        return [f"it gets its turn to restart its runtime beside {', '.join(others)}, and {most} may at once"]


def _runtime(inventory: Mapping[str, Any]) -> Mapping[str, Any]:
    return inventory.get("status", {}).get("runtime") or {}


def _takes(runtime: Mapping[str, Any]) -> bool:
    return bool(runtime.get("restartAllowed")) or runtime.get("state") == REVERTED


def _most(config: Mapping[str, Any]) -> int:
    settings = config.get("spec", {}).get("settings") or {}
    return int(settings.get("bootstrap", {}).get("toolkit", {}).get("runtimeRestarts", USUAL))


def _is_on(state: Objects) -> bool:
    """Whether the module and its toolkit are wanted: who has neither has no turns."""
    specs = (obj.get("spec", {}) for (kind, _), obj in state.items() if kind == "ModuleConfig")
    return all(
        spec.get("enabled", True)
        and (spec.get("settings") or {}).get("bootstrap", {}).get("toolkit", {}).get("enabled", True)
        for spec in specs
    )
