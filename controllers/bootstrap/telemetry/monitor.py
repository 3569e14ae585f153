"""What the exporters tell, kept between scrapes: of each node whether it answers, of each card what is known.

Lives while the process leads, used from its event loop only; nothing here waits. What is kept may be lost at any
moment: what a status records is remembered from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.bootstrap import mig
from controllers.bootstrap.health import evaluate, heartbeat
from controllers.bootstrap.health.limits import Limits
from controllers.bootstrap.health.match import match
from controllers.bootstrap.health.status_update import telemetry, worth_writing
from controllers.bootstrap.health.view import CardNews, Telemetry
from controllers.bootstrap.phases import EXPORTER, enabled
from controllers.bootstrap.telemetry.metrics import FUSE_HELD, CardTelemetry
from controllers.bootstrap.validations import enabled_roles, passes
from controllers.domain.fuse import blindness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from controllers.api.conditions import Finding
    from controllers.api.settings import Settings
    from controllers.bootstrap.health.dcgm_parser import CardSample
    from controllers.bootstrap.health.heartbeat import Heartbeat
    from controllers.bootstrap.health.ingest import Memory
    from controllers.bootstrap.records import Card
    from controllers.bootstrap.telemetry.fetch import Scrape
    from controllers.bootstrap.world import World


BLIND_SECONDS: Final = 1.0
"""How old the count of silent nodes may be."""


class Ward:
    """All nodes that are listened to, and all cards."""

    def __init__(
        self,
        world: World,
        settings: Callable[[], Settings],
        wake: Callable[[str], None],
        tell: Callable[[Finding], None],
    ) -> None:
        """`wake` is called with a node of which there is news; `tell` when we are taken to be blind."""
        self._world, self._settings, self._wake, self._tell = world, settings, wake, tell
        self._hearts: dict[str, Heartbeat] = {}
        self._found: dict[str, str] = {}
        self._cards: dict[str, tuple[str, Memory]] = {}  # the uid that it is of
        self._warnings: dict[str, tuple[str, ...]] = {}
        self._silent: frozenset[str] = frozenset()
        self._counted = float("-inf")
        self.configure()

    def configure(self) -> None:
        """Take changed settings."""
        self.limits = limits(self._settings())
        self._roles = enabled_roles(enabled(self._settings().bootstrap))

    def listens(self, node: str) -> bool:
        """Whether the node's exporter is to be asked: its gate is open."""
        found = self._world.nodes.get(node)
        return found is not None and found.metadata.labels.get(names.deploy_label(EXPORTER)) == "true"

    def waits(self, node: str) -> bool:
        """Whether somebody waits for the node's answers, so that it should be asked at once."""
        if (heart := self._hearts.get(node)) is not None:
            return heart.ready is not True
        inventory = self._world.inventories.get(node)
        recorded = inventory.status.monitoring if inventory is not None else None
        return recorded is None or recorded.dcgm_ready is not True

    # --- what comes in ------------------------------------------------------------------------

    def receive(self, scrape: Scrape) -> None:
        """Take a scrape in."""
        node, now = scrape.node, scrape.at
        if not self.listens(node):
            return
        before = self._heart(node, now)
        after = self._hearts[node] = heartbeat.beat(before, self.limits, now, fresh=scrape.fresh)
        self._found[node] = scrape.error
        news = after.ready != before.ready or (scrape.fresh and node in self._silent)
        if scrape.fresh:
            cards = self._world.cards(node)
            samples, suspended = match(cards, scrape.cards), self._suspended(node, cards)
            for card in cards:
                news |= self._judge(card, samples.get(card.name), now, suspended=suspended)
        if news:
            self._wake(node)

    def _judge(self, card: Card, sample: CardSample | None, now: float, *, suspended: bool = False) -> bool:
        """Judge a card; whether there is something to write or tell."""
        before = self._memory(card, now)
        asked = card.metadata.annotations.get(names.RETURN) == "true"
        validated = before.fault is None or self._validated(card)
        made = evaluate.judge(
            before, sample, self.limits, now, validated=validated, return_asked=asked, suspended=suspended
        )
        self._cards[card.name] = (card.metadata.uid, made.memory)
        if made.warnings:
            self._warnings[card.name] = (*self._warnings.get(card.name, ()), *made.warnings)
        if made.memory.finding != before.finding or made.warnings:
            return True
        return worth_writing(card.status.health, telemetry(made.memory), self.limits, now) is not None

    def _validated(self, card: Card) -> bool:
        return passes(self._world.node(card.status.node_name or ""), card, self._roles)

    def _memory(self, card: Card, now: float) -> Memory:
        uid, memory = self._cards.get(card.name, ("", None))
        if memory is not None and uid == card.metadata.uid:
            return memory
        return evaluate.remember(card.status, now)

    def _heart(self, node: str, now: float) -> Heartbeat:
        if (heart := self._hearts.get(node)) is None:
            inventory = self._world.inventories.get(node)
            recorded = inventory.status.monitoring if inventory is not None else None
            heart = self._hearts[node] = heartbeat.remember(recorded.dcgm_ready if recorded else None, now)
        return heart

    # --- what is asked --------------------------------------------------------------------------

    def observe(self, node: str, now: float) -> Telemetry:
        """What is known of a node and its cards now; lets time pass for them."""
        cards, listens = self._world.cards(node), self.listens(node)
        suspended = self._suspended(node, cards)
        heart, blind = self._pass(node, now, suspended=suspended) if listens else (None, False)
        for card in cards:
            self._judge(card, None, now, suspended=suspended or blind or not listens)
        known = {card.name: CardNews(self._cards[card.name][1], self._warnings.get(card.name, ())) for card in cards}
        if heart is None:
            self.forget(node)
            return Telemetry(None, cards=known)
        waits = heartbeat.left(heart, self.limits, now)
        left = None if heart.ready is False else max(waits, self._settings().bootstrap.monitoring.scrape_period)
        found = "" if heart.ready else self._found.get(node, "")
        return Telemetry(heart.ready, heart.last, blind, found, left, known)

    def _suspended(self, node: str, cards: Iterable[Card]) -> bool:
        """Whether MIG work stops who tells of the node's cards, and not for too long."""
        inventory = self._world.inventories.get(node)
        return mig.silences(cards, inventory.status.bootstrap if inventory is not None else None)

    def _pass(self, node: str, now: float, *, suspended: bool) -> tuple[Heartbeat, bool]:
        """Let time pass for a node, unless its silence is one of so many that it is taken to be ours."""
        heart = self._heart(node, now)
        blind = node in self._blind(now)
        if not blind:
            heart = self._hearts[node] = heartbeat.look(heart, self.limits, now, suspended=suspended)
        return heart, blind

    def _blind(self, now: float) -> frozenset[str]:
        """The nodes whose silence is not believed."""
        if now - self._counted < BLIND_SECONDS:
            return self._silent
        monitored = {node: heart for node, heart in self._hearts.items() if heart.ready}
        period = self._settings().bootstrap.monitoring.scrape_period
        silent = frozenset(
            node for node, heart in monitored.items() if heartbeat.failing(heart, self.limits, period, now)
        )
        finding = blindness(silent, len(monitored), self._settings().health.max_unavailable_percent)
        if finding is not None and not self._silent:
            self._tell(finding)
        self._silent, self._counted = silent if finding is not None else frozenset(), now
        FUSE_HELD.labels("node", "telemetry").set(len(self._silent))
        return self._silent

    def told(self, seen: Telemetry) -> None:
        """People were told of these warnings."""
        for name, news in seen.cards.items():
            if news.warnings and self._warnings.get(name, ())[: len(news.warnings)] == news.warnings:
                self._warnings[name] = self._warnings[name][len(news.warnings) :]

    def forget(self, node: str) -> None:
        """Nobody listens to a node any more."""
        self._hearts.pop(node, None)
        self._found.pop(node, None)

    def forget_card(self, name: str) -> None:
        """A card's object is gone."""
        self._cards.pop(name, None)
        self._warnings.pop(name, None)

    def known(self) -> Iterator[CardTelemetry]:
        """What is known of every card, for the metrics; safe to ask from another thread."""
        for name, (_, memory) in list(self._cards.items()):
            if (card := self._world.devices.get(name)) is not None:
                yield CardTelemetry(card.status.node_name or "", name, memory)


def limits(settings: Settings) -> Limits:
    """The thresholds out of the settings."""
    health, monitoring = settings.health, settings.bootstrap.monitoring
    return Limits(
        temperature_fault=health.temperature_fault_c,
        temperature_clear=health.temperature_clear_c,
        recovery_scrapes=health.recovery_scrapes,
        ready_after=monitoring.ready_after,
        missing_after=monitoring.missing_after,
        critical_xids=frozenset(health.critical_xids),
        ignored_xids=frozenset(health.ignored_xids),
    )
