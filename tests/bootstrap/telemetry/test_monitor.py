"""HealthMonitor on real stores, with a clock of the test's: scrapes in, views out, nodes enqueued."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.settings import parse_settings
from controllers.bootstrap.health.node import evaluate_node
from controllers.bootstrap.telemetry.fetch import Scrape
from controllers.bootstrap.telemetry.monitor import HealthMonitor
from tests.bootstrap.world import DEVICE, NODE, WELL, Cluster, device_name

if TYPE_CHECKING:
    from controllers.api.conditions import Finding
    from controllers.bootstrap.health.dcgm_parser import CardSample
    from controllers.bootstrap.health.node import NodeHealth

PERIOD, MISSING = 15.0, 120.0


class Monitored:
    """A monitor over a cluster, and what it told us."""

    def __init__(self, *nodes: str) -> None:
        self.cluster = Cluster()
        for node in nodes or (NODE,):
            self.cluster.prepare(node)
            self.cluster.device(on=node, hardware={"uuid": _uuid(node)})
        self.nodes = nodes or (NODE,)
        self.world = self.cluster.view()
        self.begin()

    def begin(self) -> None:
        """A process of ours starts."""
        self.enqueued: list[str] = []
        self.reported: list[Finding] = []
        self.monitor = HealthMonitor(
            self.world, lambda: self.cluster.settings, self.enqueued.append, self.reported.append
        )

    def renew(self) -> None:
        """The caches are told what happened."""
        fresh = self.cluster.view()
        for name in ("nodes", "inventories", "devices", "features"):
            getattr(self.world, name).replace(list(getattr(fresh, name)), 1)

    @property
    def now(self) -> float:
        return self.cluster.now

    def scrape(self, node: str = NODE, sample: CardSample | None = WELL, *, error: str = "") -> None:
        """A scrape that ends now."""
        cards = (replace(sample, uuid=_uuid(node)),) if sample else ()
        self.monitor.receive(Scrape(node, self.now, "http" if error else "ok", cards, error))

    def scrapes(self, *nodes: str, times: int = 1, sample: CardSample | None = WELL) -> None:
        """Scrapes in their period."""
        for _ in range(times):
            self.cluster.now += PERIOD
            for node in nodes or self.nodes:
                self.scrape(node, sample)

    def look(self, node: str = NODE) -> NodeHealth:
        """A pass of the node's loop, but for its writes."""
        seen = self.world.node(node, self.monitor.view(node, self.now))
        health = evaluate_node(seen, self.monitor.limits, self.cluster.settings, self.now)
        self.monitor.remember(seen, health)
        return health

    def finding(self, node: str = NODE) -> tuple[bool | None, str] | None:
        found = self.look(node).cards[device_name(node)].verdict.finding
        return (found.status, found.reason) if found else None


def _uuid(node: str) -> str:
    return f"GPU-{node}"


@pytest.fixture
def monitored() -> Monitored:
    return Monitored()


def forget_what_is_recorded(monitored: Monitored) -> None:
    monitored.cluster.status()["monitoring"] = {}
    monitored.renew()


def test_three_fresh_scrapes_make_a_node_ready_and_wake_it_once(monitored: Monitored) -> None:
    monitored.cluster.device(health={"temperatureC": 50, "eccErrorsTotal": 0, "throttled": False})
    forget_what_is_recorded(monitored)
    assert monitored.monitor.is_awaited(NODE)
    for _ in range(2):
        monitored.scrapes()
        assert monitored.look().ready is None
    woken = len(monitored.enqueued)  # by its first finding
    monitored.scrapes()
    assert monitored.look().ready is True
    assert monitored.look().last == monitored.now
    assert not monitored.monitor.is_awaited(NODE)
    assert len(monitored.enqueued) == woken + 1
    woken = len(monitored.enqueued)
    monitored.scrapes(times=10)
    assert len(monitored.enqueued) == woken  # nothing new: nobody is woken


def test_two_minutes_of_silence_make_it_missing_with_what_was_found(monitored: Monitored) -> None:
    monitored.scrapes(times=3)
    monitored.cluster.now += MISSING - 1
    monitored.scrape(error="HTTP 503")
    assert monitored.look().ready is True
    assert monitored.look().error == ""  # of a node that is ready nothing is wrong yet
    assert monitored.look().requeue_after == PERIOD  # not looked at more often than it is scraped
    monitored.cluster.now += 1
    seen = monitored.look()

    assert (seen.ready, seen.error, seen.requeue_after) == (False, "HTTP 503", None)
    assert monitored.monitor.is_awaited(NODE)


def test_a_restart_of_ours_keeps_what_is_recorded(monitored: Monitored) -> None:
    monitored.scrapes(times=3)
    monitored.begin()
    assert monitored.look().ready is True
    monitored.cluster.now += MISSING - 1
    assert monitored.look().ready is True
    monitored.cluster.now += 1
    assert monitored.look().ready is False


def test_a_restart_of_ours_keeps_a_cards_fault_and_does_not_fault_it_anew(monitored: Monitored) -> None:
    monitored.scrapes()
    monitored.scrapes(sample=replace(WELL, xids=(79,)))
    assert monitored.finding() == (True, "CriticalXid")
    verdict = monitored.look().cards[DEVICE].verdict
    condition = {"type": "Faulted", "status": "True", "reason": "CriticalXid", "message": verdict.fault.text}  # type: ignore[union-attr]
    stamp = {"lastTransitionTime": "2027-01-15T08:00:00Z"}
    monitored.cluster.device(health={"lastXid": 79})
    conditions = monitored.cluster.objects["GPUDevice", DEVICE]["status"]["conditions"]
    conditions.append(condition | stamp)
    monitored.renew()
    monitored.begin()

    assert monitored.finding() == (True, "CriticalXid")
    monitored.scrapes(sample=replace(WELL, xids=(79,)))  # DCGM shows the old number for ever
    assert monitored.look().cards[DEVICE].state.clean_scrapes == 1


def test_a_faulted_card_comes_back_only_when_its_checks_pass(monitored: Monitored) -> None:
    monitored.scrapes()
    monitored.scrapes(sample=replace(WELL, xids=(79,)))
    monitored.scrapes(times=25)
    assert monitored.finding() == (True, "CriticalXid")  # no validator has spoken
    for role in ("driver", "container"):
        monitored.cluster.verdict(role, "ok")
    monitored.cluster.verdict("container", "ok", cards_failed="0000:17:00.0")
    monitored.renew()
    monitored.scrapes()
    assert monitored.finding() == (True, "CriticalXid")  # one finds fault with the card
    monitored.cluster.verdict("container", "ok")
    monitored.renew()
    woken = len(monitored.enqueued)
    monitored.scrapes()

    assert monitored.finding() == (False, "Recovered")
    assert len(monitored.enqueued) == woken + 1


def test_switched_off_validators_are_not_waited_for(monitored: Monitored) -> None:
    monitored.cluster.settings = parse_settings(
        {"bootstrap": {"driverValidator": {"enabled": False}, "validator": {"enabled": False}}}
    )
    monitored.monitor.configure()
    monitored.scrapes()
    monitored.scrapes(sample=replace(WELL, xids=(79,)))
    assert monitored.finding() == (True, "CriticalXid")
    monitored.scrapes(times=20)
    assert monitored.finding() == (False, "Recovered")


def test_changed_settings_are_followed(monitored: Monitored) -> None:
    monitored.scrapes()
    monitored.scrapes(sample=replace(WELL, temperature=80), times=3)
    assert monitored.finding() == (False, "Healthy")
    monitored.cluster.settings = parse_settings({"health": {"temperatureFaultC": 75, "temperatureClearC": 70}})
    monitored.monitor.configure()
    monitored.scrapes(sample=replace(WELL, temperature=80), times=3)
    assert monitored.finding() == (True, "Overheated")


# --- silence --------------------------------------------------------------------------------------


def test_many_nodes_silent_at_once_are_not_believed_and_it_is_told_once() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    monitored = Monitored(*nodes)
    monitored.scrapes(times=3)
    gone = nodes[:3]
    for _ in range(20):
        monitored.scrapes(*nodes[3:])
        for node in nodes:
            monitored.look(node)

    assert [monitored.look(node).is_outage for node in nodes] == [node in gone for node in nodes]
    assert [monitored.look(node).ready for node in nodes] == [True] * 10
    assert [found.reason for found in monitored.reported] == ["Blind"]
    assert all(found == (False, "Healthy") for found in map(monitored.finding, nodes))  # nor is a card given up


@pytest.mark.parametrize("missing", [2 * PERIOD, 2.5 * PERIOD, MISSING])
def test_a_whole_fleet_is_not_believed_whatever_the_settings(missing: float) -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    monitored = Monitored(*nodes)
    monitored.cluster.settings = parse_settings({"bootstrap": {"monitoring": {"missingAfter": f"{missing:g}s"}}})
    monitored.monitor.configure()
    for moment in range(30):
        for node in nodes:  # each in its own moment of the period
            monitored.cluster.now += PERIOD / len(nodes)
            if moment < 3:
                monitored.scrape(node)
            for other in nodes:
                monitored.look(other)

    assert [monitored.look(node).ready for node in nodes] == [True] * len(nodes)
    assert [found.reason for found in monitored.reported] == ["Blind"]


def test_a_few_silent_nodes_are_believed() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    monitored = Monitored(*nodes)
    monitored.scrapes(times=3)
    for _ in range(10):
        monitored.scrapes(*nodes[2:])
        for node in nodes:
            monitored.look(node)

    assert [monitored.look(node).ready for node in nodes] == [False, False, *[True] * 8]
    assert monitored.reported == []


def test_when_the_silence_ends_each_node_is_believed_again() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    monitored = Monitored(*nodes)
    monitored.scrapes(times=3)
    for _ in range(20):
        monitored.scrapes(*nodes[3:])
        for node in nodes:
            monitored.look(node)
    monitored.scrapes(*nodes[1:], times=2)  # two of the three are back: the third is silent alone
    for node in nodes:
        monitored.look(node)
    assert monitored.look(nodes[0]).ready is False
    assert not any(monitored.look(node).is_outage for node in nodes)

    monitored.scrapes(times=3)
    for _ in range(5):
        monitored.scrapes(*nodes[3:])
        for node in nodes:
            monitored.look(node)
    assert [found.reason for found in monitored.reported] == ["Blind", "Blind"]  # a second time is news again


def test_nobody_expects_answers_during_mig_work(monitored: Monitored) -> None:
    monitored.scrapes(times=3)
    monitored.cluster.device(migApply={"version": "1", "phase": "Applying"})
    monitored.renew()
    for _ in range(60):
        monitored.cluster.now += PERIOD
        assert monitored.look().ready is True
    assert monitored.finding() == (False, "Healthy")
    monitored.cluster.device(migApply={"version": "1", "phase": "Done"})
    monitored.renew()
    monitored.cluster.now += MISSING
    assert monitored.look().ready is False
    assert monitored.finding() == (None, "NoTelemetry")


def test_mig_work_that_takes_too_long_excuses_nobody(monitored: Monitored) -> None:
    monitored.scrapes(times=3)
    monitored.cluster.device(migApply={"version": "1", "phase": "Applying"})
    monitored.cluster.status().setdefault("bootstrap", {})["suspended"] = False
    monitored.renew()
    monitored.cluster.now += MISSING
    assert monitored.look().ready is False
    assert monitored.finding() == (None, "NoTelemetry")


def test_a_card_that_the_text_does_not_name_is_silent_alone(monitored: Monitored) -> None:
    monitored.scrapes(times=3)
    for _ in range(9):
        monitored.cluster.now += PERIOD
        monitored.monitor.receive(Scrape(NODE, monitored.now, "ok", (replace(WELL, uuid="GPU-of-another"),)))
    assert monitored.look().ready is True
    assert monitored.finding() == (None, "NoTelemetry")


# --- what is forgotten ----------------------------------------------------------------------------


def close(monitored: Monitored) -> None:
    labels = monitored.cluster.objects["Node", NODE]["metadata"]["labels"]
    del labels[names.deploy_label("dcgm-exporter")]
    monitored.renew()


def test_a_node_whose_gate_is_closed_is_not_listened_to(monitored: Monitored) -> None:
    monitored.scrapes(times=3)
    close(monitored)
    assert not monitored.monitor.is_monitored(NODE)
    monitored.cluster.now += 10 * MISSING
    seen = monitored.look()
    assert (seen.ready, seen.is_outage, seen.requeue_after) == (None, False, None)
    assert monitored.finding() == (False, "Healthy")  # what was known of its cards holds
    woken = list(monitored.enqueued)
    monitored.scrape(sample=replace(WELL, xids=(79,)))  # a scrape that was under way
    assert monitored.enqueued == woken
    assert monitored.finding() == (False, "Healthy")


def test_a_command_is_obeyed_where_nobody_listens(monitored: Monitored) -> None:
    monitored.scrapes()
    monitored.scrapes(sample=replace(WELL, xids=(79,)))
    assert monitored.finding() == (True, "CriticalXid")
    close(monitored)
    monitored.cluster.objects["GPUDevice", DEVICE]["metadata"]["annotations"][names.RETURN] = "true"
    monitored.renew()

    assert monitored.finding() == (False, "ReturnedByHand")


def test_a_node_that_comes_back_starts_with_what_is_recorded(monitored: Monitored) -> None:
    monitored.scrapes(times=3)
    monitored.monitor.forget_node(NODE)
    monitored.cluster.now += 10 * MISSING
    seen = monitored.look()
    assert (seen.ready, seen.last) == (True, None)


def test_another_card_under_the_same_name_starts_anew(monitored: Monitored) -> None:
    monitored.scrapes()
    monitored.scrapes(sample=replace(WELL, xids=(79,)))
    assert monitored.finding() == (True, "CriticalXid")
    monitored.cluster.objects["GPUDevice", DEVICE]["metadata"]["uid"] = "another"
    monitored.renew()

    assert monitored.finding() is None


def test_a_card_that_is_deleted_is_forgotten(monitored: Monitored) -> None:
    monitored.scrapes()
    assert [one.device for one in monitored.monitor.known()] == [DEVICE]
    assert [one.node for one in monitored.monitor.known()] == [NODE]
    monitored.monitor.forget_card(DEVICE)
    assert list(monitored.monitor.known()) == []


# --- warnings -------------------------------------------------------------------------------------


def test_a_warning_is_told_until_somebody_was_told(monitored: Monitored) -> None:
    monitored.scrapes()
    woken = len(monitored.enqueued)
    monitored.scrapes(sample=replace(WELL, xids=(63,)))
    assert len(monitored.enqueued) == woken + 1
    seen = monitored.look()
    assert len(seen.cards[DEVICE].state.warnings) == 1
    assert "XID 63" in seen.cards[DEVICE].state.warnings[0]
    assert monitored.look().cards[DEVICE].state.warnings == seen.cards[DEVICE].state.warnings  # not sent: again

    monitored.scrapes(sample=replace(WELL, xids=(44,)))  # another one comes while the first is being told
    monitored.monitor.acknowledge(seen)
    left = monitored.look().cards[DEVICE].state.warnings
    assert len(left) == 1
    assert "XID 44" in left[0]
    monitored.monitor.acknowledge(monitored.look())
    monitored.monitor.acknowledge(seen)  # an old view takes nothing away
    assert monitored.look().cards[DEVICE].state.warnings == ()


def test_health_that_crosses_a_threshold_wakes_the_node(monitored: Monitored) -> None:
    monitored.scrapes()
    monitored.look()
    monitored.cluster.device(health={"temperatureC": 50, "eccErrorsTotal": 0, "throttled": False})
    monitored.renew()
    woken = len(monitored.enqueued)
    monitored.scrapes(sample=replace(WELL, temperature=84))
    assert len(monitored.enqueued) == woken
    monitored.scrapes(sample=replace(WELL, temperature=85))
    assert len(monitored.enqueued) == woken + 1
