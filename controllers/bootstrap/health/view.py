"""Frozen view of one node's telemetry, cut from the monitor's memory for the planners. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.bootstrap.health.heartbeat import Heartbeat
    from controllers.bootstrap.health.state import CardHealthState, CardVerdict


@dataclass(frozen=True, slots=True)
class CardTelemetry:
    """One card."""

    state: CardHealthState
    """What its samples showed."""
    verdict: CardVerdict
    """What was concluded last."""


@dataclass(frozen=True, slots=True)
class NodeTelemetry:
    """One node and its cards; nothing is concluded here."""

    heartbeat: Heartbeat | None = None
    """How the exporter answers; None where it is not monitored."""
    is_outage: bool = False
    """Whether so many nodes are silent at once that the silence is taken to be ours."""
    error: str = ""
    """What was wrong with the last scrape, for people; empty when all was well."""
    cards: Mapping[str, CardTelemetry] = field(default_factory=dict)
    """By the names of the GPUDevices; a card without a sample and a verdict so far is not there."""
