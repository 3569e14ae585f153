"""Nodes that people ask for, from the annotation to the end, under the same budgets as the roll-out."""

from __future__ import annotations

import pytest

from controllers.api import names
from controllers.domain.clock import stamp
from tests.driver.rollout.cluster import RolledOut
from tests.driver.rollout.test_rollout import passing
from tests.driver.world import NEXT, VERSION


def asks(made: RolledOut, *nodes: str, who: str | None = "ansible") -> None:
    for node in nodes:
        made.merge("Node", node, {"metadata": {"annotations": {names.HAND_OVER: who}}})


def theirs(made: RolledOut) -> list[str]:
    return [name for name in made.nodes() if made.phase(name) == "HandedOver"]


@pytest.fixture
def six() -> RolledOut:
    """Six nodes of one kind, of which two may be out."""
    made = RolledOut()
    made.fleet(6, waves=[50, 100], maxUnavailable={"nodes": "2", "perPool": "100%"})
    return made


def test_no_more_are_handed_over_than_may_be_out_and_each_that_comes_back_makes_room(six: RolledOut) -> None:
    asks(six, *six.nodes())
    six.settle()
    had: set[str] = set()
    while len(had) < 6:
        now = theirs(six)
        assert len(now) == 2
        assert sum(six.in_service(name) for name in six.nodes()) == 4
        had |= set(now)
        asks(six, now[0], who=None)
        six.settle()
        if len(had) == 6:
            break
    asks(six, *six.nodes(), who=None)
    six.settle()

    assert had == set(six.nodes())
    assert all(six.in_service(name) and six.phase(name) is None for name in six.nodes())
    assert {six.version(name) for name in six.nodes()} == {VERSION}


def test_a_node_that_is_handed_over_leaves_less_to_the_roll_out_and_gets_its_driver_later(six: RolledOut) -> None:
    asks(six, "n3")
    six.settle()
    assert theirs(six) == ["n3"]
    six.retarget(NEXT)
    for _ in range(20):
        six.settle()
        assert len(six.out()) <= 2
        six.now += 61
    assert theirs(six) == ["n3"]
    assert six.version("n3") == VERSION
    asks(six, "n3", who=None)
    passing(six)

    assert {six.version(name) for name in six.nodes()} == {NEXT}


def test_nobody_gets_a_node_of_a_driver_that_is_paused(six: RolledOut) -> None:
    six.merge("GPUDriver", "main", {"metadata": {"annotations": {names.PAUSE: stamp(six.now + 600)}}})
    asks(six, "n1")
    six.settle()
    assert theirs(six) == []
    assert six.in_service("n1")
    six.now += 601
    six.settle()

    assert theirs(six) == ["n1"]


def test_a_node_that_is_not_free_in_time_serves_and_is_tried_again(six: RolledOut) -> None:
    six.clients_stay.add("n1")
    asks(six, "n1")
    six.settle()
    six.now += 301
    six.settle()
    assert six.phase("n1") == "Deferred"
    assert six.in_service("n1")
    six.clients_stay.clear()
    six.now += 1801
    six.settle()

    assert theirs(six) == ["n1"]


def test_a_wish_for_a_node_that_has_its_driver_yet_comes_before_the_roll_out(six: RolledOut) -> None:
    for name in six.nodes():
        six.users.add(name)
    six.outside()
    six.retarget(NEXT)
    six.settle()
    (canary,) = six.out()
    asks(six, canary)
    six.users.clear()
    six.settle()

    assert theirs(six) == [canary]
    assert six.version(canary) == VERSION
    asks(six, canary, who=None)
    passing(six)
    assert six.version(canary) == NEXT


def test_a_hosts_own_driver_needs_a_driver_that_installs_nothing() -> None:
    made = RolledOut()
    made.host = True
    for name in ("n0", "n1"):
        made.node(name)
        made.report(name, driver=VERSION, driver_source="host")
    made.driver(mode="Host", rollout={"maxUnavailable": {"nodes": "1", "perPool": "100%"}})
    made.settle()
    asks(made, "n0", "n1")
    made.settle()
    assert len(theirs(made)) == 1
    asks(made, *theirs(made), who=None)
    made.settle()
    assert len(theirs(made)) == 1
    asks(made, *theirs(made), who=None)
    made.settle()

    assert all(made.in_service(name) and made.phase(name) is None for name in made.nodes())
    assert {made.label(name) for name in made.nodes()} == {None}
