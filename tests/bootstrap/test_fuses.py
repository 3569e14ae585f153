"""Never more than the share leaves service by itself: nodes, and the cards of each pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.settings import parse_settings
from controllers.api.validation import DRIVER, FAILED
from controllers.bootstrap import plan
from controllers.bootstrap.health.view import CardNews, Telemetry
from controllers.runtime.plan import Note
from tests.bootstrap.world import Cluster, device_name

if TYPE_CHECKING:
    from controllers.bootstrap.fuses import Fuses
    from controllers.bootstrap.observe import World
    from controllers.bootstrap.plan import Held
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
    return [action.reason for action in made.actions if isinstance(action, Note)]


# --- nodes ------------------------------------------------------------------------------------


def test_one_node_goes_and_the_others_wait_until_it_is_back(fleet: Cluster) -> None:
    for node in (FIRST, SECOND, THIRD):
        fleet.report(driver="", on=node)
    fleet.step(on=FIRST)
    assert fleet.pooling(FIRST) == ("False", "DriverNotFound")
    for node in (SECOND, THIRD):
        made = fleet.step(on=node)
        assert fleet.pooling(node) == ("True", "Held")
        assert fleet.condition("DriverMissing", node) == ("True", "DriverNotFound")  # what is wrong is told
        assert "more than 20 % of the nodes" in fleet.message("ReadyForPooling", node)
        assert notes(made) == [names.EVENT_FUSE_HELD, names.EVENT_DRIVER_MISSING]
        assert made.requeue_after == plan.RETRY
        assert fleet.plan(node).actions == ()
    fleet.now += 86_400
    assert fleet.plan(SECOND).actions == ()

    fleet.report(on=FIRST)
    fleet.step(on=FIRST)
    assert fleet.pooling(FIRST) == ("True", "Ready")
    fleet.step(on=SECOND)
    assert fleet.pooling(SECOND) == ("False", "DriverNotFound")
    fleet.step(on=THIRD)
    assert fleet.pooling(THIRD) == ("True", "Held")

    fleet.report(on=THIRD)
    made = fleet.step(on=THIRD)
    assert fleet.pooling(THIRD) == ("True", "Ready")
    assert notes(made) == []  # it never left


def test_pods_on_a_node_that_is_held_are_told(fleet: Cluster) -> None:
    fleet.used(on=SECOND)
    for node in (FIRST, SECOND):
        fleet.report(driver="", on=node)
        fleet.step(on=node)

    assert fleet.pooling(SECOND) == ("True", "Held")
    assert fleet.condition("DegradedWorkloads", SECOND) == ("True", "NodeNotInService")


def test_with_the_whole_share_everybody_goes(fleet: Cluster) -> None:
    fleet.settings = percent(100)  # type: ignore[assignment]
    for node in NODES:
        fleet.report(driver="", on=node)
        fleet.step(on=node)
    assert {fleet.pooling(node) for node in NODES} == {("False", "DriverNotFound")}


def test_the_only_node_may_go() -> None:
    alone = Cluster()
    alone.prepare()
    alone.report(driver="")
    alone.step()
    assert alone.pooling() == ("False", "DriverNotFound")


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
        fleet.report(driver="", on=node)
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
    fleet.report(driver="", on=FIRST)
    fleet.step(on=FIRST)
    assert fleet.pooling(FIRST) == ("False", "DriverNotFound")


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


def ask(cluster: Cluster, fuses: Fuses, world: World, on: str) -> Held:
    """Ask for a node with these caches, which need not know of the last writes."""
    known = [card.name for card in world.cards(on) if card.name in cluster.memory]
    cards = {name: CardNews(cluster.memory[name]) for name in known}
    seen = world.node(on, Telemetry(cluster.answers.get(on), cluster.now, cards=cards))
    return fuses.ask(seen, plan.assess(seen, cluster.settings, cluster.now))


def renew(cluster: Cluster, world: World) -> None:
    """The caches are told what happened."""
    for name in ("inventories", "devices", "features", "nodes"):
        getattr(world, name).replace(list(getattr(cluster.view(), name)), 1)


def gauge(kind: str, group: str) -> float | None:
    return REGISTRY.get_sample_value("gpu_fuse_held", {"kind": kind, "group": group})


def test_of_two_nodes_that_are_asked_for_before_any_write_is_seen_one_goes(fleet: Cluster) -> None:
    for node in (FIRST, SECOND):
        fleet.report(driver="", on=node)
    world = fleet.view()
    fuses = fleet.fuses(world)

    assert ask(fleet, fuses, world, FIRST).node == ""
    assert "20 %" in ask(fleet, fuses, world, SECOND).node
    assert gauge("node", "nodes") == 1
    assert ask(fleet, fuses, world, FIRST).node == ""  # asked again, it stays let go


def test_a_node_that_does_not_want_to_go_any_more_makes_room(fleet: Cluster) -> None:
    for node in (FIRST, SECOND):
        fleet.report(driver="", on=node)
    world = fleet.view()
    fuses = fleet.fuses(world)
    ask(fleet, fuses, world, FIRST)
    ask(fleet, fuses, world, SECOND)
    fleet.report(on=FIRST)
    renew(fleet, world)

    assert ask(fleet, fuses, world, FIRST).node == ""
    assert ask(fleet, fuses, world, SECOND).node == ""
    assert gauge("node", "nodes") == 0


def test_a_node_that_is_deleted_makes_room(fleet: Cluster) -> None:
    for node in (FIRST, SECOND):
        fleet.report(driver="", on=node)
    world = fleet.view()
    fuses = fleet.fuses(world)
    ask(fleet, fuses, world, FIRST)
    fleet.drop(resources.GPUNODEINVENTORY, FIRST)
    renew(fleet, world)
    ask(fleet, fuses, world, FIRST)

    assert ask(fleet, fuses, world, SECOND).node == ""


def test_nodes_without_pooled_cards_go_no_faster(fleet: Cluster) -> None:
    for node in NODES:
        fleet.pooled(None, on=node)
        fleet.report(driver="", on=node)
    world = fleet.view()
    fuses = fleet.fuses(world)
    for _ in range(len(NODES)):
        for node in NODES:
            fleet.execute(fleet.plan(node, fuses).actions, names.MANAGER_BOOTSTRAP, None)
            renew(fleet, world)
    assert [fleet.pooling(node)[1] for node in NODES] == ["DriverNotFound", *["Held"] * 4]

    fleet.report(on=FIRST)
    for node in NODES:
        fleet.execute(fleet.plan(node, fuses).actions, names.MANAGER_BOOTSTRAP, None)
        renew(fleet, world)
    assert [fleet.pooling(node)[1] for node in NODES] == ["Ready", "DriverNotFound", *["Held"] * 3]


def test_a_node_that_was_let_go_and_is_not_wanted_any_more_makes_room(fleet: Cluster) -> None:
    for node in (FIRST, SECOND):
        fleet.pooled(None, on=node)
        fleet.report(driver="", on=node)
    world = fleet.view()
    fuses = fleet.fuses(world)
    fleet.execute(fleet.plan(FIRST, fuses).actions, names.MANAGER_BOOTSTRAP, None)
    fleet.inventory(managed=False, on=FIRST)
    renew(fleet, world)
    ask(fleet, fuses, world, FIRST)

    assert ask(fleet, fuses, world, SECOND).node == ""


def fault(cluster: Cluster, *nodes: str) -> None:
    for node in nodes:
        cluster.hear("well", on=node)
        cluster.hear("xid", on=node)


def test_of_two_cards_of_a_pool_that_are_asked_for_before_any_write_is_seen_one_goes(fleet: Cluster) -> None:
    fault(fleet, FIRST, SECOND)
    world = fleet.view()
    fuses = fleet.fuses(world)

    assert ask(fleet, fuses, world, FIRST).cards == {}
    held = ask(fleet, fuses, world, SECOND).cards
    assert list(held) == [device_name(SECOND)]
    assert "pool a" in held[device_name(SECOND)]
    assert gauge("card", "a") == 1


def test_cards_of_another_pool_are_not_counted(fleet: Cluster) -> None:
    fleet.pooled("b", on=SECOND)
    fault(fleet, FIRST, SECOND)
    world = fleet.view()
    fuses = fleet.fuses(world)

    assert ask(fleet, fuses, world, FIRST).cards == {}
    assert ask(fleet, fuses, world, SECOND).cards == {}


def test_a_card_that_recovers_or_leaves_the_pool_makes_room(fleet: Cluster) -> None:
    fault(fleet, FIRST, SECOND, THIRD)
    world = fleet.view()
    fuses = fleet.fuses(world)
    for node in (FIRST, SECOND, THIRD):
        ask(fleet, fuses, world, node)
    assert gauge("card", "a") == 2
    del fleet.memory[device_name(FIRST)]
    ask(fleet, fuses, world, FIRST)
    assert ask(fleet, fuses, world, SECOND).cards == {}
    assert gauge("card", "a") == 1

    fleet.pooled(None, on=THIRD)
    renew(fleet, world)
    ask(fleet, fuses, world, THIRD)
    assert gauge("card", "a") == 0


def test_a_card_that_was_let_go_and_is_deleted_makes_room(fleet: Cluster) -> None:
    """Its node is gone: nobody asks for it any more, and it must not hold the pool's other cards for ever."""
    fault(fleet, FIRST, SECOND)
    world = fleet.view()
    fuses = fleet.fuses(world)
    ask(fleet, fuses, world, FIRST)
    for resource, name in (
        (resources.NODE, FIRST),
        (resources.GPUNODEINVENTORY, FIRST),
        (resources.GPUDEVICE, device_name(FIRST)),
    ):
        fleet.drop(resource, name)
    renew(fleet, world)
    ask(fleet, fuses, world, FIRST)

    assert ask(fleet, fuses, world, SECOND).cards == {}


def test_a_held_card_that_is_deleted_is_counted_no_more(fleet: Cluster) -> None:
    fault(fleet, FIRST, SECOND)
    world = fleet.view()
    fuses = fleet.fuses(world)
    ask(fleet, fuses, world, FIRST)
    ask(fleet, fuses, world, SECOND)
    assert gauge("card", "a") == 1
    fleet.drop(resources.GPUDEVICE, device_name(SECOND))
    renew(fleet, world)
    ask(fleet, fuses, world, SECOND)

    assert gauge("card", "a") == 0


def test_a_held_card_that_moved_to_another_pool_is_counted_there(fleet: Cluster) -> None:
    fault(fleet, FIRST, SECOND)
    world = fleet.view()
    fuses = fleet.fuses(world)
    ask(fleet, fuses, world, FIRST)
    ask(fleet, fuses, world, SECOND)
    fleet.pooled("b", on=SECOND)
    renew(fleet, world)

    assert ask(fleet, fuses, world, SECOND).cards == {}
    assert gauge("card", "a") == 0
