"""Which nodes may leave service now, with those that were let go and are not in the caches yet.

Lives as long as the process, used from its event loop: two nodes are planned one after the other, and what the
first was let is counted for the second although nobody has written it yet.

Held is what is concluded from silence. What shows that a node is bad takes it out whatever the share, and counts as
out for the others (ADR 0026). Cards are never held: their faults are measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.bootstrap.telemetry.metrics import FUSE_HELD
from controllers.domain.fuse import allow

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.bootstrap.readiness.assess import Assessment
    from controllers.bootstrap.world import World


class Fuse:
    """One fuse for all nodes."""

    def __init__(self, world: World, percent: Callable[[], int]) -> None:
        """`percent` tells the share that may be out at once (`health.maxUnavailablePercent`)."""
        self._world, self._percent = world, percent
        self._let: set[str] = set()
        self._held: set[str] = set()

    def ask(self, node: str, found: Assessment | None) -> str:
        """Why the node must stay in service; empty where it need not."""
        if found is None or not found.stays_out:
            self._let.discard(node)
        if found is None or not found.node_out:
            return self._go(node)
        if not found.evident:
            total, gone = self._world.fleet(self._let)
            if node in allow({*gone, *self._let}, [node], total, self._percent()).held:
                return self._stay(node)
        self._let.add(node)
        return self._go(node)

    def _stay(self, node: str) -> str:
        self._held.add(node)
        self._tell()
        return f"since more than {self._percent()} % of the nodes would be out of service at once"

    def _go(self, node: str) -> str:
        self._held.discard(node)
        self._tell()
        return ""

    def _tell(self) -> None:
        FUSE_HELD.labels("node", "nodes").set(len(self._held))
