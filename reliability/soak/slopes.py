"""How fast something grows, by an estimate that a few odd values do not move. Pure.

Theil-Sen: the median of the slopes between all pairs of points, with Sen's range of confidence (P. K. Sen, 1968), which
comes from the number of pairs alone. A least-squares line would follow one cycle in which another program took the
machine; up to 29 % of the points may be anything here.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.999
"""Some sixty quantities are judged in a run: with 95 % one or two of them would seem to grow by chance."""
LEAST_POINTS = 2


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth for one unit of time, and the range in which it lies with the confidence asked for."""

    value: float
    low: float
    high: float

    def __mul__(self, factor: float) -> Slope:
        """The same growth for another unit of time; `factor` is above 0."""
        return Slope(self.value * factor, self.low * factor, self.high * factor)


def theil_sen(points: Sequence[tuple[float, float]], confidence: float = CONFIDENCE) -> Slope:
    """The slope of points (time, value). Equal values only widen the range.

    Raises ValueError where fewer than two points have times of their own.
    """
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, LEAST_POINTS) if x1 != x2)
    if not slopes:
        raise ValueError("a slope needs two points in time")
    count, pairs = len(points), len(slopes)
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)  # of Kendall's statistic, where nothing grows
    half = statistics.NormalDist().inv_cdf((1 + confidence) / 2) * spread / 2
    low, high = math.floor(pairs / 2 - half), math.ceil(pairs / 2 + half)
    return Slope(statistics.median(slopes), slopes[max(0, low)], slopes[min(pairs - 1, high)])
