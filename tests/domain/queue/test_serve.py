"""Who is served now: backfill, free slots that are kept for the first that fits nowhere, and why others wait."""

from __future__ import annotations

from dataclasses import replace

from controllers.domain.clock import stamp
from controllers.domain.node_fit import PodConstraints
from controllers.domain.placement.choice import PlacementPolicy
from controllers.domain.queue.entry import Entry, Member
from controllers.domain.queue.order import Ranked
from controllers.domain.queue.policy import QueuePolicy
from controllers.domain.queue.serve import WORK_MAX, Decision, Walk
from controllers.domain.queue.supply import AwaitedSlots
from tests.domain.queue.test_order import ANYWHERE
from tests.kit.objects import NOW
from tests.webhook import world

PACK = PlacementPolicy("BinPack", "zone")


def entry(
    name: str, units: int = 1, *, age: float = 0.0, constraints: PodConstraints = ANYWHERE, team: str = "t"
) -> Entry:
    member = Member(f"{team}/{name}", f"r-{name}", units, constraints)
    return Entry(member.key, team, 0, stamp(NOW - age), (member,))


def walk(
    free: dict[str, int], *, hold: int = 1, after: float = 600.0, total: int = 8, coming: dict[str, int] | None = None
) -> Walk:
    """Nodes with so many free cards of `total`, of which so many more are about to be free."""
    nodes = [
        replace(world.capacity_of(world.node(name), [world.device(name, at) for at in range(cards)]), total=total)
        for name, cards in free.items()
    ]
    soon = {name: AwaitedSlots(slots, NOW + 1) for name, slots in (coming or {}).items()}
    return Walk(world.POOL, nodes, QueuePolicy("FIFO", hold, after, {}), PACK, NOW, coming=soon)


def decide(one: Walk, *entries: Entry) -> list[Decision]:
    return [one.decide(Ranked(each)) for each in entries]


def test_whoever_fits_is_served_and_what_is_given_is_gone() -> None:
    found = decide(walk({"n1": 2}), entry("a"), entry("b"), entry("c"))
    assert [bool(each.placements) for each in found] == [True, True, False]
    cards = [share.device.name for each in found for _, at in each.placements for share in at.shares]
    assert len(set(cards)) == 2
    assert found[2].outcome == "Waiting"


def test_one_that_fits_nowhere_is_passed_by_those_that_fit() -> None:
    found = decide(walk({"n1": 2, "n2": 2}), entry("big", 4), entry("small"))
    assert [bool(each.placements) for each in found] == [False, True]
    assert found[0].kept_nodes == ()


def test_for_one_that_has_waited_long_enough_the_emptiest_node_is_kept() -> None:
    one = walk({"n1": 3, "n2": 2})
    found = decide(one, entry("big", 4, age=601), entry("small"), entry("pair", 2), entry("third", 3))
    assert found[0].kept_nodes == ("n1",)
    assert [each.placements[0][1].node if each.placements else None for each in found[1:]] == ["n2", None, None]


def test_cards_are_kept_for_no_more_than_the_first_few() -> None:
    found = decide(walk({"n1": 3, "n2": 3}), entry("big", 4, age=700), entry("big2", 4, age=700), entry("small"))
    assert [each.kept_nodes for each in found] == [("n2",), (), ()]
    assert found[2].placements
    assert not any(each.kept_nodes for each in decide(walk({"n1": 3}, hold=0), entry("big", 4, age=700)))


def test_what_is_free_is_kept_for_one_that_fits_with_what_is_coming() -> None:
    one = walk({"n1": 1, "n2": 1}, hold=0, coming={"n1": 3, "n2": 2})
    found = decide(one, entry("big", 4), entry("big2", 4), entry("small"), entry("small2"))
    assert [each.kept_nodes for each in found[:2]] == [("n1",), ()]
    assert [each.placements[0][1].node if each.placements else None for each in found[2:]] == ["n2", None]
    assert (one.held, one.next_look) == ({"t/big": {"n1": 1}}, NOW + 1)


def test_who_comes_before_gets_the_first_card_that_is_free_and_the_large_one_keeps_nothing_then() -> None:
    found = decide(walk({"n1": 1}, hold=0, coming={"n1": 3}), entry("small"), entry("big", 4), entry("next"))
    assert [bool(each.placements) for each in found] == [True, False, False]
    assert not any(each.kept_nodes for each in found)


def test_it_is_said_when_time_alone_changes_what_is_decided() -> None:
    one = walk({"n1": 1})
    decide(one, entry("big", 2, age=500), entry("big2", 2, age=100))
    assert one.next_look == NOW + 100


def test_a_pod_that_no_node_could_ever_take_waits_for_a_node_and_keeps_nothing() -> None:
    elsewhere = PodConstraints(None, (("zone", "nowhere"),), None, ())
    found = decide(
        walk({"n1": 2}), entry("huge", 9, age=900), entry("lost", 1, constraints=elsewhere, age=900), entry("a")
    )
    assert [each.outcome for each in found[:2]] == ["NoNodeFits", "NoNodeFits"]
    assert found[2].placements


def test_over_its_limit_nothing_is_kept_for_it() -> None:
    found = walk({"n1": 1}).decide(Ranked(entry("a", 1, age=900), over_limit=True))
    assert (found.outcome, found.placements, found.kept_nodes) == ("OverLimit", (), ())


def test_a_node_without_the_pools_label_gives_nothing() -> None:
    node = world.node("n1")
    node = replace(node, metadata=replace(node.metadata, labels={}))
    capacity = world.capacity_of(node, [world.device("n1", 0)])
    one = Walk(world.POOL, [capacity], QueuePolicy("FIFO", 1, 600.0, {}), PACK, NOW)
    assert not decide(one, entry("a"))[0].placements


def test_what_one_namespace_demands_of_nodes_takes_no_look_from_others() -> None:
    one = walk({"n1": 3})
    heavy = [
        entry(f"h{at}", 1, constraints=PodConstraints(None, tuple((f"k{at}-{n}", "v") for n in range(2000)), None, ()))
        for at in range(WORK_MAX // 2000 + 5)
    ]
    found = decide(one, *heavy, entry("light", team="other"))
    assert found[-1].placements
    assert found[len(heavy) - 1].outcome == "Waiting"  # not looked at: it is not said that no node fits


def gang(name: str, *units: int, age: float = 0.0) -> Entry:
    """A gang of pods that want so many slots each."""
    members = (Member(f"t/{name}-{at}", f"r-{name}-{at}", each, ANYWHERE) for at, each in enumerate(units))
    return Entry(f"t/{name}", "t", 0, stamp(NOW - age), tuple(members), gang=name)


def test_a_gang_is_placed_as_a_whole_over_several_nodes() -> None:
    (found,) = decide(walk({"n1": 4, "n2": 4}), gang("g", 2, 4, 2))
    assert sorted((member.key, at.node) for member, at in found.placements) == [
        ("t/g-0", "n2"),
        ("t/g-1", "n1"),
        ("t/g-2", "n2"),
    ] or {at.node for _, at in found.placements} == {"n1", "n2"}
    assert len(found.placements) == 3


def test_a_gang_that_does_not_fit_takes_nothing_from_those_behind_it() -> None:
    found = decide(walk({"n1": 3, "n2": 1}), gang("g", 2, 2), entry("a", 3), entry("b"), gang("h", 1))
    assert [len(each.placements) for each in found] == [0, 1, 1, 0]
    assert found[0].outcome == "Waiting"


def test_for_a_gang_as_many_nodes_are_kept_as_can_suffice() -> None:
    found = decide(walk({"n1": 3, "n2": 2, "n3": 1}), gang("g", 8, 8, age=900), entry("a"), entry("b", 2))
    assert found[0].kept_nodes == ("n1", "n2")
    assert [len(each.placements) for each in found[1:]] == [1, 0]


def test_a_gang_that_the_pool_could_never_take_keeps_nothing() -> None:
    found = decide(walk({"n1": 3, "n2": 3}), gang("g", *[8] * 3, age=900), gang("h", 9, 1, age=900), entry("a"))
    assert [each.outcome for each in found[:2]] == ["NoNodeFits", "NoNodeFits"]
    assert found[2].placements
