"""The page Fleet: nodes as rows, their cards as squares by state; pools and what is not shown. Pure.

Of thousands of cards few change at once: where the page stays open, the row of a node is made anew only where one of
its objects is another one than before, or where the time has come at which it shows something else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from console.views.cards import awaiting, changes_at, links, square_row
from console.views.common import less, notes
from controllers.api.conditions import READY_FOR_POOLING
from controllers.api.conditions import find as condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.records import Row, Seen
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node


def rows(seen: Seen, params: Mapping[str, str], now: float) -> Mapping[str, Row]:
    """A row for each node with cards, by the node's name; its cells `cards` are by the card's name.

    `node`: the name of one, with `cards` {name: {state, pool, product, link, slots, used}}, `ready`, `reason`,
    `cordoned`, `driver`. All else is filtered in the page.
    """
    return Fleet().rows(seen, params, now)


@dataclass(frozen=True, slots=True)
class _Objects:
    """What the row of a node is made of."""

    cards: tuple[GPUDevice, ...]
    inventory: GPUNodeInventory | None
    node: Node | None


@dataclass(frozen=True, slots=True)
class _Made:
    """A row, of what it was made, and for how long it says the same: from `since` to `until`, epoch seconds."""

    row: Row
    objects: _Objects
    since: float
    until: float


class Fleet:
    """Rows of a page that stays open: what it answers is what `rows` does."""

    def __init__(self) -> None:
        """Know none."""
        self._made: dict[str, _Made] = {}

    def rows(self, seen: Seen, params: Mapping[str, str], now: float) -> Mapping[str, Row]:
        """The rows, those that nothing has changed the same objects as before."""
        del params
        by_node: dict[str, list[GPUDevice]] = defaultdict(list)
        for card in seen.cards.values():
            by_node[card.status.node_name or ""].append(card)
        before, self._made = self._made, {}
        found: dict[str, Row] = {}
        for name in sorted({*by_node, *seen.inventories}):
            objects = _Objects(tuple(by_node.get(name, ())), seen.inventories.get(name), seen.nodes.get(name))
            made = before.get(name)
            # The objects are compared only where they are not the very same ones, which is seldom.
            if made is None or not made.since <= now < made.until or made.objects != objects:
                until = min((changes_at(card, now) for card in objects.cards), default=inf)
                made = _Made(_node(name, objects, now), objects, now, until)
            self._made[name] = made
            found[f"node/{name}"] = made.row
        return found | notes(seen, "GPUDevice", "GPUNodeInventory", "Node")


def _node(name: str, objects: _Objects, now: float) -> Row:
    inventory, node = objects.inventory, objects.node
    ready = condition(inventory.status.conditions, READY_FOR_POOLING) if inventory is not None else None
    driver = inventory.status.driver if inventory is not None else None
    linked, pending = links(objects.cards), awaiting(inventory)
    squares = {
        card.name: square_row(card, pending, linked.get(card.name, ""), now)
        for card in sorted(objects.cards, key=lambda card: card.name)
    }
    return less(
        kind="node",
        node=name,
        ready=ready is not None and ready.status == "True",
        reason=ready.reason if ready is not None and ready.status != "True" else None,
        cordoned=True if node is not None and node.spec.unschedulable else None,
        driver=driver.version if driver is not None else None,
        cards=squares,
    )
