"""What the exporters tell, kept between scrapes: on real stores, with a clock of the test's."""

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


class Room:
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
        self.woken: list[str] = []
        self.told: list[Finding] = []
        self.monitor = HealthMonitor(self.world, lambda: self.cluster.settings, self.woken.append, self.told.append)

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
def room() -> Room:
    return Room()


def forget_what_is_recorded(room: Room) -> None:
    room.cluster.status()["monitoring"] = {}
    room.renew()


def test_three_fresh_scrapes_make_a_node_ready_and_wake_it_once(room: Room) -> None:
    room.cluster.device(health={"temperatureC": 50, "eccErrorsTotal": 0, "throttled": False})
    forget_what_is_recorded(room)
    assert room.monitor.is_awaited(NODE)
    for _ in range(2):
        room.scrapes()
        assert room.look().ready is None
    woken = len(room.woken)  # by its first finding
    room.scrapes()
    assert room.look().ready is True
    assert room.look().last == room.now
    assert not room.monitor.is_awaited(NODE)
    assert len(room.woken) == woken + 1
    woken = len(room.woken)
    room.scrapes(times=10)
    assert len(room.woken) == woken  # nothing new: nobody is woken


def test_two_minutes_of_silence_make_it_missing_with_what_was_found(room: Room) -> None:
    room.scrapes(times=3)
    room.cluster.now += MISSING - 1
    room.scrape(error="HTTP 503")
    assert room.look().ready is True
    assert room.look().error == ""  # of a node that is ready nothing is wrong yet
    assert room.look().requeue_after == PERIOD  # not looked at more often than it is scraped
    room.cluster.now += 1
    seen = room.look()

    assert (seen.ready, seen.error, seen.requeue_after) == (False, "HTTP 503", None)
    assert room.monitor.is_awaited(NODE)


def test_a_restart_of_ours_keeps_what_is_recorded(room: Room) -> None:
    room.scrapes(times=3)
    room.begin()
    assert room.look().ready is True
    room.cluster.now += MISSING - 1
    assert room.look().ready is True
    room.cluster.now += 1
    assert room.look().ready is False


def test_a_restart_of_ours_keeps_a_cards_fault_and_does_not_fault_it_anew(room: Room) -> None:
    room.scrapes()
    room.scrapes(sample=replace(WELL, xids=(79,)))
    assert room.finding() == (True, "CriticalXid")
    verdict = room.look().cards[DEVICE].verdict
    condition = {"type": "Faulted", "status": "True", "reason": "CriticalXid", "message": verdict.fault.text}  # type: ignore[union-attr]
    stamp = {"lastTransitionTime": "2027-01-15T08:00:00Z"}
    room.cluster.device(health={"lastXid": 79})
    conditions = room.cluster.objects["GPUDevice", DEVICE]["status"]["conditions"]
    conditions.append(condition | stamp)
    room.renew()
    room.begin()

    assert room.finding() == (True, "CriticalXid")
    room.scrapes(sample=replace(WELL, xids=(79,)))  # DCGM shows the old number for ever
    assert room.look().cards[DEVICE].state.clean_scrapes == 1


def test_a_faulted_card_comes_back_only_when_its_checks_pass(room: Room) -> None:
    room.scrapes()
    room.scrapes(sample=replace(WELL, xids=(79,)))
    room.scrapes(times=25)
    assert room.finding() == (True, "CriticalXid")  # no validator has spoken
    for role in ("driver", "container"):
        room.cluster.verdict(role, "ok")
    room.cluster.verdict("container", "ok", cards_failed="0000:17:00.0")
    room.renew()
    room.scrapes()
    assert room.finding() == (True, "CriticalXid")  # one finds fault with the card
    room.cluster.verdict("container", "ok")
    room.renew()
    woken = len(room.woken)
    room.scrapes()

    assert room.finding() == (False, "Recovered")
    assert len(room.woken) == woken + 1


def test_switched_off_validators_are_not_waited_for(room: Room) -> None:
    room.cluster.settings = parse_settings(
        {"bootstrap": {"driverValidator": {"enabled": False}, "validator": {"enabled": False}}}
    )
    room.monitor.configure()
    room.scrapes()
    room.scrapes(sample=replace(WELL, xids=(79,)))
    assert room.finding() == (True, "CriticalXid")
    room.scrapes(times=20)
    assert room.finding() == (False, "Recovered")


def test_changed_settings_are_followed(room: Room) -> None:
    room.scrapes()
    room.scrapes(sample=replace(WELL, temperature=80), times=3)
    assert room.finding() == (False, "Healthy")
    room.cluster.settings = parse_settings({"health": {"temperatureFaultC": 75, "temperatureClearC": 70}})
    room.monitor.configure()
    room.scrapes(sample=replace(WELL, temperature=80), times=3)
    assert room.finding() == (True, "Overheated")


# --- silence --------------------------------------------------------------------------------------


def test_many_nodes_silent_at_once_are_not_believed_and_it_is_told_once() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    room = Room(*nodes)
    room.scrapes(times=3)
    gone = nodes[:3]
    for _ in range(20):
        room.scrapes(*nodes[3:])
        for node in nodes:
            room.look(node)

    assert [room.look(node).is_outage for node in nodes] == [node in gone for node in nodes]
    assert [room.look(node).ready for node in nodes] == [True] * 10
    assert [found.reason for found in room.told] == ["Blind"]
    assert all(found == (False, "Healthy") for found in map(room.finding, nodes))  # nor is a card given up


@pytest.mark.parametrize("missing", [2 * PERIOD, 2.5 * PERIOD, MISSING])
def test_a_whole_fleet_is_not_believed_whatever_the_settings(missing: float) -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    room = Room(*nodes)
    room.cluster.settings = parse_settings({"bootstrap": {"monitoring": {"missingAfter": f"{missing:g}s"}}})
    room.monitor.configure()
    for moment in range(30):
        for node in nodes:  # each in its own moment of the period
            room.cluster.now += PERIOD / len(nodes)
            if moment < 3:
                room.scrape(node)
            for other in nodes:
                room.look(other)

    assert [room.look(node).ready for node in nodes] == [True] * len(nodes)
    assert [found.reason for found in room.told] == ["Blind"]


def test_a_few_silent_nodes_are_believed() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    room = Room(*nodes)
    room.scrapes(times=3)
    for _ in range(10):
        room.scrapes(*nodes[2:])
        for node in nodes:
            room.look(node)

    assert [room.look(node).ready for node in nodes] == [False, False, *[True] * 8]
    assert room.told == []


def test_when_the_silence_ends_each_node_is_believed_again() -> None:
    nodes = [f"worker-{n}" for n in range(10)]
    room = Room(*nodes)
    room.scrapes(times=3)
    for _ in range(20):
        room.scrapes(*nodes[3:])
        for node in nodes:
            room.look(node)
    room.scrapes(*nodes[1:], times=2)  # two of the three are back: the third is silent alone
    for node in nodes:
        room.look(node)
    assert room.look(nodes[0]).ready is False
    assert not any(room.look(node).is_outage for node in nodes)

    room.scrapes(times=3)
    for _ in range(5):
        room.scrapes(*nodes[3:])
        for node in nodes:
            room.look(node)
    assert [found.reason for found in room.told] == ["Blind", "Blind"]  # a second time is news again


def test_nobody_expects_answers_during_mig_work(room: Room) -> None:
    room.scrapes(times=3)
    room.cluster.device(migApply={"version": "1", "phase": "Applying"})
    room.renew()
    for _ in range(60):
        room.cluster.now += PERIOD
        assert room.look().ready is True
    assert room.finding() == (False, "Healthy")
    room.cluster.device(migApply={"version": "1", "phase": "Done"})
    room.renew()
    room.cluster.now += MISSING
    assert room.look().ready is False
    assert room.finding() == (None, "NoTelemetry")


def test_mig_work_that_takes_too_long_excuses_nobody(room: Room) -> None:
    room.scrapes(times=3)
    room.cluster.device(migApply={"version": "1", "phase": "Applying"})
    room.cluster.status().setdefault("bootstrap", {})["suspended"] = False
    room.renew()
    room.cluster.now += MISSING
    assert room.look().ready is False
    assert room.finding() == (None, "NoTelemetry")


def test_a_card_that_the_text_does_not_name_is_silent_alone(room: Room) -> None:
    room.scrapes(times=3)
    for _ in range(9):
        room.cluster.now += PERIOD
        room.monitor.receive(Scrape(NODE, room.now, "ok", (replace(WELL, uuid="GPU-of-another"),)))
    assert room.look().ready is True
    assert room.finding() == (None, "NoTelemetry")


# --- what is forgotten ----------------------------------------------------------------------------


def close(room: Room) -> None:
    labels = room.cluster.objects["Node", NODE]["metadata"]["labels"]
    del labels[names.deploy_label("dcgm-exporter")]
    room.renew()


def test_a_node_whose_gate_is_closed_is_not_listened_to(room: Room) -> None:
    room.scrapes(times=3)
    close(room)
    assert not room.monitor.is_monitored(NODE)
    room.cluster.now += 10 * MISSING
    seen = room.look()
    assert (seen.ready, seen.is_outage, seen.requeue_after) == (None, False, None)
    assert room.finding() == (False, "Healthy")  # what was known of its cards holds
    woken = list(room.woken)
    room.scrape(sample=replace(WELL, xids=(79,)))  # a scrape that was under way
    assert room.woken == woken
    assert room.finding() == (False, "Healthy")


def test_a_command_is_obeyed_where_nobody_listens(room: Room) -> None:
    room.scrapes()
    room.scrapes(sample=replace(WELL, xids=(79,)))
    assert room.finding() == (True, "CriticalXid")
    close(room)
    room.cluster.objects["GPUDevice", DEVICE]["metadata"]["annotations"][names.RETURN] = "true"
    room.renew()

    assert room.finding() == (False, "ReturnedByHand")


def test_a_node_that_comes_back_starts_with_what_is_recorded(room: Room) -> None:
    room.scrapes(times=3)
    room.monitor.forget_node(NODE)
    room.cluster.now += 10 * MISSING
    seen = room.look()
    assert (seen.ready, seen.last) == (True, None)


def test_another_card_under_the_same_name_starts_anew(room: Room) -> None:
    room.scrapes()
    room.scrapes(sample=replace(WELL, xids=(79,)))
    assert room.finding() == (True, "CriticalXid")
    room.cluster.objects["GPUDevice", DEVICE]["metadata"]["uid"] = "another"
    room.renew()

    assert room.finding() is None


def test_a_card_that_is_deleted_is_forgotten(room: Room) -> None:
    room.scrapes()
    assert [one.device for one in room.monitor.known()] == [DEVICE]
    assert [one.node for one in room.monitor.known()] == [NODE]
    room.monitor.forget_card(DEVICE)
    assert list(room.monitor.known()) == []


# --- warnings -------------------------------------------------------------------------------------


def test_a_warning_is_told_until_somebody_was_told(room: Room) -> None:
    room.scrapes()
    woken = len(room.woken)
    room.scrapes(sample=replace(WELL, xids=(63,)))
    assert len(room.woken) == woken + 1
    seen = room.look()
    assert len(seen.cards[DEVICE].state.warnings) == 1
    assert "XID 63" in seen.cards[DEVICE].state.warnings[0]
    assert room.look().cards[DEVICE].state.warnings == seen.cards[DEVICE].state.warnings  # not sent: again

    room.scrapes(sample=replace(WELL, xids=(44,)))  # another one comes while the first is being told
    room.monitor.acknowledge(seen)
    left = room.look().cards[DEVICE].state.warnings
    assert len(left) == 1
    assert "XID 44" in left[0]
    room.monitor.acknowledge(room.look())
    room.monitor.acknowledge(seen)  # an old view takes nothing away
    assert room.look().cards[DEVICE].state.warnings == ()


def test_health_that_crosses_a_threshold_wakes_the_node(room: Room) -> None:
    room.scrapes()
    room.look()
    room.cluster.device(health={"temperatureC": 50, "eccErrorsTotal": 0, "throttled": False})
    room.renew()
    woken = len(room.woken)
    room.scrapes(sample=replace(WELL, temperature=84))
    assert len(room.woken) == woken
    room.scrapes(sample=replace(WELL, temperature=85))
    assert len(room.woken) == woken + 1
