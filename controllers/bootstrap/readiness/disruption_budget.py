"""Which nodes may leave service now (`health.maxUnavailablePercent`).

What is out is in the statuses: `bootstrap.disrupted` marks a node that was ready and left, until it is back. In memory
are only those that were allowed and whose status is not in the caches yet: two nodes are planned one after the other,
and what the first was allowed is counted for the second although nobody has written it. Used from one event loop.

Denied is what is concluded from silence. What shows that a node is bad takes it out whatever the share, and counts as
out for the others (ADR 0026). Cards are never denied: their faults are measured. A node whose driver is changed is
out by decision: it is neither denied nor counted. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.disruption_budget import admit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from controllers.bootstrap.readiness.assess import Assessment

    Fleet = Callable[[float, Collection[str]], tuple[int, list[str]]]


class DisruptionBudget:
    """One budget for all nodes."""

    def __init__(self, fleet: Fleet, percent: Callable[[], int]) -> None:
        """`fleet` tells how many nodes there are and who is out, as its caches know it (`World.fleet`).

        `percent` tells the share that may be out at once (`health.maxUnavailablePercent`).
        """
        self._fleet, self._percent = fleet, percent
        self._allowed: set[str] = set()
        self._denied: set[str] = set()

    def admit(self, node: str, found: Assessment | None, now: float) -> str:
        """Let a node leave service, where it should; else why it must stay, as a clause. `now` in epoch seconds."""
        if found is None or not found.stays_out:
            self._allowed.discard(node)
        if found is None or not found.node_out:
            return self._allow(node)
        if not found.evident:
            total, out = self._fleet(now, self._allowed)
            if node in admit({*out, *self._allowed}, [node], total, self._percent()).denied:
                return self._deny(node)
        self._allowed.add(node)
        return self._allow(node)

    @property
    def held(self) -> int:
        """How many nodes it keeps in service."""
        return len(self._denied)

    def _deny(self, node: str) -> str:
        self._denied.add(node)
        return f"since more than {self._percent()} % of the nodes would be out of service at once"

    def _allow(self, node: str) -> str:
        self._denied.discard(node)
        return ""
