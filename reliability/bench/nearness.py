"""How often the cards of one pod are not near to each other: the webhook's own placement in a pool that is nearly full.

Pure but for its own seeded chance: no cluster, and the same figures on every machine. Nodes are of one of the shapes of
`nearness_shapes`, eight cards each. Pods of 1, 2, 4 and 8 cards, as many of each, come one after the other and stay for
an exponential time; one that finds no node goes away. What was promised counts as given.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.domain.node_fit import PodConstraints
from controllers.domain.placement.capacity import node_capacity
from controllers.domain.placement.choice import PlacementPolicy, candidate_nodes, pick_cards
from controllers.domain.request import PoolRequest
from controllers.domain.slots import Card, NodeSlots
from reliability.bench.nearness_shapes import CARDS, SHAPES
from reliability.bench.rows import Result, Row

if TYPE_CHECKING:
    from pathlib import Path

    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.placement.choice import Placement, Strategy
    from reliability.bench.nearness_shapes import NodeShape
    from reliability.bench.rows import Sizes
    from tools.programs import Progress

POOL: Final = "near"
PAIRED: Final = SHAPES[0]
"""The shape of the first figures."""
NODES: Final = 10
NUMA_CARDS: Final = 4
UNITS: Final = (1, 2, 4, 8)
LOAD: Final = 0.9
"""Cards that are asked for, all the time together, by the cards that there are."""
ANYWHERE: Final = PodConstraints(None, (), None, ())


@dataclass(slots=True)
class Tally:
    """What became of the pods of one size."""

    asked: int = 0
    blocked: int = 0
    split: int = 0
    """Placed farther apart than an empty node would have let them be."""


@dataclass(slots=True)
class _Pool:
    """The nodes with what is taken on them."""

    capacities: dict[str, NodeCapacity]
    shape: NodeShape
    numbers: dict[str, int]
    """The number of each card on its node."""

    def take(self, placement: Placement, used: int) -> None:
        """Cards get a pod, or lose it (`used` 0)."""
        taken = {share.device.name for share in placement.shares}
        slots = self.capacities[placement.node].slots
        cards = tuple(card._replace(used=used) if card.device.name in taken else card for card in slots.cards)
        node = self.capacities[placement.node].node
        self.capacities[placement.node] = node_capacity(node, replace(slots, cards=cards), {})


def measure(_: Path, sizes: Sizes, progress: Progress) -> Result:
    """Both strategies on each shape, one after the other."""
    rows: list[Row] = []
    raw: dict[str, Any] = {}
    strategies: tuple[Strategy, ...] = ("BinPack", "Spread")
    for shape in SHAPES:
        for strategy in strategies:
            progress.note(f"nearness: {shape.name}, {strategy}")
            found = play(strategy, sizes.nearness_pods, shape=shape)
            raw.setdefault(shape.name, {})[strategy] = found
            rows += _rows(strategy, found) if shape is PAIRED else _rows_of_shape(shape, strategy, found)
    return Result(tuple(rows), raw)


def play(strategy: Strategy, pods: int, seed: int = 1, shape: NodeShape = PAIRED) -> dict[int, Tally]:
    """So many pods; what became of them, by their number of cards."""
    pool, chance = _pool(shape), Random(seed)  # noqa: S311 - the same figures each time
    rules = PlacementPolicy(strategy, "topology.kubernetes.io/zone")  # which no node has: one domain
    tallies = {units: Tally() for units in UNITS}
    ends: list[tuple[float, int, Placement]] = []
    rate, now = LOAD * NODES * CARDS * len(UNITS) / sum(UNITS), 0.0
    for number in range(pods):
        now += chance.expovariate(rate)
        while ends and ends[0][0] <= now:
            pool.take(heapq.heappop(ends)[2], used=0)
        units = chance.choice(UNITS)
        tally, seed_of_pod = tallies[units], f"r{number}"
        tally.asked += 1
        best = candidate_nodes(pool.capacities.values(), PoolRequest(POOL, units), ANYWHERE, rules, seed_of_pod)[:1]
        made = [pick_cards(node.name, entry, units, rules, seed_of_pod) for node, entry in best]
        if not made or made[0] is None:
            tally.blocked += 1
            continue
        tally.split += _is_split(pool, made[0])
        pool.take(made[0], used=1)
        heapq.heappush(ends, (now + chance.expovariate(1.0), number, made[0]))
    return tallies


def _is_split(pool: _Pool, placement: Placement) -> bool:
    return pool.shape.is_split(frozenset(pool.numbers[share.device.name] for share in placement.shares))


def _pool(shape: NodeShape = PAIRED) -> _Pool:
    capacities: dict[str, NodeCapacity] = {}
    numbers: dict[str, int] = {}
    for number in range(NODES):
        labels = {names.pool_node_label(POOL): ""}
        node = adapter(Node).validate_python({"metadata": {"name": f"n{number}", "labels": labels}})
        cards = [_card(shape, number, at) for at in range(CARDS)]
        numbers |= {card.name: at for at, card in enumerate(cards)}
        slots = NodeSlots(node.name, tuple(Card(card, 1, 0, 0, issuable=True) for card in cards))
        capacities[node.name] = node_capacity(node, slots, {})
    return _Pool(capacities, shape, numbers)


def _card(shape: NodeShape, node: int, at: int) -> GPUDevice:
    def address(place: int) -> str:
        return f"0000:{0x10 + place:02x}:00.0"

    peers = shape.peers(at)
    pci = {"vendor": "10de", "device": "20b5", "class": "0302", "address": address(at)}
    hardware = {
        "pci": {**pci, "root": f"0000:{at // shape.root_cards:02x}"},
        "numa_node": at // NUMA_CARDS,
        "nvlink": {"peers": tuple(map(address, peers)), "links": tuple(peers.values())},
    }
    return adapter(GPUDevice).validate_python(
        {"metadata": {"name": f"n{node}-{at}"}, "status": {"node_name": f"n{node}", "hardware": hardware}}
    )


def _share(found: dict[int, Tally], *units: int) -> float:
    """Percent of the pods of these sizes that are split."""
    tallies = [found[each] for each in units]
    return 100 * sum(each.split for each in tallies) / max(1, sum(each.asked - each.blocked for each in tallies))


def _rows_of_shape(shape: NodeShape, strategy: str, found: dict[int, Tally]) -> list[Row]:
    name = f"  {shape.name}, {strategy}: pods of {{}} cards farther apart than on an empty node"
    return [Row(name.format(units), _share(found, units), "%", 1, at_most=5) for units in (2, 4)]


def _rows(strategy: str, found: dict[int, Tally]) -> list[Row]:
    asked, blocked = sum(one.asked for one in found.values()), sum(one.blocked for one in found.values())
    return [
        Row(
            f"nearness, {strategy}, load {LOAD:g}: pods of 2 cards that miss an NVLink pair",
            _share(found, 2),
            "%",
            1,
            at_most=2,
            note=f"{found[2].asked - found[2].blocked} pods",
        ),
        Row(f"  {strategy}: pods of 4 cards that are on two NUMA nodes", _share(found, 4), "%", 1, at_most=5),
        Row(f"  {strategy}: pods of 1, 2, 4 and 8 that found no node", 100 * blocked / asked, "%", 1),
    ]
