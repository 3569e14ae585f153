"""The statistics of the benchmarks. Pure; units are those of the values."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of the values (0 to 1) do not exceed: one that occurred, never a mean of two.

    Raises ValueError where there are no values, or the share is none.
    """
    if not values:
        raise ValueError("no values")
    if not 0 <= share <= 1:
        raise ValueError(f"a share is between 0 and 1, got {share}")
    rank = math.ceil(share * len(values) - 1e-9)  # 0.99 * 100 is 99.00000000000001 to a computer
    return sorted(values)[max(1, rank) - 1]


@dataclass(frozen=True, slots=True)
class Summary:
    """What is told of many values."""

    count: int
    least: float
    p50: float
    p99: float
    most: float


def summary(values: Sequence[float]) -> Summary:
    """Reduce values; raises ValueError where there are none."""
    return Summary(len(values), min(values), percentile(values, 0.5), percentile(values, 0.99), max(values))


@dataclass(frozen=True, slots=True)
class Timed:
    """One measurement, and whether it had the machine for itself."""

    value: float
    alone: bool = True


def ratios(measured: Sequence[Timed], floors: Sequence[Timed]) -> list[float | None]:
    """Each measurement over the mean of the floors right before and after it, of those that nobody disturbed.

    None where it was disturbed itself, or both of those floors were. Floors and measurements
    take turns, a floor first and last, so that what changes slowly (a growing database) is in
    both. Raises ValueError otherwise.
    """
    if len(floors) != len(measured) + 1:
        raise ValueError(f"{len(measured)} measurements lie between {len(measured) + 1} floors, got {len(floors)}")
    found: list[float | None] = []
    for number, one in enumerate(measured):
        around = [floor.value for floor in floors[number : number + 2] if floor.alone]
        found.append(one.value / statistics.mean(around) if one.alone and around else None)
    return found


def spread(values: Sequence[float]) -> float:
    """How far values that should be equal lie apart: largest over smallest."""
    return max(values) / min(values)
