"""The rows of `kubectl gpu versions`, and the same for programs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api.software import DRIVER, place
from controllers.domain.wording import listed
from controllers.explain.lists import SYMBOL_NONE
from controllers.explain.table import Cell, Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.explain.lists import Row

VERSIONS: Final = (Column("COMPONENT"), Column("VERSION"), Column("WANTED"), Column("NODES"), Column("NAMES"))
SETTLED: Final = ("Current", "Host", "OptedOut")
"""Phases of nodes for which nothing else than they have is wanted."""
_DIGEST: Final = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


@dataclass(frozen=True, slots=True)
class Running:
    """A version of one component, and the nodes that run it."""

    component: str
    version: str
    wanted: str | None
    """The version that these nodes are to run; None where that is this one, or where nobody decides about it."""
    nodes: tuple[str, ...]


def wanted_drivers(drivers: Iterable[GPUDriver]) -> dict[str, str]:
    """By node, the version that a GPUDriver is to bring there and has not brought yet."""
    return {
        node.name: driver.spec.version
        for driver in drivers
        for node in driver.status.nodes
        if node.phase not in SETTLED
    }


def versions(inventories: Iterable[GPUNodeInventory], drivers: Mapping[str, str] | None = None) -> list[Running]:
    """What all nodes run: the components in their order, of each the version first that most nodes have.

    `drivers`: the driver's version that a node is to have (`wanted_drivers`).
    """
    found: dict[tuple[str, str, str | None], list[str]] = {}
    for node in inventories:
        driver = (drivers or {}).get(node.name)
        for one in node.status.software:
            wanted = driver if one.component == DRIVER and driver else one.wanted if one.differs else None
            found.setdefault((one.component, one.running, wanted), []).append(node.name)
        if driver and all(one.component != DRIVER for one in node.status.software):
            found.setdefault((DRIVER, SYMBOL_NONE, driver), []).append(node.name)
    rows = [Running(*key, tuple(sorted(nodes))) for key, nodes in found.items()]
    return sorted(rows, key=lambda row: (place(row.component), -len(row.nodes), row.version, row.wanted or ""))


def skewed(rows: Iterable[Running]) -> list[Running]:
    """The components of which several versions run, or another one is wanted."""
    of: dict[str, list[Running]] = {}
    for row in rows:
        of.setdefault(row.component, []).append(row)
    return [row for same in of.values() if len(same) > 1 or same[0].wanted is not None for row in same]


def version_row(found: Running, *, wide: bool) -> Row:
    """One line. `wide`: digests as long as they are."""
    shown = str if wide else _cut
    return (
        Cell(found.component),
        Cell(shown(found.version)),
        Cell(SYMBOL_NONE if found.wanted is None else shown(found.wanted), "" if found.wanted is None else "yellow"),
        Cell(str(len(found.nodes))),
        Cell(listed(found.nodes)),
    )


def _cut(version: str) -> str:
    return _DIGEST.sub(r"\1", version)


def as_json(rows: Iterable[Running]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "versions": [
            {"component": row.component, "version": row.version, "wanted": row.wanted, "nodes": list(row.nodes)}
            for row in rows
        ]
    }
