"""Images that registries were found not to have, and the nodes for which that counts.

What a node was told lies in its `driverWork`. What is kept here spares others the same question for a while; a process
that starts knows nothing of it, and asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from controllers.domain.clock import begun, seconds
from controllers.driver.node.due import is_due

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.kube import Node

MISSING_FOR: Final = 300.0
"""Seconds for which an image that one node did not find in its registry is not asked for on others."""


@dataclass(slots=True)
class Missing:
    """Images by what was last seen of them, and when, in seconds since the epoch."""

    missed: dict[str, float] = field(default_factory=dict)
    """Not there."""
    found: dict[str, float] = field(default_factory=dict)
    """There, after they had been missed."""

    def note_missed(self, image: str, now: float) -> None:
        """A node's registry does not have an image."""
        self.found.pop(image, None)
        self.missed[image] = now

    def note_found(self, image: str, now: float) -> None:
        """A node has got an image."""
        self.found[image] = now
        self.missed.pop(image, None)

    def known(self, now: float) -> frozenset[str]:
        """Images of which everybody knows."""
        return frozenset(image for image, at in self.missed.items() if at + MISSING_FOR > now)

    def for_node(self, node: Node | None, work: DriverWork | None, now: float) -> frozenset[str]:
        """Images that a node need not ask for."""
        if work is None or node is None or work.node_uid != node.metadata.uid:
            return self.known(now)
        own = frozenset(work.missing)
        if work.phase == "Preflight":
            return own | self._known_since(begun(work.since, now), now)
        if work.phase != "Blocked":
            return own  # it has got its image
        if not self.is_asked_again(node, work, now):
            return self.known(now) | own
        # It asks again, unless another one has just done so.
        return self._known_since(min(now, seconds(work.retry_at)) if work.retry_at is not None else now, now)

    def _known_since(self, asked: float, now: float) -> frozenset[str]:
        return frozenset(image for image in self.known(now) if self.missed[image] >= asked)

    def is_asked_again(self, node: Node, work: DriverWork, now: float) -> bool:
        """Whether a node that waits for an image asks for it again: it is time, or another one has got it."""
        if work.phase != "Blocked" or not work.awaits_image:
            return False
        since = begun(work.since, now)
        return is_due(work, node, now) or any(self.found.get(image, 0.0) > since for image in work.missing)
