"""Cards of one node that are near to each other go together, and whole groups are left whole."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api.gpudevice import GPUDevice
from controllers.domain import near
from controllers.domain.placement import capacity, choice
from controllers.domain.placement.capacity import NodeCapacity
from tests.domain.placement.test_choice import PACK, SPREAD, ZONE, choose
from tests.kit.objects import address, reservation
from tests.webhook import world

if TYPE_CHECKING:
    from collections.abc import Mapping


def card(
    number: int,
    *,
    numa: int | None = None,
    peers: Any = (),
    links: Mapping[int, int] | None = None,
    root: str | None = None,
    taken: bool = False,
    name: str = "n",
    slots: int = 1,
) -> GPUDevice:
    counts = links if links is not None else {peer: 0 for peer in peers if peer != number}
    nvlink = {"peers": [address(peer) for peer in counts], "links": list(counts.values()) if links is not None else []}
    hardware = {"pci": {"device": "20b0", "root": root}, "numa_node": numa, "nvlink": nvlink}
    promises = [reservation(f"r{number}", slots=slots)] if taken else []
    return world.device(name, number, hardware=hardware, reservations=promises, slots=slots)


def replace_links(device: GPUDevice, links: tuple[int, ...]) -> GPUDevice:
    hardware = device.status.hardware
    assert hardware is not None
    assert hardware.nvlink is not None
    changed = replace(hardware, nvlink=replace(hardware.nvlink, links=links))
    return replace(device, status=replace(device.status, hardware=changed))


def node_capacity(cards: list[GPUDevice], name: str = "n") -> NodeCapacity:
    return world.capacity_of(world.node(name), cards)


def chosen(cards: list[GPUDevice], units: int, rules: choice.PlacementPolicy = SPREAD, seed: str = "s") -> list[int]:
    found = choose([node_capacity(cards)], units, rules, seed)
    assert found is not None
    return sorted(int(share.device.name.rpartition("-")[2]) for share in found.shares)


def everywhere(cards: list[GPUDevice], units: int) -> set[tuple[int, ...]]:
    """What is chosen under many seeds and both strategies."""
    return {tuple(chosen(cards, units, rules, str(seed))) for rules in (SPREAD, PACK) for seed in range(40)}


def test_who_is_linked() -> None:
    cards = [
        card(0, peers=[1]),
        card(1, peers=[0, 2]),
        card(2, peers=[1]),
        card(3, peers=[9]),
        card(4),
        card(5, numa=1),
    ]
    locations = near.locations(cards)
    assert locations["n-0"].link == locations["n-1"].link == locations["n-2"].link
    # A peer that is not of the pool joins nobody.
    assert len({locations[f"n-{number}"].link for number in (0, 3, 4, 5)}) == 4
    assert [locations[f"n-{number}"].numa for number in (4, 5)] == [-1, 1]


def test_cards_of_which_nothing_is_known_are_not_linked() -> None:
    locations = near.locations([world.device("n", 0), world.device("n", 1)])
    assert locations["n-0"].link != locations["n-1"].link


MESH = [card(n, numa=n // 4, peers=[*(n // 4 * 4 + each for each in range(4)), n ^ 4]) for n in range(8)]
"""A cube mesh, as on boards with V100: each card has links to three of its half and to one of the other."""


QUADS = {0: {1: 1, 2: 1, 3: 2}, 1: {0: 1, 2: 2, 3: 1}, 2: {0: 1, 1: 2, 3: 2}, 3: {0: 2, 1: 1, 2: 2}}
COUNTED = [
    card(n, numa=n // 4, links={n // 4 * 4 + peer: count for peer, count in QUADS[n % 4].items()} | {n ^ 4: 2})
    for n in range(8)
]
"""The same with numbers of links: in each half two links between 0 and 3, 1 and 2, and 2 and 3."""


def test_two_cards_of_a_mesh_have_the_most_links_between_them() -> None:
    locations = near.locations(COUNTED)
    bonds = [locations[f"n-{number}"].bond for number in range(8)]
    assert bonds == [address(number) for number in (0, 1, 1, 0, 4, 5, 5, 4)]
    assert everywhere(COUNTED, 2) == {(0, 3), (1, 2), (4, 7), (5, 6)}
    assert everywhere(COUNTED, 4) == {(0, 1, 2, 3), (4, 5, 6, 7)}
    # A single card is not taken out of a whole bond, and three cards take one whole.
    used = [card(n, links=QUADS[n], taken=n == 1) for n in range(4)]
    assert everywhere(used, 1) == {(2,)}
    assert everywhere(COUNTED[:4], 3) <= {(0, 1, 3), (0, 2, 3), (0, 1, 2), (1, 2, 3)}


def test_links_that_are_not_counted_for_each_peer_say_nothing() -> None:
    odd = [card(n, peers=range(3)) for n in range(3)]
    odd[0] = replace_links(odd[0], (2,))
    assert len({location.bond for location in near.locations(odd).values()}) == 1


def test_without_links_cards_of_one_pci_root_go_together() -> None:
    cards = [card(n, numa=n // 4, root=f"0000:{n // 2:02x}") for n in range(8)]
    assert everywhere(cards, 2) == {(0, 1), (2, 3), (4, 5), (6, 7)}
    assert everywhere(cards, 4) == {(0, 1, 2, 3), (4, 5, 6, 7)}
    for found in everywhere(cards, 3):
        assert len({number // 4 for number in found}) == 1
        assert len({number // 2 for number in found}) == 2
    used = [card(n, numa=n // 4, root=f"0000:{n // 2:02x}", taken=n in (1, 6)) for n in range(8)]
    assert everywhere(used, 1) == {(0,), (7,)}


def test_a_root_on_several_numa_nodes_is_none() -> None:
    cards = [card(n, numa=n // 2, root="0000:00") for n in range(4)]
    assert everywhere(cards, 2) == {(0, 1), (2, 3)}
    unknown = [card(n, numa=n // 2, root="0000:00" if n else None) for n in range(4)]
    assert everywhere(unknown, 2) == {
        (2, 3)
    }  # the smallest that suffices: on the other one there is the NUMA node alone


def test_a_cube_mesh_is_two_cliques_of_one_group() -> None:
    locations = near.locations(MESH)
    assert len({location.link for location in locations.values()}) == 1
    assert [locations[f"n-{number}"].clique for number in range(8)] == [address(0)] * 4 + [address(4)] * 4


def test_cards_of_a_cube_mesh_are_all_linked_to_each_other() -> None:
    assert everywhere(MESH, 4) == {(0, 1, 2, 3), (4, 5, 6, 7)}
    # A card that is gone from one half: the whole half is taken, and no card that others reach by a third.
    assert everywhere([one for one in MESH if one.name != "n-1"], 4) == {(4, 5, 6, 7)}
    assert everywhere(MESH, 8) == {tuple(range(8))}


def test_who_says_of_a_link_that_the_other_does_not_is_in_no_clique_with_it() -> None:
    locations = near.locations([card(0, peers=[1]), card(1)])
    assert locations["n-0"].clique != locations["n-1"].clique


PAIRS = [card(n, numa=n // 4, peers=[n ^ 1]) for n in range(8)]
BRIDGED = {(0, 1), (2, 3), (4, 5), (6, 7)}


def test_two_cards_are_one_bridged_pair() -> None:
    assert everywhere(PAIRS, 2) <= BRIDGED
    assert len(everywhere(PAIRS, 2)) > 1


def test_four_cards_are_two_pairs_of_one_numa_node() -> None:
    assert everywhere(PAIRS, 4) == {(0, 1, 2, 3), (4, 5, 6, 7)}


def test_three_cards_are_a_whole_pair_and_one_more_of_its_numa_node() -> None:
    for cards in everywhere(PAIRS, 3):
        assert len({number // 4 for number in cards}) == 1
        assert any(set(pair) <= set(cards) for pair in BRIDGED)


def test_without_links_the_numa_node_counts() -> None:
    cards = [card(n, numa=n % 2) for n in range(8)]
    assert everywhere(cards, 4) == {(0, 2, 4, 6), (1, 3, 5, 7)}


def test_in_one_switched_group_the_numa_node_counts() -> None:
    cards = [card(n, numa=n // 4, peers=range(8)) for n in range(8)]
    assert everywhere(cards, 4) == {(0, 1, 2, 3), (4, 5, 6, 7)}
    for found in everywhere(cards, 6):
        assert set(found) >= {0, 1, 2, 3} or set(found) >= {4, 5, 6, 7}


def test_a_linked_group_over_two_numa_nodes_comes_before_one_numa_node() -> None:
    cards = [card(0, numa=0, peers=[4]), card(4, numa=1, peers=[0]), card(1, numa=0), card(2, numa=0)]
    assert everywhere(cards, 2) == {(0, 4)}


def test_one_card_is_not_broken_out_of_a_full_group() -> None:
    cards = [card(n, numa=n // 4, peers=[n ^ 1], taken=n == 6) for n in range(8)]
    assert everywhere(cards, 1) == {(7,)}
    # Of two full pairs, one of the NUMA node that is in use.
    full = [card(n, numa=n // 4, peers=[n ^ 1], taken=n in (6, 7)) for n in range(8)]
    assert everywhere(full, 1) == {(4,), (5,)}


def test_the_smallest_group_that_suffices_is_taken() -> None:
    big, small = [card(n, peers=range(4)) for n in range(4)], [card(n, peers=(4, 5)) for n in (4, 5)]
    assert everywhere([*big, *small], 2) == {(4, 5)}
    # As much room, and one of them in use: the whole one is left whole.
    used = [card(n, peers=range(4), taken=n > 1) for n in range(4)]
    assert everywhere([*used, *small], 2) == {(0, 1)}


def test_several_slots_are_on_one_card_where_one_has_them() -> None:
    cards = [card(0, slots=1), card(1, slots=1), card(2, slots=4), card(3, slots=2)]
    assert chosen(cards, 2, SPREAD) == [2]
    assert chosen(cards, 2, PACK) == [3]


def test_of_nodes_that_are_equal_one_with_near_cards_is_taken() -> None:
    apart = [card(n, numa=n, name="apart") for n in range(4)]
    close = [card(n, numa=n // 2, name="close") for n in range(4)]
    linked = [card(n, numa=n, peers=range(4), name="linked") for n in range(4)]
    nodes = {
        "apart": node_capacity(apart, "apart"),
        "close": node_capacity(close, "close"),
        "linked": node_capacity(linked, "linked"),
    }
    for rules in (SPREAD, PACK):
        for seed in map(str, range(20)):
            assert choose([nodes["apart"], nodes["close"]], 2, rules, seed).node == "close"
            assert choose(list(nodes.values()), 2, rules, seed).node == "linked"
        assert {choose(list(nodes.values()), 1, rules, str(seed)).node for seed in range(60)} == set(nodes)
        # Without the cards that made it near, it is not.
        less = capacity.without_cards(list(nodes.values()), {"linked-0", "linked-1", "linked-2"})
        assert choose(less, 2, rules).node != "linked"


@st.composite
def rooms(draw: st.DrawFn) -> list[near.CardOption]:
    found = st.tuples(
        st.integers(1, 4), *(st.sampled_from(each) for each in ("pq", "xy", "abcd", "rs")), st.integers(-1, 2)
    )
    drawn = draw(st.lists(found, min_size=1, max_size=12))
    return [
        near.CardOption(
            str(at), free, (-free, at), near.CardLocation(link + part + bond, link + part, link, f"{root}{numa}", numa)
        )
        for at, (free, bond, part, link, root, numa) in enumerate(drawn)
    ]


def free_by(given_rooms: list[near.CardOption], field: str) -> dict[Any, int]:
    found: dict[Any, int] = defaultdict(int)
    for room in given_rooms:
        found[getattr(room.location, field)] += room.free
    return found


@settings(max_examples=400)
@given(rooms(), st.integers(1, 20))
def test_cards_are_as_near_as_can_be_and_suffice(found: list[near.CardOption], units: int) -> None:
    picked = near.nearest(found, [(room.location, room.free) for room in found], units)
    assert len({room.card for room in picked}) == len(picked)
    if sum(room.free for room in found) < units:
        return
    used, left = [], units
    for room in picked:
        if left > 0:
            used.append(room)
            left -= room.free
    assert left <= 0
    if any(room.free >= units for room in found):
        assert len(used) == 1
    else:
        enough = [level for level in near.LEVELS if max(free_by(found, level).values()) >= units]
        assert all(len({getattr(room.location, level) for room in used}) == 1 for level in enough[:1])


@pytest.mark.parametrize("peers", ["all", "pairs", "none"])
def test_sixty_four_cards_cost_little(peers: str) -> None:
    linked = {"all": lambda _: range(64), "pairs": lambda n: [n ^ 1], "none": lambda _: ()}[peers]
    entry = node_capacity([card(n, numa=n // 8, peers=linked(n)) for n in range(64)])
    began = process_time()
    for units in range(1, 65):
        assert choice.pick_cards("n", entry, units, SPREAD, "s") is not None
    # 64 searches; a second is a hundred times what they take, and nothing beside what trying all sets would.
    assert process_time() - began < 1


def pairs(name: str, *taken: int) -> NodeCapacity:
    """A node of four bridged pairs, two on each NUMA node."""
    return node_capacity([card(n, numa=n // 4, peers=[n ^ 1], name=name, taken=n in taken) for n in range(8)], name)


@pytest.mark.parametrize("rules", [SPREAD, PACK])
def test_a_pod_goes_where_its_cards_are_near_before_where_there_is_more_or_less_room(
    rules: choice.PlacementPolicy,
) -> None:
    # Two single cards of two pairs, and a pair: neither the fuller nor the emptier node decides.
    fuller, emptier = pairs("fuller", 0, 2, 3, 4, 5, 6), pairs("emptier", 0, 2, 4, 6)
    whole = pairs("whole", 0, 1, 2, 4, 6) if rules is PACK else pairs("whole", 0, 1, 2, 3, 4, 5)
    for others in ([fuller], [emptier], [fuller, emptier]):
        found = choose([*others, whole], 2, rules)
        assert found is not None
        assert found.node == "whole"


def test_the_topology_domain_comes_before_nearness() -> None:
    busy = world.capacity_of(
        world.node("busy", **{ZONE: "busy"}), [card(n, peers=[n ^ 1], taken=n < 4) for n in range(8)]
    )
    calm = world.capacity_of(
        world.node("calm", **{ZONE: "calm"}),
        [card(n, peers=[n ^ 1], taken=n in (0, 2), name="calm") for n in range(4)] + [card(9, name="calm")],
    )
    found = choose([busy, calm], 2, SPREAD)
    assert found is not None
    assert found.node == "calm"
