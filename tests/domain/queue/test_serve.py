"""Who is served now: backfill, free slots that are kept for the first that fits nowhere, and why others wait."""

from __future__ import annotations

from dataclasses import replace

from controllers.domain.clock import stamp
from controllers.domain.node_fit import PodConstraints
from controllers.domain.placement.choice import PlacementPolicy
from controllers.domain.queue.entry import Entry
from controllers.domain.queue.order import Ranked
from controllers.domain.queue.policy import QueuePolicy
from controllers.domain.queue.serve import WORK_MAX, Decision, Walk
from tests.domain.queue.test_order import ANYWHERE
from tests.kit.objects import NOW
from tests.webhook import world

PACK = PlacementPolicy("BinPack", "zone")


def entry(
    name: str, units: int = 1, *, age: float = 0.0, constraints: PodConstraints = ANYWHERE, team: str = "t"
) -> Entry:
    return Entry(f"{team}/{name}", f"r-{name}", team, 0, stamp(NOW - age), units, constraints)


def walk(free: dict[str, int], *, hold: int = 1, after: float = 600.0, total: int = 8) -> Walk:
    """Nodes with so many free cards of `total`."""
    nodes = [
        replace(world.capacity_of(world.node(name), [world.device(name, at) for at in range(cards)]), total=total)
        for name, cards in free.items()
    ]
    return Walk(world.POOL, nodes, QueuePolicy("FIFO", hold, after, {}), PACK, NOW)


def decide(one: Walk, *entries: Entry) -> list[Decision]:
    return [one.decide(Ranked(each)) for each in entries]


def test_whoever_fits_is_served_and_what_is_given_is_gone() -> None:
    found = decide(walk({"n1": 2}), entry("a"), entry("b"), entry("c"))
    assert [each.placement is not None for each in found] == [True, True, False]
    cards = [share.device.name for each in found if each.placement for share in each.placement.shares]
    assert len(set(cards)) == 2
    assert found[2].reason == "Waiting"


def test_one_that_fits_nowhere_is_passed_by_those_that_fit() -> None:
    found = decide(walk({"n1": 2, "n2": 2}), entry("big", 4), entry("small"))
    assert [each.placement is not None for each in found] == [False, True]
    assert found[0].kept_node is None


def test_for_one_that_has_waited_long_enough_the_emptiest_node_is_kept() -> None:
    one = walk({"n1": 3, "n2": 2})
    found = decide(one, entry("big", 4, age=601), entry("small"), entry("pair", 2), entry("third", 3))
    assert found[0].kept_node == "n1"
    assert [each.placement.node if each.placement else None for each in found[1:]] == ["n2", None, None]


def test_cards_are_kept_for_no_more_than_the_first_few() -> None:
    found = decide(walk({"n1": 3, "n2": 3}), entry("big", 4, age=700), entry("big2", 4, age=700), entry("small"))
    assert [each.kept_node for each in found] == ["n2", None, None]
    assert found[2].placement is not None
    assert not any(each.kept_node for each in decide(walk({"n1": 3}, hold=0), entry("big", 4, age=700)))


def test_it_is_said_when_time_alone_changes_what_is_decided() -> None:
    one = walk({"n1": 1})
    decide(one, entry("big", 2, age=500), entry("big2", 2, age=100))
    assert one.next_hold == NOW + 100


def test_a_pod_that_no_node_could_ever_take_waits_for_a_node_and_keeps_nothing() -> None:
    elsewhere = PodConstraints(None, (("zone", "nowhere"),), None, ())
    found = decide(
        walk({"n1": 2}), entry("huge", 9, age=900), entry("lost", 1, constraints=elsewhere, age=900), entry("a")
    )
    assert [each.reason for each in found[:2]] == ["NoNodeFits", "NoNodeFits"]
    assert found[2].placement is not None


def test_over_its_limit_nothing_is_kept_for_it() -> None:
    found = walk({"n1": 1}).decide(Ranked(entry("a", 1, age=900), over_limit=True))
    assert (found.reason, found.placement, found.kept_node) == ("OverLimit", None, None)


def test_a_node_without_the_pools_label_gives_nothing() -> None:
    node = world.node("n1")
    node = replace(node, metadata=replace(node.metadata, labels={}))
    capacity = world.capacity_of(node, [world.device("n1", 0)])
    one = Walk(world.POOL, [capacity], QueuePolicy("FIFO", 1, 600.0, {}), PACK, NOW)
    assert decide(one, entry("a"))[0].placement is None


def test_what_one_namespace_demands_of_nodes_takes_no_look_from_others() -> None:
    one = walk({"n1": 3})
    heavy = [
        entry(f"h{at}", 1, constraints=PodConstraints(None, tuple((f"k{at}-{n}", "v") for n in range(2000)), None, ()))
        for at in range(WORK_MAX // 2000 + 5)
    ]
    found = decide(one, *heavy, entry("light", team="other"))
    assert found[-1].placement is not None
    assert found[len(heavy) - 1].reason == "Waiting"  # not looked at: it is not said that no node fits
