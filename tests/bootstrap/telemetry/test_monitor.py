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
def fleet() -> Monitored:
    return Monitored()


def forget_what_is_recorded(fleet: Monitored) -> None:
    fleet.cluster.status()["monitoring"] = {}
    fleet.renew()


def test_three_fresh_scrapes_make_a_node_ready_and_wake_it_once(fleet: Monitored) -> None:
    fleet.cluster.device(health={"temperatureC": 50, "eccErrorsTotal": 0, "throttled": False})
    forget_what_is_recorded(fleet)
    assert fleet.monitor.is_awaited(NODE)
    for _ in range(2):
        fleet.scrapes()
        assert fleet.look().ready is None
    woken = len(fleet.enqueued)  # by its first finding
    fleet.scrapes()
    assert fleet.look().ready is True
    assert fleet.look().last == fleet.now
    assert not fleet.monitor.is_awaited(NODE)
    assert len(fleet.enqueued) == woken + 1
    woken = len(fleet.enqueued)
    fleet.scrapes(times=10)
    assert len(fleet.enqueued) == woken  # nothing new: nobody is woken


def test_two_minutes_of_silence_make_it_missing_with_what_was_found(fleet: Monitored) -> None:
    fleet.scrapes(times=3)
    fleet.cluster.now += MISSING - 1
    fleet.scrape(error="HTTP 503")
    assert fleet.look().ready is True
    assert fleet.look().error == ""  # of a node that is ready nothing is wrong yet
    assert fleet.look().requeue_after == PERIOD  # not looked at more often than it is scraped
    fleet.cluster.now += 1
    seen = fleet.look()

    assert (seen.ready, seen.error, seen.requeue_after) == (False, "HTTP 503", None)
    assert fleet.monitor.is_awaited(NODE)


def test_a_restart_of_ours_keeps_what_is_recorded(fleet: Monitored) -> None:
    fleet.scrapes(times=3)
    fleet.begin()
    assert fleet.look().ready is True
    fleet.cluster.now += MISSING - 1
    assert fleet.look().ready is True
    fleet.cluster.now += 1
    assert fleet.look().ready is False


def test_a_restart_of_ours_keeps_a_cards_fault_and_does_not_fault_it_anew(fleet: Monitored) -> None:
    fleet.scrapes()
    fleet.scrapes(sample=replace(WELL, xids=(79,)))
    assert fleet.finding() == (True, "CriticalXid")
    verdict = fleet.look().cards[DEVICE].verdict
    condition = {"type": "Faulted", "status": "True", "reason": "CriticalXid", "message": verdict.fault.text}  # type: ignore[union-attr]
    stamp = {"lastTransitionTime": "2027-01-15T08:00:00Z"}
    fleet.cluster.device(health={"lastXid": 79})
    conditions = fleet.cluster.objects["GPUDevice", DEVICE]["status"]["conditions"]
    conditions.append(condition | stamp)
    fleet.renew()
    fleet.begin()

    assert fleet.finding() == (True, "CriticalXid")
    fleet.scrapes(sample=replace(WELL, xids=(79,)))  # DCGM shows the old number for ever
    assert fleet.look().cards[DEVICE].state.clean_scrapes == 1


def test_a_faulted_card_comes_back_only_when_its_checks_pass(fleet: Monitored) -> None:
    fleet.scrapes()
    fleet.scrapes(sample=replace(WELL, xids=(79,)))
    fleet.scrapes(times=25)
    assert fleet.finding() == (True, "CriticalXid")  # no validator has spoken
    for role in ("driver", "container"):
        fleet.cluster.verdict(role, "ok")
    fleet.cluster.verdict("container", "ok", cards_failed="0000:17:00.0")
    fleet.renew()
    fleet.scrapes()
    assert fleet.finding() == (True, "CriticalXid")  # one finds fault with the card
    fleet.cluster.verdict("container", "ok")
    fleet.renew()
    woken = len(fleet.enqueued)
    fleet.scrapes()

    assert fleet.finding() == (False, "Recovered")
    assert len(fleet.enqueued) == woken + 1


def test_switched_off_validators_are_not_waited_for(fleet: Monitored) -> None:
    fleet.cluster.settings = parse_settings(
        {"bootstrap": {"driverValidator": {"enabled": False}, "validator": {"enabled": False}}}
    )
    fleet.monitor.configure()
    fleet.scrapes()
    fleet.scrapes(sample=replace(WELL, xids=(79,)))
    assert fleet.finding() == (True, "CriticalXid")
    fleet.scrapes(times=20)
    assert fleet.finding() == (False, "Recovered")


def test_changed_settings_are_followed(fleet: Monitored) -> None:
    fleet.scrapes()
    fleet.scrapes(sample=replace(WELL, temperature=80), times=3)
    assert fleet.finding() == (False, "Healthy")
    fleet.cluster.settings = parse_settings({"health": {"temperatureFaultC": 75, "temperatureClearC": 70}})
    fleet.monitor.configure()
    fleet.scrapes(sample=replace(WELL, temperature=80), times=3)
    assert fleet.finding() == (True, "Overheated")


# --- silence --------------------------------------------------------------------------------------


def test_many_nodes_silent_at_once_are_not_believed_and_it_is_told_once() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    fleet = Monitored(*nodes)
    fleet.scrapes(times=3)
    gone = nodes[:3]
    for _ in range(20):
        fleet.scrapes(*nodes[3:])
        for node in nodes:
            fleet.look(node)

    assert [fleet.look(node).is_outage for node in nodes] == [node in gone for node in nodes]
    assert [fleet.look(node).ready for node in nodes] == [True] * 10
    assert [found.reason for found in fleet.reported] == ["Blind"]
    assert all(found == (False, "Healthy") for found in map(fleet.finding, nodes))  # nor is a card given up


@pytest.mark.parametrize("missing", [2 * PERIOD, 2.5 * PERIOD, MISSING])
def test_a_whole_fleet_is_not_believed_whatever_the_settings(missing: float) -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    fleet = Monitored(*nodes)
    fleet.cluster.settings = parse_settings({"bootstrap": {"monitoring": {"missingAfter": f"{missing:g}s"}}})
    fleet.monitor.configure()
    for moment in range(30):
        for node in nodes:  # each in its own moment of the period
            fleet.cluster.now += PERIOD / len(nodes)
            if moment < 3:
                fleet.scrape(node)
            for other in nodes:
                fleet.look(other)

    assert [fleet.look(node).ready for node in nodes] == [True] * len(nodes)
    assert [found.reason for found in fleet.reported] == ["Blind"]


def test_a_few_silent_nodes_are_believed() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    fleet = Monitored(*nodes)
    fleet.scrapes(times=3)
    for _ in range(10):
        fleet.scrapes(*nodes[2:])
        for node in nodes:
            fleet.look(node)

    assert [fleet.look(node).ready for node in nodes] == [False, False, *[True] * 8]
    assert fleet.reported == []


def test_when_the_silence_ends_each_node_is_believed_again() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    fleet = Monitored(*nodes)
    fleet.scrapes(times=3)
    for _ in range(20):
        fleet.scrapes(*nodes[3:])
        for node in nodes:
            fleet.look(node)
    fleet.scrapes(*nodes[1:], times=2)  # two of the three are back: the third is silent alone
    for node in nodes:
        fleet.look(node)
    assert fleet.look(nodes[0]).ready is False
    assert not any(fleet.look(node).is_outage for node in nodes)

    fleet.scrapes(times=3)
    for _ in range(5):
        fleet.scrapes(*nodes[3:])
        for node in nodes:
            fleet.look(node)
    assert [found.reason for found in fleet.reported] == ["Blind", "Blind"]  # a second time is news again


def test_nobody_expects_answers_during_mig_work(fleet: Monitored) -> None:
    fleet.scrapes(times=3)
    fleet.cluster.device(migApply={"version": "1", "phase": "Applying"})
    fleet.renew()
    for _ in range(60):
        fleet.cluster.now += PERIOD
        assert fleet.look().ready is True
    assert fleet.finding() == (False, "Healthy")
    fleet.cluster.device(migApply={"version": "1", "phase": "Done"})
    fleet.renew()
    fleet.cluster.now += MISSING
    assert fleet.look().ready is False
    assert fleet.finding() == (None, "NoTelemetry")


def test_mig_work_that_takes_too_long_excuses_nobody(fleet: Monitored) -> None:
    fleet.scrapes(times=3)
    fleet.cluster.device(migApply={"version": "1", "phase": "Applying"})
    fleet.cluster.status().setdefault("bootstrap", {})["suspended"] = False
    fleet.renew()
    fleet.cluster.now += MISSING
    assert fleet.look().ready is False
    assert fleet.finding() == (None, "NoTelemetry")


def test_a_card_that_the_text_does_not_name_is_silent_alone(fleet: Monitored) -> None:
    fleet.scrapes(times=3)
    for _ in range(9):
        fleet.cluster.now += PERIOD
        fleet.monitor.receive(Scrape(NODE, fleet.now, "ok", (replace(WELL, uuid="GPU-of-another"),)))
    assert fleet.look().ready is True
    assert fleet.finding() == (None, "NoTelemetry")


# --- what is forgotten ----------------------------------------------------------------------------


def close(fleet: Monitored) -> None:
    labels = fleet.cluster.objects["Node", NODE]["metadata"]["labels"]
    del labels[names.deploy_label("dcgm-exporter")]
    fleet.renew()


def test_a_node_whose_gate_is_closed_is_not_listened_to(fleet: Monitored) -> None:
    fleet.scrapes(times=3)
    close(fleet)
    assert not fleet.monitor.is_monitored(NODE)
    fleet.cluster.now += 10 * MISSING
    seen = fleet.look()
    assert (seen.ready, seen.is_outage, seen.requeue_after) == (None, False, None)
    assert fleet.finding() == (False, "Healthy")  # what was known of its cards holds
    woken = list(fleet.enqueued)
    fleet.scrape(sample=replace(WELL, xids=(79,)))  # a scrape that was under way
    assert fleet.enqueued == woken
    assert fleet.finding() == (False, "Healthy")


def test_a_command_is_obeyed_where_nobody_listens(fleet: Monitored) -> None:
    fleet.scrapes()
    fleet.scrapes(sample=replace(WELL, xids=(79,)))
    assert fleet.finding() == (True, "CriticalXid")
    close(fleet)
    fleet.cluster.objects["GPUDevice", DEVICE]["metadata"]["annotations"][names.RETURN] = "true"
    fleet.renew()

    assert fleet.finding() == (False, "ReturnedByHand")


def test_a_node_that_comes_back_starts_with_what_is_recorded(fleet: Monitored) -> None:
    fleet.scrapes(times=3)
    fleet.monitor.forget_node(NODE)
    fleet.cluster.now += 10 * MISSING
    seen = fleet.look()
    assert (seen.ready, seen.last) == (True, None)


def test_another_card_under_the_same_name_starts_anew(fleet: Monitored) -> None:
    fleet.scrapes()
    fleet.scrapes(sample=replace(WELL, xids=(79,)))
    assert fleet.finding() == (True, "CriticalXid")
    fleet.cluster.objects["GPUDevice", DEVICE]["metadata"]["uid"] = "another"
    fleet.renew()

    assert fleet.finding() is None


def test_a_card_that_is_deleted_is_forgotten(fleet: Monitored) -> None:
    fleet.scrapes()
    assert [one.device for one in fleet.monitor.known()] == [DEVICE]
    assert [one.node for one in fleet.monitor.known()] == [NODE]
    fleet.monitor.forget_card(DEVICE)
    assert list(fleet.monitor.known()) == []


# --- warnings -------------------------------------------------------------------------------------


def test_a_warning_is_told_until_somebody_was_told(fleet: Monitored) -> None:
    fleet.scrapes()
    woken = len(fleet.enqueued)
    fleet.scrapes(sample=replace(WELL, xids=(63,)))
    assert len(fleet.enqueued) == woken + 1
    seen = fleet.look()
    assert len(seen.cards[DEVICE].state.warnings) == 1
    assert "XID 63" in seen.cards[DEVICE].state.warnings[0]
    assert fleet.look().cards[DEVICE].state.warnings == seen.cards[DEVICE].state.warnings  # not sent: again

    fleet.scrapes(sample=replace(WELL, xids=(44,)))  # another one comes while the first is being told
    fleet.monitor.acknowledge(seen)
    left = fleet.look().cards[DEVICE].state.warnings
    assert len(left) == 1
    assert "XID 44" in left[0]
    fleet.monitor.acknowledge(fleet.look())
    fleet.monitor.acknowledge(seen)  # an old view takes nothing away
    assert fleet.look().cards[DEVICE].state.warnings == ()


def test_health_that_crosses_a_threshold_wakes_the_node(fleet: Monitored) -> None:
    fleet.scrapes()
    fleet.look()
    fleet.cluster.device(health={"temperatureC": 50, "eccErrorsTotal": 0, "throttled": False})
    fleet.renew()
    woken = len(fleet.enqueued)
    fleet.scrapes(sample=replace(WELL, temperature=84))
    assert len(fleet.enqueued) == woken
    fleet.scrapes(sample=replace(WELL, temperature=85))
    assert len(fleet.enqueued) == woken + 1
