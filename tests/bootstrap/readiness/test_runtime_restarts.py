"""A few nodes at a time have their container runtime restarted, one that failed counts, and each says why it waits."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import reasons
from controllers.api.reasons.runtime import RUNTIME_REASONS
from controllers.api.runtime_state import AWAITING_TOOLKIT, AWAITING_TURN, BY_HAND, READY, REVERTED, STATES
from controllers.api.settings import parse_settings
from tests.bootstrap.world import NODE, Cluster

NODES = [f"worker-{number:02}" for number in range(1, 5)]


def at_once(number: int) -> Any:
    return parse_settings({"bootstrap": {"toolkit": {"runtimeRestarts": number}}})


@pytest.fixture
def fleet() -> Cluster:
    made = Cluster()
    made.settings = at_once(2)
    for node in NODES:
        made.prepare(node)
        made.pod("toolkit", ready=False, on=node)
        made.tell_runtime(AWAITING_TURN, on=node)
    return made


def turns(fleet: Cluster) -> list[str]:
    """Nodes that have their turn, as their objects say."""
    found = {node: fleet.objects["GPUNodeInventory", node]["status"].get("runtime", {}) for node in NODES}
    return [node for node, runtime in found.items() if runtime.get("restartAllowed")]


def settle(fleet: Cluster) -> None:
    for node in NODES:
        fleet.step(on=node)


def test_no_more_have_their_turn_than_the_setting_says_and_a_turn_is_kept_until_it_is_used(fleet: Cluster) -> None:
    settle(fleet)
    settle(fleet)
    assert turns(fleet) == NODES[:2]

    fleet.tell_runtime(READY, on=NODES[0])
    settle(fleet)
    assert turns(fleet) == NODES[1:3]
    assert fleet.plan(NODES[3]).requeue_after == 15.0, "the last one looks again by itself"
    assert fleet.plan(NODES[3]).writes == ()

    fleet.settings = at_once(3)
    settle(fleet)
    assert turns(fleet) == NODES[1:]


def test_two_that_are_planned_before_either_is_written_are_not_both_allowed(fleet: Cluster) -> None:
    fleet.settings = at_once(1)
    world = fleet.view()
    restarts = fleet.restarts(world)

    first, second = (fleet.plan(node, restarts=restarts) for node in NODES[:2])

    assert '"restartAllowed": true' in said(first)
    assert "restartAllowed" not in said(second)


def said(made: Any) -> str:
    return (
        str([write.body for write in made.writes if "status" in write.body]).replace("'", '"').replace("True", "true")
    )


def test_what_fails_on_as_many_nodes_stops_there(fleet: Cluster) -> None:
    for node in NODES[:2]:
        fleet.tell_runtime(REVERTED, "it did not serve", on=node)
    settle(fleet)
    settle(fleet)

    assert turns(fleet) == []
    fleet.tell_runtime(READY, on=NODES[0])  # a person has mended it
    settle(fleet)
    assert turns(fleet) == NODES[2:3]


@pytest.mark.parametrize("then", [*sorted(set(STATES) - {READY, BY_HAND}), "a word that nobody knows"])
def test_a_node_that_had_its_turn_counts_whatever_it_says_until_it_is_well(fleet: Cluster, then: str) -> None:
    """A runtime that is dead for good is Reverted in one look, and Silent or Refused in the next."""
    settle(fleet)
    for node in NODES[:2]:
        fleet.tell_runtime(then, on=node)
    settle(fleet)
    settle(fleet)
    assert turns(fleet) == NODES[:2]

    fleet.tell_runtime(BY_HAND, on=NODES[0])
    fleet.tell_runtime(READY, on=NODES[1])
    settle(fleet)
    assert turns(fleet) == NODES[2:]


@pytest.mark.parametrize("state", sorted(set(STATES) - {READY, AWAITING_TOOLKIT, BY_HAND}))
def test_the_toolkit_that_is_not_ready_names_what_its_runtime_says(state: str) -> None:
    cluster = Cluster()
    cluster.prepare()
    cluster.pod("toolkit", ready=False)
    cluster.tell_runtime(state, "look here", kind="CRI-O")
    cluster.now += 86_400
    cluster.step()
    cluster.now += 86_400
    cluster.step()

    status, reason = cluster.condition("ToolkitMissing")
    assert (status, reason) == ("True", RUNTIME_REASONS[state])
    assert cluster.message("ToolkitMissing") == f"the container runtime of node {NODE} (CRI-O): look here"
    assert cluster.pooling() == ("False", RUNTIME_REASONS[state])
    told = cluster.objects["GPUNodeInventory", NODE]["status"]["runtime"]
    assert (told["state"], told["kind"], told["message"]) == (state, "CRI-O", "look here")
    assert [row for row in reasons.NODE if reason in row.reasons.split() and row.cure]


def test_words_that_nobody_knows_and_a_toolkit_that_is_not_ours_say_nothing() -> None:
    cluster = Cluster()
    cluster.prepare()
    cluster.tell_runtime("Dancing")
    cluster.step()
    assert "runtime" not in cluster.objects["GPUNodeInventory", NODE]["status"]

    cluster.tell_runtime(AWAITING_TURN)
    cluster.settings = parse_settings({"bootstrap": {"toolkit": {"enabled": False}}})
    cluster.step()
    assert "runtime" not in cluster.objects["GPUNodeInventory", NODE]["status"]
