"""Reservations whose pods nobody has seen: what counts against a namespace, and for how long."""

from __future__ import annotations

import pytest

from tests.kit.objects import NOW, reservation
from tests.webhook import world
from webhook.caches import unseen_reservations as unseen
from webhook.caches.snapshot import Snapshot
from webhook.caches.stores import Stores
from webhook.caches.unseen_reservations import UnseenReservations
from webhook.decision import shortage
from webhook.decision.shortage import UnseenHistory

TTL = 15.0


class Seen:
    """The record of a replica, with a clock of its own."""

    def __init__(self) -> None:
        self.stores: Stores = world.stores()
        self.snapshot: Snapshot = world.snapshot(self.stores)
        self.now = NOW
        self.record = UnseenReservations(self.stores.devices, self.stores.pods, lambda: self.now)

    def card(self, *requests: str, slots: int = 1, seen: bool = False, until: float = NOW + TTL) -> None:
        """The card is written, with these promises and no others."""
        held = [reservation(r, slots=slots, since=NOW, until=until, seen=seen) for r in requests]
        self.stores.devices.on_watch_event(world.device("n1", 1, reservations=held))

    def ended_unseen(self) -> None:
        """One more reservation whose pod never came."""
        self.card("gone")
        self.now += TTL + 1
        self.card()

    def history(self, pool: str = "a") -> UnseenHistory | None:
        return self.record.history("team", pool, self.now)


def test_a_namespace_without_a_record_is_believed() -> None:
    seen = Seen()
    seen.card("r1", "r2")
    assert seen.history() is None


def test_what_ended_unseen_is_remembered_for_a_while_and_counts_against_its_namespace_alone() -> None:
    seen = Seen()
    seen.ended_unseen()
    assert seen.history() == UnseenHistory(0, 0.0, 1)
    assert seen.record.history("other", "a", seen.now) is None
    seen.now += unseen.FORGET - 1
    assert seen.history() == UnseenHistory(0, unseen.FORGET - 1)
    seen.now += 1
    assert seen.history() is None


def test_clocks_may_differ_a_little() -> None:
    seen = Seen()
    seen.card("gone")
    seen.now += TTL - 1
    seen.card()
    assert seen.history() == UnseenHistory(0, 0.0, 1)


def test_a_large_request_is_remembered_as_a_whole_and_for_a_shorter_while() -> None:
    seen = Seen()
    for number in (1, 2, 3):
        held = [reservation("r1", slots=2, since=NOW, until=NOW + TTL)]
        seen.stores.devices.on_watch_event(world.device("n1", number, reservations=held))
    seen.now += TTL + 1
    for number in (1, 2, 3):
        seen.stores.devices.on_watch_event(world.device("n1", number))
    assert seen.history() == UnseenHistory(0, 0.0, 6)
    assert seen.history("b") == UnseenHistory(0, 0.0, 0)
    seen.now += shortage.PAUSE
    assert seen.history() == UnseenHistory(0, shortage.PAUSE, 0)


@pytest.mark.parametrize("how", ["its pod is there", "taken back", "seen before"])
def test_what_ended_otherwise_is_no_record(how: str) -> None:
    seen = Seen()
    seen.card("r1")
    if how == "seen before":
        seen.card("r1", seen=True)
    if how == "its pod is there":
        seen.stores.pods.on_watch_event(world.stored_pod("p", None, request="r1"))
    if how != "taken back":
        seen.now += TTL + 1
    seen.card()
    assert seen.history() is None


def test_slots_count_at_once_where_there_is_a_record_and_those_on_their_way_too() -> None:
    seen = Seen()
    seen.ended_unseen()
    seen.card("r1", slots=2, until=seen.now + TTL)
    assert seen.history() == UnseenHistory(2, 0.0, 1)
    assert seen.history("b") == UnseenHistory(0, 0.0)
    seen.record.write_started("team", "r1", "a", 2)  # it shows already, and its answer has not come
    seen.record.write_started("team", "r2", "a", 3)
    assert seen.history() == UnseenHistory(5, 0.0, 1)
    seen.record.write_finished("team", "r2")
    seen.record.write_finished("team", "r1")
    seen.stores.pods.on_watch_event(world.stored_pod("p", None, request="r1"))
    assert seen.history() == UnseenHistory(0, 0.0, 1)
    seen.card("r3", slots=2, until=seen.now + 1)
    seen.now += 1
    assert seen.history() == UnseenHistory(0, 1.0, 1), "its time is over, though nobody has taken it off the card"


def test_records_do_not_grow_with_every_namespace_there_ever_was() -> None:
    seen = Seen()
    for number in range(20):
        held = [reservation(f"r{number}", namespace=f"n{number}", since=seen.now, until=seen.now + TTL)]
        seen.stores.devices.on_watch_event(world.device("n1", 1, reservations=held))
        seen.now += unseen.FORGET
        seen.card()
    assert len(seen.record._ended) <= 1
    assert len(seen.record._large) <= 1
    assert not seen.record._entries
