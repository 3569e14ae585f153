"""The benchmark of nearness: its own count of what is split, and that the strategies keep the promise it judges."""

from __future__ import annotations

import pytest

from controllers.domain.placement.choice import Placement, Share, Strategy
from reliability.bench import nearness
from reliability.bench.nearness_shapes import CARDS, SHAPES, NodeShape


@pytest.mark.parametrize(
    ("cards", "split"),
    [
        ([0], False),
        ([0, 1], False),
        ([1, 2], True),
        ([0, 1, 2, 3], False),
        ([0, 1, 2, 4], True),
        ([2, 3, 4, 5], True),
        ([0, 1, 4, 5], True),
        (range(8), False),
    ],
)
def test_what_counts_as_split(cards: list[int], split: bool) -> None:
    pool = nearness._pool()
    slots = pool.capacities["n1"].slots
    placement = Placement("n1", tuple(Share(slots.cards[at].device, 1) for at in cards))
    assert nearness._is_split(pool, placement) is split


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_links_of_a_shape_go_both_ways(shape: NodeShape) -> None:
    peers = [shape.peers(at) for at in range(CARDS)]
    assert all(peers[other][at] == count for at in range(CARDS) for other, count in peers[at].items())
    assert {sum(each.values()) for each in peers if shape.name == "v100-mesh"} <= {6}, "a V100 has six"


def test_cards_that_a_pod_has_are_not_free_until_it_ends() -> None:
    pool = nearness._pool()
    placement = Placement("n1", (Share(pool.capacities["n1"].slots.cards[3].device, 1),))
    pool.take(placement, used=1)
    assert (pool.capacities["n1"].free, pool.capacities["n2"].free) == (7, 8)
    pool.take(placement, used=0)
    assert pool.capacities["n1"].free == 8


@pytest.mark.parametrize("shape", SHAPES[1:], ids=lambda shape: shape.name)
def test_few_are_on_each_shape(shape: NodeShape) -> None:
    rows = nearness._rows_of_shape(shape, "BinPack", nearness.play("BinPack", 1500, shape=shape))
    assert [row.verdict for row in rows] == ["met", "met"], rows


@pytest.mark.parametrize("strategy", ["BinPack", "Spread"])
def test_few_pods_are_split_in_a_pool_that_is_nearly_full(strategy: Strategy) -> None:
    found = nearness.play(strategy, 1500)
    assert found == nearness.play(strategy, 1500), "the same on every machine"
    rows = nearness._rows(strategy, found)
    assert [row.verdict for row in rows] == ["met", "met", "info"], rows
    assert rows[2].value > 1, "a pool that is not nearly full shows nothing"
