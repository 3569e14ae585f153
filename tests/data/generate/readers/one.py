"""The facts of a dump that speaks of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.data.told import Told, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable


def node(**facts: Any) -> dict[str, Any]:
    """One node."""
    return nodes([Told(**facts)])


def nodes(told: Iterable[Told]) -> dict[str, Any]:
    """Some."""
    return {"nodes": [to_json(one) for one in told]}
