"""Which nodes may have their container runtime restarted now (`bootstrap.toolkit.runtimeRestarts`).

A node asks by its state AwaitingTurn, and keeps its turn until it says that all is well (Ready) or that the module does
nothing there (ByHand). Any other state, and silence, may be of a runtime that did not come back: what fails everywhere
fails on a few nodes, and waits there for a person. In memory are only those whose status is not in the caches yet. Used
from one event loop. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api.runtime_state import AWAITING_TURN, REVERTED, SETTLED
from controllers.bootstrap.readiness.runtime import runtime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controllers.api.gpunodeinventory import ContainerRuntime, GPUNodeInventory
    from controllers.bootstrap.readiness.assess import Assessment


class RuntimeRestarts:
    """The turns of all nodes."""

    def __init__(self, inventories: Iterable[GPUNodeInventory], most: Callable[[], int]) -> None:
        """`inventories`: of all nodes, as the caches have them now; `most`: how many may have their turn at once."""
        self._inventories, self._most = inventories, most
        self._allowed: set[str] = set()

    def admit(self, node: str, found: Assessment | None) -> ContainerRuntime | None:
        """What is to be recorded of a node's runtime, with its turn where it has one; None where nothing is known."""
        told = runtime_of(found.state) if found is not None else None
        if found is None or not found.state.runs("toolkit") or (told is not None and told.state in SETTLED):
            self._allowed.discard(node)
            return told
        before = found.inventory.status.runtime
        had = (before is not None and before.restart_allowed is True) or node in self._allowed
        if told is None:  # a boot empties the node's word, and a runtime that is dead starts no pod that says it anew
            return before if had else None
        if had or (told.state == AWAITING_TURN and self._is_room(node)):
            self._allowed.add(node)
            return replace(told, restart_allowed=True)
        return told

    def _is_room(self, node: str) -> bool:
        taken = {one.name for one in self._inventories if _takes(one.status.runtime)} | self._allowed
        return len(taken - {node}) < self._most()


def _takes(runtime: ContainerRuntime | None) -> bool:
    """Whether a node has its turn, or had it and is not well since."""
    return runtime is not None and (runtime.restart_allowed is True or runtime.state == REVERTED)
