"""The page What broke: conditions of cards, nodes, pools and drivers that say what is wrong, newest first. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console.views.common import condition_row, notes
from controllers.api.conditions import (
    CAPACITY_LOW,
    CONFIGURED,
    IGNORED,
    MAINTENANCE,
    MISCONFIGURED,
    READY_FOR_POOLING,
    UNASSIGNED_DEVICE,
)
from controllers.api.reasons import NODE_OWNERS
from controllers.domain.issuing import BLOCKING
from controllers.explain.driver import NOTES, TROUBLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from console.records import Row, Seen
    from controllers.api.meta import Condition

BAD: Final[Mapping[str, Mapping[str, str]]] = {
    "GPUDevice": {kind: "True" for kind in BLOCKING if kind != IGNORED} | {CONFIGURED: "False"},
    "GPUNodeInventory": {kind: "True" for kind in NODE_OWNERS if kind != UNASSIGNED_DEVICE}
    | {READY_FOR_POOLING: "False"},
    "GPUPool": {MISCONFIGURED: "True", MAINTENANCE: "True", CAPACITY_LOW: "True"},
    "GPUDriver": dict.fromkeys((*TROUBLES, *NOTES), "True"),
}
"""By kind: types of conditions, with the status at which something is wrong.

Not what somebody decided (a card that is ignored), nor what only waits for somebody (UnassignedDevice).
"""


def rows(seen: Seen, params: Mapping[str, str], now: float) -> Mapping[str, Row]:
    """A row for each such condition, by kind, object and type, the newest first; parameters: none."""
    del params, now
    made = [(f"{of}/{name}/{found.type}", condition_row(of, name, found)) for of, name, found in _conditions(seen)]
    made.sort(key=lambda pair: pair[0])
    made.sort(key=lambda pair: pair[1].get("since", ""), reverse=True)
    return dict(made) | notes(seen, "GPUDevice", "GPUNodeInventory", "GPUPool", "GPUDriver")


def _conditions(seen: Seen) -> Iterator[tuple[str, str, Condition]]:
    objects = (
        ("GPUDevice", seen.cards),
        ("GPUNodeInventory", seen.inventories),
        ("GPUPool", seen.pools),
        ("GPUDriver", seen.drivers),
    )
    for of, by_name in objects:
        bad = BAD[of]
        for name, each in by_name.items():
            for found in each.status.conditions:
                if bad.get(found.type) == found.status:
                    yield of, name, found
