"""Where a pod's cards are: never more than are free, and by the pool's strategy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.settings import SchedulingSettings
from controllers.domain.node_fit import PodConstraints
from controllers.domain.placement import capacity, choice
from controllers.domain.placement.choice import PlacementPolicy
from controllers.domain.request import PoolRequest
from tests.kit.objects import allocation, condition, reservation
from tests.webhook import world

if TYPE_CHECKING:
    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.placement.choice import Placement

ANYWHERE = PodConstraints(None, {}, None, ())
ZONE = "topology.kubernetes.io/zone"
SPREAD, PACK = PlacementPolicy("Spread", ZONE), PlacementPolicy("BinPack", ZONE)


def choose(
    capacities: list[NodeCapacity],
    units: int,
    rules: PlacementPolicy,
    seed: str = "s",
    wants: PodConstraints = ANYWHERE,
) -> Placement | None:
    for node, node_capacity in choice.candidate_nodes(capacities, PoolRequest(world.POOL, units), wants, rules, seed):
        if (found := choice.pick_cards(node.name, node_capacity, units, rules, seed)) is not None:
            return found
    return None


def node_capacity(name: str, free: int, taken: int = 0, **labels: str) -> NodeCapacity:
    cards = [world.device(name, number) for number in range(free)]
    cards += [
        world.device(name, 100 + number, reservations=[reservation(f"{name}{number}")]) for number in range(taken)
    ]
    return world.capacity_of(world.node(name, **labels), cards)


def test_a_pool_says_how_it_places_and_the_settings_say_the_rest() -> None:
    defaults = SchedulingSettings(default_strategy="BinPack", topology_key="rack")
    for said, wanted in (
        (None, PlacementPolicy("BinPack", "rack")),
        ({}, PlacementPolicy("BinPack", "rack")),
        ({"strategy": "Spread"}, PlacementPolicy("Spread", "rack")),
        ({"topologyKey": ZONE}, PlacementPolicy("BinPack", ZONE)),
    ):
        assert choice.policy_of(world.pool(**({} if said is None else {"scheduling": said})), defaults) == wanted


def test_spread_takes_the_emptiest_node_and_binpack_the_fullest() -> None:
    capacities = [node_capacity("full", 1, 3), node_capacity("half", 2, 2), node_capacity("empty", 4)]
    assert choose(capacities, 1, SPREAD).node == "empty"
    assert choose(capacities, 1, PACK).node == "full"
    assert choose(capacities, 2, PACK).node == "half"


def test_spread_looks_at_the_topology_first() -> None:
    capacities = [
        node_capacity("busy-1", 4, **{ZONE: "busy"}),
        node_capacity("busy-2", 0, 4, **{ZONE: "busy"}),
        node_capacity("calm", 3, 1, **{ZONE: "calm"}),
    ]
    assert choose(capacities, 1, SPREAD).node == "calm"


def test_equal_nodes_are_chosen_by_the_seed() -> None:
    capacities = [node_capacity(f"n{number}", 4) for number in range(8)]
    for rules in (SPREAD, PACK):
        chosen = Counter(choose(capacities, 1, rules, seed=str(seed)).node for seed in range(200))
        assert len(chosen) == 8
        assert choose(capacities, 1, rules, seed="x") == choose(capacities, 1, rules, seed="x")


def test_equal_cards_are_chosen_by_the_seed() -> None:
    one = [node_capacity("n", 8)]
    assert len({choose(one, 1, PACK, seed=str(seed)).devices for seed in range(200)}) == 8


def test_slots_in_flight_are_not_free() -> None:
    card = world.device("n", 1, slots=2)
    taken = world.capacity_of(world.node("n"), [card], **{card.name: {"r1": 1}})
    assert (taken.free, taken.in_flight) == (1, 1)
    shown = world.device("n", 1, slots=2, reservations=[reservation("r1")])
    both = world.capacity_of(world.node("n"), [shown], **{shown.name: {"r1": 1}})
    assert (both.free, both.in_flight) == (1, 0)


def test_what_the_node_does_not_show_yet_is_promised_to_nobody() -> None:
    cards = [world.device("n", number, slots=2) for number in range(2)]

    def shown(slots: int, **held: dict[str, int]) -> NodeCapacity:
        node = world.node("n")
        status = replace(node.status, allocatable={names.resource_name(world.POOL): str(slots)})
        return world.capacity_of(replace(node, status=status), cards, **held)

    assert [shown(slots).free for slots in (0, 1, 4, 8)] == [0, 1, 4, 4]
    assert choose([shown(1)], 2, SPREAD) is None
    in_flight = {cards[0].name: {"r1": 1}}
    assert [shown(slots, **in_flight).free for slots in (1, 3)] == [0, 2]
    assert [entry.free for entry in capacity.without_cards([shown(3)], [cards[0].name])] == [2]


def test_a_reservation_whose_card_another_pod_got_keeps_a_slot_of_the_node() -> None:
    displaced = world.device("n", 1, reservations=[reservation("r1")], allocations=[allocation()])
    entry = world.capacity_of(world.node("n"), [displaced, world.device("n", 2)])
    assert entry.free == 0
    assert choose([entry], 1, SPREAD) is None
    (less,) = capacity.without_cards([node_capacity("m", 2), entry], {"m-0", "n-2"})[1:]
    assert less.free == 0


def test_cards_to_avoid_are_left_out() -> None:
    (less,) = capacity.without_cards([node_capacity("n", 2)], {"n-0"})
    assert [spot.device.name for spot in less.free_cards] == ["n-1"]
    assert less.free == 1


def test_a_node_that_is_not_known_is_not_chosen() -> None:
    assert choose([world.capacity_of(None, [world.device("gone", 1)])], 1, SPREAD) is None


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
def test_a_placement_never_takes_more_than_is_free(spec: Any, units: int, rules: PlacementPolicy, seed: str) -> None:
    capacities, free = [], {}
    for number, (ready, content) in enumerate(spec):
        name, devices, in_flight = f"n{number}", [], {}
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
                in_flight[made.name] = {"flying": card["held"]}
            left = card["slots"] - sum(card["taken"]) - card["used"] - card["held"]
            free[made.name] = max(0, left) if ready and not card["faulted"] else 0
        capacities.append(world.capacity_of(world.node(name, ready=ready), devices, **in_flight))
    found = choose(capacities, units, rules, seed)
    best = max(
        (
            sum(free[spot.name] for spot in (card.device for card in entry.slots.cards)) - entry.slots.displaced
            for entry in capacities
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
