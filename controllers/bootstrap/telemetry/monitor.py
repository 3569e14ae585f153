"""HealthMonitor: keeps what DCGM exporters' scrapes showed, cuts views of it, and enqueues nodes that changed.

Lives while the process leads, used from its event loop only; nothing here waits, and nothing here decides. What is
kept may be lost at any moment: what a status records is recalled from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.components import EXPORTER
from controllers.bootstrap.health import heartbeat
from controllers.bootstrap.health.ingest import excuse, ingest
from controllers.bootstrap.health.limits import limits_of
from controllers.bootstrap.health.match import match
from controllers.bootstrap.health.node import evaluate_node, recall
from controllers.bootstrap.health.status_update import health_status, health_to_write
from controllers.bootstrap.preparation.mig_work import mig_work
from controllers.bootstrap.telemetry.metrics import FUSE_HELD, CardMetrics
from controllers.bootstrap.telemetry_records import CardTelemetry, NodeTelemetry
from controllers.domain.disruption_budget import blindness
from controllers.domain.node_operation import is_awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controllers.api.conditions import Finding
    from controllers.api.settings import Settings
    from controllers.bootstrap.health.evaluate import CardEvaluation
    from controllers.bootstrap.health.node import NodeHealth
    from controllers.bootstrap.records import Card
    from controllers.bootstrap.telemetry.fetch import Scrape
    from controllers.bootstrap.telemetry_records import Heartbeat
    from controllers.bootstrap.views import ObservedNode
    from controllers.bootstrap.world import World


OUTAGE_SECONDS: Final = 1.0
"""How old the count of silent nodes may be."""


class HealthMonitor:
    """Memory of the telemetry of all monitored nodes and their cards."""

    def __init__(
        self,
        world: World,
        settings: Callable[[], Settings],
        enqueue: Callable[[str], None],
        report_outage: Callable[[Finding], None],
    ) -> None:
        """`enqueue` is called with a node that changed; `report_outage` when an outage of ours begins."""
        self._world, self._settings, self._enqueue, self._report_outage = world, settings, enqueue, report_outage
        self._heartbeats: dict[str, Heartbeat] = {}
        self._errors: dict[str, str] = {}
        self._cards: dict[str, tuple[str, CardTelemetry]] = {}  # with the uid of the GPUDevice that it is of
        self._outage: frozenset[str] = frozenset()
        self._counted = float("-inf")
        self.configure()

    def configure(self) -> None:
        """Take changed settings."""
        self.limits = limits_of(self._settings())

    def is_monitored(self, node: str) -> bool:
        """Whether the node's exporter is to be scraped: its gate is open."""
        found = self._world.nodes.get(node)
        return found is not None and found.metadata.labels.get(names.deploy_label(EXPORTER)) == "true"

    def is_awaited(self, node: str) -> bool:
        """Whether the node's readiness waits for its scrapes, so that they should come soon."""
        if (heart := self._heartbeats.get(node)) is not None:
            return heart.ready is not True
        inventory = self._world.inventories.get(node)
        recorded = inventory.status.monitoring if inventory is not None else None
        return recorded is None or recorded.dcgm_ready is not True

    # --- samples in ---------------------------------------------------------------------------

    def receive(self, scrape: Scrape) -> None:
        """Fold a scrape into what is known, and enqueue its node where that changes something."""
        node, at = scrape.node, scrape.ended_at
        if not self.is_monitored(node):
            return
        before = self._heartbeat(node, at)
        after = self._heartbeats[node] = heartbeat.on_scrape(before, self.limits, at, fresh=scrape.fresh)
        self._errors[node] = scrape.error
        changed = after.ready != before.ready or (scrape.fresh and node in self._outage)
        if scrape.fresh:
            self._ingest(scrape)
            changed |= self._has_changes(node, at)
        if changed:
            self._enqueue(node)

    def _ingest(self, scrape: Scrape) -> None:
        cards, inventory = self._world.cards(scrape.node), self._world.inventories.get(scrape.node)
        suspended = is_awaited(mig_work(cards), inventory.status.bootstrap if inventory is not None else None)
        samples = match(cards, scrape.cards)
        for card in cards:
            known = self._telemetry(card) or recall(card, scrape.ended_at)
            if (sample := samples.get(card.name)) is not None:
                known = CardTelemetry(ingest(known.state, sample, self.limits, scrape.ended_at), known.verdict)
            elif suspended:
                known = CardTelemetry(excuse(known.state, scrape.ended_at), known.verdict)
            self._cards[card.name] = (card.metadata.uid, known)

    def _has_changes(self, node: str, now: float) -> bool:
        """Whether the planner would have something to write or to say; what it would remember is left to it."""
        seen = self._world.node(node, self._cut(node))
        health = evaluate_node(seen, self.limits, self._settings(), now)
        return any(self._has_changed(card, health.cards[card.name], now) for card in seen.devices)

    def _has_changed(self, card: Card, made: CardEvaluation, now: float) -> bool:
        known = self._telemetry(card)
        if known is None or made.verdict.finding != known.verdict.finding or made.state.warnings:
            return True
        return health_to_write(card.status.health, health_status(made.state), self.limits, now) is not None

    # --- views out, and what planners made of them ----------------------------------------------

    def view(self, node: str, now: float) -> NodeTelemetry:
        """Cut the view of a node; `now` in seconds since the epoch."""
        if self.is_monitored(node):
            self._heartbeat(node, now)
            self._count_silent(now)
        return self._cut(node)

    def _cut(self, node: str) -> NodeTelemetry:
        cards = {card.name: known for card in self._world.cards(node) if (known := self._telemetry(card)) is not None}
        if not self.is_monitored(node):
            return NodeTelemetry(cards=cards)
        return NodeTelemetry(self._heartbeats.get(node), node in self._outage, self._errors.get(node, ""), cards)

    def remember(self, seen: ObservedNode, health: NodeHealth) -> None:
        """Keep what an evaluation concluded; nothing may have come in since its view was cut."""
        for card in seen.devices:
            made = health.cards[card.name]
            self._cards[card.name] = (card.metadata.uid, CardTelemetry(made.state, made.verdict))
        if health.heartbeat is None:
            self.forget_node(seen.name)
        else:
            self._heartbeats[seen.name] = health.heartbeat

    def acknowledge(self, health: NodeHealth) -> None:
        """Drop the warnings of which events were sent; others may have come since."""
        for name, made in health.cards.items():
            uid, known = self._cards.get(name, ("", None))
            sent = made.state.warnings
            if known is not None and sent and known.state.warnings[: len(sent)] == sent:
                left = replace(known.state, warnings=known.state.warnings[len(sent) :])
                self._cards[name] = (uid, CardTelemetry(left, known.verdict))

    def forget_node(self, node: str) -> None:
        """Drop what is known of a node that is not monitored any more."""
        self._heartbeats.pop(node, None)
        self._errors.pop(node, None)

    def forget_card(self, name: str) -> None:
        """Drop what is known of a card whose GPUDevice is gone."""
        self._cards.pop(name, None)

    def known(self) -> Iterator[CardMetrics]:
        """What is known of every card, for the metrics; safe to ask from another thread."""
        for name, (_, known) in list(self._cards.items()):
            if (card := self._world.devices.get(name)) is not None:
                yield CardMetrics(card.status.node_name or "", name, known.state)

    # --- memory -----------------------------------------------------------------------------------

    def _telemetry(self, card: Card) -> CardTelemetry | None:
        """What is known of a card; None of another card that had the name before."""
        uid, known = self._cards.get(card.name, ("", None))
        return known if uid == card.metadata.uid else None

    def _heartbeat(self, node: str, now: float) -> Heartbeat:
        if (heart := self._heartbeats.get(node)) is None:
            inventory = self._world.inventories.get(node)
            recorded = inventory.status.monitoring if inventory is not None else None
            heart = self._heartbeats[node] = heartbeat.recall(recorded.dcgm_ready if recorded else None, now)
        return heart

    def _count_silent(self, now: float) -> None:
        """Find the nodes whose silence is one of so many that it is taken to be ours."""
        if now - self._counted < OUTAGE_SECONDS:
            return
        settings = self._settings()
        monitored = {node: heart for node, heart in self._heartbeats.items() if heart.ready}
        period = settings.bootstrap.monitoring.scrape_period
        silent = frozenset(
            node for node, heart in monitored.items() if heartbeat.is_silent(heart, self.limits, period, now)
        )
        finding = blindness(silent, len(monitored), settings.health.max_unavailable_percent)
        if finding is not None and not self._outage:
            self._report_outage(finding)
        self._outage, self._counted = silent if finding is not None else frozenset(), now
        FUSE_HELD.labels("node", "telemetry").set(len(self._outage))
