"""Never more than the share of the nodes leaves service for their silence; what shows that one is bad takes it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names, resources
from controllers.api.settings import parse_settings
from controllers.api.validation import CONTAINER, DRIVER, FAILED
from controllers.bootstrap.health.node import NodeHealth
from controllers.bootstrap.readiness import plan
from controllers.bootstrap.readiness.assess import assess
from controllers.runtime.plan import EmitEvent
from tests.bootstrap.world import NODE, Cluster

if TYPE_CHECKING:
    from controllers.bootstrap.readiness.disruption_budget import DisruptionBudget
    from controllers.bootstrap.world import World
    from controllers.runtime.plan import Plan

NODES = [f"worker-{number:02}" for number in range(1, 6)]
FIRST, SECOND, THIRD = NODES[:3]


@pytest.fixture
def fleet() -> Cluster:
    """Five ready nodes, a card of pool `a` on each; the share of 20 % is one."""
    made = Cluster()
    for node in NODES:
        made.prepare(node)
        made.pooled("a", on=node)
    return made


def percent(share: int) -> object:
    return parse_settings({"health": {"maxUnavailablePercent": share}})


def notes(made: Plan) -> list[str]:
    return [action.reason for action in made.actions if isinstance(action, EmitEvent)]


def mute(fleet: Cluster, *nodes: str) -> None:
    """The exporters of these nodes have not answered for long."""
    for node in nodes:
        fleet.answers[node] = False


def answer(fleet: Cluster, *nodes: str) -> None:
    for node in nodes:
        fleet.answers[node] = True


# --- what is shown ----------------------------------------------------------------------------


def show(fleet: Cluster, evidence: str, *nodes: str) -> None:
    """The agents of these nodes report what makes every card there useless."""
    for node in nodes:
        match evidence:
            case "no driver":
                fleet.report(driver="", on=node)
            case "no toolkit":
                fleet.report(toolkit="false", on=node)
            case role:
                fleet.verdict(role, FAILED, reason="LibraryMissing", message="half upgraded", on=node)


EVIDENCE = {
    "no driver": "DriverNotFound",
    "no toolkit": "ToolkitNotFound",
    DRIVER: "LibraryMissing",
    CONTAINER: "LibraryMissing",
}


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_nodes_that_are_shown_to_be_bad_go_at_once_whatever_the_share(fleet: Cluster, evidence: str) -> None:
    if evidence == "no toolkit":
        fleet.settings = parse_settings({"bootstrap": {"toolkit": {"enabled": False}}})
    show(fleet, evidence, *NODES)
    for node in NODES:
        made = fleet.step(on=node)
        assert fleet.pooling(node) == ("False", EVIDENCE[evidence])
        assert names.EVENT_FUSE_HELD not in notes(made)
        assert fleet.plan(node).actions == ()


def test_that_nobody_tells_of_a_toolkit_shows_nothing(fleet: Cluster) -> None:
    fleet.settings = parse_settings({"bootstrap": {"toolkit": {"enabled": False}}})
    for node in NODES:
        fleet.report(toolkit="", on=node)
        fleet.step(on=node)
    assert [fleet.pooling(node)[1] for node in NODES] == ["ToolkitNotFound", *["Held"] * 4]


@pytest.mark.parametrize("what", ["agent", "node"])
def test_what_was_shown_stands_while_nobody_says_otherwise(fleet: Cluster, what: str) -> None:
    """The agent's pod is away, or kubelet, since it said that there is no driver: the driver is no more there."""
    show(fleet, "no driver", *NODES)
    for node in NODES:
        if what == "agent":
            fleet.pod("discover", ready=False, on=node)
        else:
            fleet.node(ready=False, on=node)
        fleet.step(on=node)
    assert {fleet.pooling(node) for node in NODES} == {("False", "DriverNotFound")}


def test_what_was_shown_before_the_node_started_anew_shows_nothing_now(fleet: Cluster) -> None:
    for node in NODES:
        fleet.report(driver="", boot="another", on=node)
        fleet.step(on=node)
    assert [fleet.pooling(node)[1] for node in NODES] == ["ReportOutdated", *["Held"] * 4]


def test_a_node_that_a_fuse_holds_goes_when_it_is_shown_to_be_bad(fleet: Cluster) -> None:
    mute(fleet, FIRST, SECOND)
    for node in (FIRST, SECOND):
        fleet.step(on=node)
    assert fleet.pooling(SECOND) == ("True", "Held")
    show(fleet, "no driver", SECOND)
    fleet.step(on=SECOND)
    assert fleet.pooling(SECOND) == ("False", "DriverNotFound")


def test_nodes_that_are_shown_to_be_bad_leave_no_room_for_the_silent(fleet: Cluster) -> None:
    show(fleet, "no driver", FIRST, SECOND)
    mute(fleet, THIRD)
    for node in (FIRST, SECOND, THIRD):
        fleet.step(on=node)
    assert fleet.pooling(THIRD) == ("True", "Held")


def test_so_do_they_before_any_write_is_seen(fleet: Cluster) -> None:
    show(fleet, "no driver", FIRST)
    mute(fleet, SECOND)
    world = fleet.view()
    budget = fleet.budget(world)

    assert ask(fleet, budget, world, FIRST) == ""
    assert "20 %" in ask(fleet, budget, world, SECOND)


def test_a_driver_that_became_too_old_is_held(fleet: Cluster) -> None:
    """The nodes are as they were, and what is asked of them was raised: by a release, for all of them."""
    for node in NODES:
        fleet.report(driver="470.1", on=node)
        fleet.step(on=node)
    assert [fleet.pooling(node)[1] for node in NODES] == ["DriverTooOld", *["Held"] * 4]


# --- what is concluded from silence -----------------------------------------------------------


def test_one_node_goes_and_the_others_wait_until_it_is_back(fleet: Cluster) -> None:
    mute(fleet, FIRST, SECOND, THIRD)
    fleet.step(on=FIRST)
    assert fleet.pooling(FIRST) == ("False", "HeartbeatMissing")
    for node in (SECOND, THIRD):
        made = fleet.step(on=node)
        assert fleet.pooling(node) == ("True", "Held")
        assert fleet.condition("MonitoringMissing", node) == ("True", "HeartbeatMissing")  # what is wrong is told
        assert "more than 20 % of the nodes" in fleet.message("ReadyForPooling", node)
        assert notes(made) == [names.EVENT_FUSE_HELD]
        assert made.requeue_after == plan.RETRY
        assert fleet.plan(node).actions == ()
    fleet.now += 86_400
    assert fleet.plan(SECOND).actions == ()

    answer(fleet, FIRST)
    fleet.step(on=FIRST)
    assert fleet.pooling(FIRST) == ("True", "Ready")
    fleet.step(on=SECOND)
    assert fleet.pooling(SECOND) == ("False", "HeartbeatMissing")
    fleet.step(on=THIRD)
    assert fleet.pooling(THIRD) == ("True", "Held")

    answer(fleet, THIRD)
    made = fleet.step(on=THIRD)
    assert fleet.pooling(THIRD) == ("True", "Ready")
    assert notes(made) == []  # it never left


def test_pods_on_a_node_that_is_held_are_told(fleet: Cluster) -> None:
    fleet.used(on=SECOND)
    for node in (FIRST, SECOND):
        mute(fleet, node)
        fleet.step(on=node)

    assert fleet.pooling(SECOND) == ("True", "Held")
    assert fleet.condition("DegradedWorkloads", SECOND) == ("True", "NodeNotInService")


def test_with_the_whole_share_everybody_goes(fleet: Cluster) -> None:
    fleet.settings = percent(100)  # type: ignore[assignment]
    for node in NODES:
        mute(fleet, node)
        fleet.step(on=node)
    assert {fleet.pooling(node) for node in NODES} == {("False", "HeartbeatMissing")}


def test_the_only_node_may_go() -> None:
    alone = Cluster()
    alone.prepare()
    alone.answers[NODE] = False
    alone.step()
    assert alone.pooling() == ("False", "HeartbeatMissing")


@pytest.mark.parametrize("reason", ["NotManaged", "NoCards", "ModuleDisabled"])
def test_what_a_person_decided_is_never_held(fleet: Cluster, reason: str) -> None:
    fleet.enabled = reason != "ModuleDisabled"
    for node in NODES:
        if fleet.enabled:
            fleet.inventory(managed=reason != "NotManaged", cards=int(reason != "NoCards"), on=node)
        fleet.step(on=node)
    assert {fleet.pooling(node) for node in NODES} == {("False", reason)}


def test_an_agents_word_is_no_fuse(fleet: Cluster) -> None:
    for reason in ("LibraryMissing", "Held"):
        fleet.verdict(DRIVER, FAILED, reason=reason, message="half upgraded", on=FIRST)
        made = fleet.step(on=FIRST)
    assert fleet.pooling(FIRST) == ("False", "CheckFailed")
    assert notes(made) == []


def test_a_node_that_is_held_and_then_not_wanted_goes(fleet: Cluster) -> None:
    for node in (FIRST, SECOND):
        mute(fleet, node)
        fleet.step(on=node)
    fleet.inventory(managed=False, on=SECOND)
    fleet.step(on=SECOND)
    assert fleet.pooling(SECOND) == ("False", "NotManaged")


def test_a_node_that_never_was_ready_is_not_asked_for(fleet: Cluster) -> None:
    """Only what serves pools counts as out: a rack of new nodes holds nobody."""
    for number in range(20):
        fleet.node(on=f"new-{number}")
        fleet.inventory(on=f"new-{number}")
        fleet.step(on=f"new-{number}")
    mute(fleet, FIRST)
    fleet.step(on=FIRST)
    assert fleet.pooling(FIRST) == ("False", "HeartbeatMissing")


def test_a_roll_out_that_outlasts_its_grace_takes_one_node_only(fleet: Cluster) -> None:
    for node in NODES:
        fleet.pod("toolkit", ready=False, on=node)
        fleet.step(on=node)
    assert {fleet.pooling(node) for node in NODES} == {("True", "Restarting")}
    fleet.now += fleet.settings.bootstrap.restart_grace
    for node in NODES:
        fleet.step(on=node)
    assert [fleet.pooling(node)[1] for node in NODES] == ["ToolkitNotReady", *["Held"] * 4]


# --- the process's own memory -----------------------------------------------------------------


def ask(cluster: Cluster, budget: DisruptionBudget, world: World, on: str) -> str:
    """Ask for a node with these caches, which need not know of the last writes."""
    health = NodeHealth(cluster.answers.get(on), cluster.now)
    return budget.admit(on, assess(world.node(on), health, cluster.settings, cluster.now), cluster.now)


def renew(cluster: Cluster, world: World) -> None:
    """The caches are told what happened."""
    for name in ("inventories", "devices", "features", "nodes"):
        getattr(world, name).replace(list(getattr(cluster.view(), name)), 1)


def test_of_two_nodes_that_are_asked_for_before_any_write_is_seen_one_goes(fleet: Cluster) -> None:
    mute(fleet, FIRST, SECOND)
    world = fleet.view()
    budget = fleet.budget(world)

    assert ask(fleet, budget, world, FIRST) == ""
    assert "20 %" in ask(fleet, budget, world, SECOND)
    assert budget.held == 1
    assert ask(fleet, budget, world, FIRST) == ""  # asked again, it stays let go


def test_who_left_is_counted_by_a_process_that_has_just_started_though_no_pool_is_there() -> None:
    fleet = Cluster()
    for node in NODES:
        fleet.prepare(node)
    mute(fleet, FIRST, SECOND)
    for node in (FIRST, SECOND):
        fleet.step(on=node)  # each time a new process
    assert [fleet.pooling(node) for node in (FIRST, SECOND)] == [("False", "HeartbeatMissing"), ("True", "Held")]
    assert [fleet.status(node)["bootstrap"].get("disrupted") for node in (FIRST, SECOND)] == [True, None]
    answer(fleet, FIRST)
    for node in (FIRST, SECOND):
        fleet.step(on=node)
    assert fleet.status(FIRST)["bootstrap"].get("disrupted") is None
    assert fleet.pooling(SECOND) == ("False", "HeartbeatMissing")


def test_a_node_that_does_not_want_to_go_any_more_makes_room(fleet: Cluster) -> None:
    mute(fleet, FIRST, SECOND)
    world = fleet.view()
    budget = fleet.budget(world)
    ask(fleet, budget, world, FIRST)
    ask(fleet, budget, world, SECOND)
    answer(fleet, FIRST)
    renew(fleet, world)

    assert ask(fleet, budget, world, FIRST) == ""
    assert ask(fleet, budget, world, SECOND) == ""
    assert budget.held == 0


def test_a_node_that_is_deleted_makes_room(fleet: Cluster) -> None:
    mute(fleet, FIRST, SECOND)
    world = fleet.view()
    budget = fleet.budget(world)
    ask(fleet, budget, world, FIRST)
    fleet.drop(resources.GPUNODEINVENTORY, FIRST)
    renew(fleet, world)
    ask(fleet, budget, world, FIRST)

    assert ask(fleet, budget, world, SECOND) == ""


def test_nodes_without_pooled_cards_go_no_faster(fleet: Cluster) -> None:
    for node in NODES:
        fleet.pooled(None, on=node)
        mute(fleet, node)
    world = fleet.view()
    budget = fleet.budget(world)
    for _ in range(len(NODES)):
        for node in NODES:
            fleet.execute(fleet.plan(node, budget).actions, names.MANAGER_BOOTSTRAP, None)
            renew(fleet, world)
    assert [fleet.pooling(node)[1] for node in NODES] == ["HeartbeatMissing", *["Held"] * 4]

    answer(fleet, FIRST)
    for node in NODES:
        fleet.execute(fleet.plan(node, budget).actions, names.MANAGER_BOOTSTRAP, None)
        renew(fleet, world)
    assert [fleet.pooling(node)[1] for node in NODES] == ["Ready", "HeartbeatMissing", *["Held"] * 3]


def test_a_node_that_was_let_go_and_is_not_wanted_any_more_makes_room(fleet: Cluster) -> None:
    for node in (FIRST, SECOND):
        fleet.pooled(None, on=node)
        mute(fleet, node)
    world = fleet.view()
    budget = fleet.budget(world)
    fleet.execute(fleet.plan(FIRST, budget).actions, names.MANAGER_BOOTSTRAP, None)
    fleet.inventory(managed=False, on=FIRST)
    fleet.execute(fleet.plan(FIRST, budget).actions, names.MANAGER_BOOTSTRAP, None)
    renew(fleet, world)

    assert ask(fleet, budget, world, SECOND) == ""
