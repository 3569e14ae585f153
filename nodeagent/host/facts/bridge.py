"""Bridges gaps: an attribute that could not be read keeps its last value for a few scans. Pure.

A driver answers with an error, or not at all, and a file cannot be read for a moment. Such a value keeps its last one
for two looks; from the third on only what is told counts. Nothing is bridged over a change of what it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOKS = 3
"""So many in a row that do not tell a value end it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one look says of one thing."""

    values: Mapping[str, str] = field(default_factory=dict)
    unknown_fields: frozenset[str] = frozenset()
    """Attributes that could not be told; a value beside is a part of it, or what is true without a better one."""


@dataclass(frozen=True, slots=True)
class KnownValues:
    """What is believed of one thing."""

    values: Mapping[str, str] = field(default_factory=dict)
    missed_looks: Mapping[str, int] = field(default_factory=dict)
    """Looks in a row that did not tell a value which is kept, by attribute."""


def bridge_gaps(
    before: KnownValues | None, told: Observation, identity: tuple[str, ...], counts: int = 1
) -> KnownValues:
    """What is believed after one more look.

    `identity`: the attributes that say what it belongs to; `counts`: 0 for a look whose answer is still awaited.
    """
    values, silent = dict(told.values), {}
    if before is not None and _is_same(before.values, told, identity):
        for name in told.unknown_fields & before.values.keys():
            looks = before.missed_looks.get(name, 0) + counts
            if looks < LOOKS:
                values[name], silent[name] = before.values[name], looks
    return KnownValues(values, silent)


def _is_same(before: Mapping[str, str], told: Observation, identity: tuple[str, ...]) -> bool:
    """Whether nothing that is told says that this is something else."""
    return all(
        name in told.unknown_fields or before.get(name) == told.values.get(name) or name not in before
        for name in identity
    )
