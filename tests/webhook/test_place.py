"""Where a pod's cards are: never more than are free, and by the pool's strategy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.domain.node_fit import PodConstraints
from tests.kit.objects import allocation, condition, reservation
from tests.webhook import world
from webhook import place
from webhook.place import Rules
from webhook.verdict import Ask

if TYPE_CHECKING:
    from webhook.place import Placement, Shelf

ANYWHERE = PodConstraints(None, {}, None, ())
ZONE = "topology.kubernetes.io/zone"
SPREAD, PACK = Rules("Spread", ZONE), Rules("BinPack", ZONE)


def choose(
    shelves: list[Shelf], units: int, rules: Rules, seed: str = "s", wants: PodConstraints = ANYWHERE
) -> Placement | None:
    for node, shelf in place.candidates(shelves, Ask(world.POOL, units), wants, rules, seed):
        if (found := place.pick(node.name, shelf, units, rules, seed)) is not None:
            return found
    return None


def shelf(name: str, free: int, taken: int = 0, **labels: str) -> Shelf:
    cards = [world.device(name, number) for number in range(free)]
    cards += [
        world.device(name, 100 + number, reservations=[reservation(f"{name}{number}")]) for number in range(taken)
    ]
    return world.shelf_of(world.node(name, **labels), cards)


def test_spread_takes_the_emptiest_node_and_binpack_the_fullest() -> None:
    shelves = [shelf("full", 1, 3), shelf("half", 2, 2), shelf("empty", 4)]
    assert choose(shelves, 1, SPREAD).node == "empty"
    assert choose(shelves, 1, PACK).node == "full"
    assert choose(shelves, 2, PACK).node == "half"


def test_spread_looks_at_the_topology_first() -> None:
    shelves = [
        shelf("busy-1", 4, **{ZONE: "busy"}),
        shelf("busy-2", 0, 4, **{ZONE: "busy"}),
        shelf("calm", 3, 1, **{ZONE: "calm"}),
    ]
    assert choose(shelves, 1, SPREAD).node == "calm"


def test_equal_nodes_are_chosen_by_the_seed() -> None:
    shelves = [shelf(f"n{number}", 4) for number in range(8)]
    for rules in (SPREAD, PACK):
        chosen = Counter(choose(shelves, 1, rules, seed=str(seed)).node for seed in range(200))
        assert len(chosen) == 8
        assert choose(shelves, 1, rules, seed="x") == choose(shelves, 1, rules, seed="x")


def test_equal_cards_are_chosen_by_the_seed() -> None:
    one = [shelf("n", 8)]
    assert len({choose(one, 1, PACK, seed=str(seed)).devices for seed in range(200)}) == 8


def test_slots_in_flight_are_not_free() -> None:
    card = world.device("n", 1, slots=2)
    taken = world.shelf_of(world.node("n"), [card], **{card.name: {"r1": 1}})
    assert (taken.free, taken.held) == (1, 1)
    shown = world.device("n", 1, slots=2, reservations=[reservation("r1")])
    both = world.shelf_of(world.node("n"), [shown], **{shown.name: {"r1": 1}})
    assert (both.free, both.held) == (1, 0)


def test_what_the_node_does_not_show_yet_is_promised_to_nobody() -> None:
    cards = [world.device("n", number, slots=2) for number in range(2)]

    def shown(slots: int, **held: dict[str, int]) -> Shelf:
        node = world.node("n")
        status = replace(node.status, allocatable={names.resource_name(world.POOL): str(slots)})
        return world.shelf_of(replace(node, status=status), cards, **held)

    assert [shown(slots).free for slots in (0, 1, 4, 8)] == [0, 1, 4, 4]
    assert choose([shown(1)], 2, SPREAD) is None
    in_flight = {cards[0].name: {"r1": 1}}
    assert [shown(slots, **in_flight).free for slots in (1, 3)] == [0, 2]
    assert [entry.free for entry in place.without([shown(3)], [cards[0].name])] == [2]


def test_a_reservation_whose_card_another_pod_got_keeps_a_slot_of_the_node() -> None:
    displaced = world.device("n", 1, reservations=[reservation("r1")], allocations=[allocation()])
    entry = world.shelf_of(world.node("n"), [displaced, world.device("n", 2)])
    assert entry.free == 0
    assert choose([entry], 1, SPREAD) is None
    (less,) = place.without([shelf("m", 2), entry], {"m-0", "n-2"})[1:]
    assert less.free == 0


def test_cards_to_avoid_are_left_out() -> None:
    (less,) = place.without([shelf("n", 2)], {"n-0"})
    assert [spot.device.name for spot in less.spots] == ["n-1"]
    assert less.free == 1


def test_a_node_that_is_not_known_is_not_chosen() -> None:
    assert choose([world.shelf_of(None, [world.device("gone", 1)])], 1, SPREAD) is None


cards = st.fixed_dictionaries(
    {
        "slots": st.integers(0, 4),
        "taken": st.lists(st.integers(1, 2), max_size=2),
        "used": st.integers(0, 3),
        "faulted": st.booleans(),
        "held": st.integers(0, 2),
    }
)
worlds = st.lists(st.tuples(st.booleans(), st.lists(cards, max_size=4)), max_size=4)


@settings(max_examples=300, deadline=None)
@given(worlds, st.integers(1, 6), st.sampled_from([SPREAD, PACK]), st.text(max_size=3))
def test_a_placement_never_takes_more_than_is_free(spec: Any, units: int, rules: Rules, seed: str) -> None:
    shelves, free = [], {}
    for number, (ready, content) in enumerate(spec):
        name, devices, held = f"n{number}", [], {}
        for index, card in enumerate(content):
            made = world.device(
                name,
                index,
                slots=card["slots"],
                reservations=[reservation(f"r{k}", slots=slots) for k, slots in enumerate(card["taken"])],
                allocations=[allocation(slots=card["used"])] if card["used"] else [],
                conditions=[condition("Faulted")] if card["faulted"] else [],
            )
            devices.append(made)
            if card["held"]:
                held[made.name] = {"flying": card["held"]}
            left = card["slots"] - sum(card["taken"]) - card["used"] - card["held"]
            free[made.name] = max(0, left) if ready and not card["faulted"] else 0
        shelves.append(world.shelf_of(world.node(name, ready=ready), devices, **held))
    found = choose(shelves, units, rules, seed)
    best = max(
        (
            sum(free[spot.name] for spot in (card.device for card in entry.slots.cards)) - entry.slots.displaced
            for entry in shelves
        ),
        default=0,
    )
    if found is None:
        assert best < units
        return
    assert sum(share.slots for share in found.shares) == units
    assert all(0 < share.slots <= free[share.device.name] for share in found.shares)
    assert {share.device.status.node_name for share in found.shares} == {found.node}
    assert len({share.device.name for share in found.shares}) == len(found.shares)
