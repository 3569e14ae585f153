"""What a node's telemetry says at one moment, for the planners. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.bootstrap.health.ingest import Memory


@dataclass(frozen=True, slots=True)
class CardNews:
    """One card."""

    memory: Memory
    warnings: tuple[str, ...] = ()
    """Errors that do not fault it and that nobody has been told of yet."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """One node and its cards."""

    ready: bool | None
    """True: fresh scrapes come; False: none for too long; None: not known yet."""
    last: float | None = None
    """The last fresh scrape; seconds since the epoch."""
    blind: bool = False
    """Whether so many nodes are silent at once that the silence is taken to be ours."""
    found: str = ""
    """What the last scrape found, where the node is missing."""
    left: float | None = None
    """Seconds after which time alone may change this."""
    cards: Mapping[str, CardNews] = field(default_factory=dict)
    """By the names of the GPUDevices."""
