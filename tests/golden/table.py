"""The golden table, read: what a person expects of each dump (`expected/README.md` says what the keys mean)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "expected"
FILES = ("nodefeature", "node_labels", "nvidia_smi", "topo", "pci", "profiles")
OF_CARDS = frozenset(
    {"pci", "uuid", "product", "memory_mib", "numa", "compute", "family", "precision", "mig", "mig_strategy"}
    | {"mig_types", "nvlink_peers", "labels", "lacks"}
)


@dataclass(frozen=True, slots=True)
class Expected:
    """What one dump, or one of its nodes, should come to."""

    file: str
    what: str
    node: str = ""
    nodes: int = 1
    given: dict[str, Any] = field(default_factory=dict)
    labelled: bool = True
    gpu_node: bool = True
    present: bool = True
    incomplete: str = ""
    says: tuple[str, ...] = ()
    each: dict[str, Any] = field(default_factory=dict)
    cards: dict[str, dict[str, Any]] = field(default_factory=dict)
    gfd: dict[str, Any] | None = None

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The cards by address, each whole."""
        rows = {address: {"labels": {}, "lacks": [], **self.each, **own} for address, own in self.cards.items()}
        for row in rows.values():
            assert row.keys() <= OF_CARDS, f"{self.file}: {row.keys() - OF_CARDS}"
        return rows

    @property
    def id(self) -> str:
        """A short name for a test."""
        return f"{self.file} {self.node}".strip()


@dataclass(frozen=True, slots=True)
class Join:
    """Cards of one dump with what others say of the node."""

    cards: str
    what: str
    adds: dict[str, Any]
    """What changes on each card."""
    labels: str = ""
    labels_of: str = ""
    nfd: str = ""
    incomplete: str = ""
    says: tuple[str, ...] = ()
    not_says: str = ""


def expectations() -> list[Expected]:
    """Every row of the table."""
    return [Expected(**one) for file in FILES for one in _read(file)["dump"]]


def joins() -> list[Join]:
    """Every join."""
    return [Join(**one) for one in _read("joins")["join"]]


def nothing() -> dict[str, str]:
    """Dumps that say nothing of a node's cards, and why."""
    return _read("nothing")


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / f"{name}.toml").read_text())
