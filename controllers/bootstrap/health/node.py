"""The health of one node's monitoring and of its cards, evaluated from a view. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.bootstrap.health import heartbeat
from controllers.bootstrap.health.evaluate import evaluate
from controllers.bootstrap.health.recall import recall_state, recall_verdict
from controllers.bootstrap.preparation.mig_work import mig_work
from controllers.bootstrap.preparation.phases import enabled
from controllers.bootstrap.preparation.validations import enabled_roles, passes
from controllers.bootstrap.telemetry_records import CardTelemetry, NodeTelemetry
from controllers.domain.node_operation import is_awaited

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.settings import Settings
    from controllers.bootstrap.health.evaluate import CardEvaluation
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.records import Card
    from controllers.bootstrap.telemetry_records import Heartbeat
    from controllers.bootstrap.views import ObservedNode


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """One node's verdicts, and what is to be remembered with them."""

    ready: bool | None = None
    """True: fresh scrapes come; False: none for too long; None: not known yet, or not monitored."""
    last: float | None = None
    """The last fresh scrape; seconds since the epoch."""
    is_outage: bool = False
    """Whether so many nodes are silent at once that the silence is taken to be ours."""
    error: str = ""
    """What was wrong with the last scrape, where the node is not ready."""
    requeue_after: float | None = None
    """Seconds after which time alone may change this."""
    cards: Mapping[str, CardEvaluation] = field(default_factory=dict)
    """By the names of the GPUDevices."""
    heartbeat: Heartbeat | None = None
    """To be remembered; None where the node is not monitored."""


def evaluate_node(seen: ObservedNode, limits: Limits, settings: Settings, now: float) -> NodeHealth:
    """Evaluate a node's monitoring and its cards; `now` in seconds since the epoch."""
    telemetry = seen.telemetry or NodeTelemetry()
    suspended = is_awaited(
        mig_work(seen.devices), seen.inventory.status.bootstrap if seen.inventory is not None else None
    )
    excused = suspended or telemetry.is_outage or telemetry.heartbeat is None
    roles = enabled_roles(enabled(settings.bootstrap))
    cards = {}
    for card in seen.devices:
        known = telemetry.cards.get(card.name) or recall(card, now)
        cards[card.name] = evaluate(
            known.state,
            known.verdict,
            limits,
            now,
            validated=known.verdict.fault is None or passes(seen, card, roles),
            return_asked=card.metadata.annotations.get(names.RETURN) == "true",
            excused=excused,
        )
    heart = telemetry.heartbeat
    if heart is None:
        return NodeHealth(cards=cards)
    if not telemetry.is_outage:
        heart = heartbeat.tick(heart, limits, now, suspended=suspended)
    period, left = settings.bootstrap.monitoring.scrape_period, heartbeat.seconds_left(heart, limits, now)
    return NodeHealth(
        ready=heart.ready,
        last=heart.last,
        is_outage=telemetry.is_outage,
        error="" if heart.ready else telemetry.error,
        requeue_after=None if heart.ready is False else max(left, period),
        cards=cards,
        heartbeat=heart,
    )


def recall(card: Card, now: float) -> CardTelemetry:
    """What the card's status records of its telemetry."""
    return CardTelemetry(recall_state(card.status, now), recall_verdict(card.status))
