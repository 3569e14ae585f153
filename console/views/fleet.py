"""The page Fleet: nodes as rows, their cards as squares by state; pools and what is not shown. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from console.views.cards import awaiting, links, square_row
from console.views.common import less, notes
from controllers.api.conditions import READY_FOR_POOLING
from controllers.api.conditions import find as condition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from console.records import Row, Seen
    from controllers.api.gpudevice import GPUDevice


def rows(seen: Seen, params: Mapping[str, str], now: float) -> Mapping[str, Row]:
    """A row for each node with cards, by the node's name; its cells `cards` are by the card's name.

    `node`: the name of one, with `cards` {name: {state, pool, product, link, slots, used}}, `ready`, `reason`,
    `cordoned`, `driver`. All else is filtered in the page.
    """
    del params
    by_node: dict[str, list[GPUDevice]] = defaultdict(list)
    for card in seen.cards.values():
        by_node[card.status.node_name or ""].append(card)
    pending = awaiting(seen)
    found = {
        f"node/{name}": _node(name, by_node.get(name, ()), pending, seen, now)
        for name in sorted({*by_node, *seen.inventories})
    }
    return found | notes(seen, "GPUDevice", "GPUNodeInventory", "Node")


def _node(name: str, cards: Sequence[GPUDevice], pending: Collection[str], seen: Seen, now: float) -> Row:
    inventory, node = seen.inventories.get(name), seen.nodes.get(name)
    ready = condition(inventory.status.conditions, READY_FOR_POOLING) if inventory is not None else None
    driver = inventory.status.driver if inventory is not None else None
    linked = links(cards)
    squares = {
        card.name: square_row(card, pending, linked.get(card.name, ""), now)
        for card in sorted(cards, key=lambda card: card.name)
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
