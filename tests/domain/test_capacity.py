"""When a pool has few slots left."""

from __future__ import annotations

import pytest

from controllers.api.gpupool import Capacity
from controllers.domain.capacity import is_low


@pytest.mark.parametrize(
    ("available", "total", "low"),
    [(0, 0, False), (0, 1, True), (1, 1, False), (1, 10, False), (1, 11, True), (7, 70, False), (6, 70, True)],
)
def test_less_than_a_tenth_is_low_and_a_tenth_is_not(available: int, total: int, *, low: bool) -> None:
    assert is_low(Capacity(unit="card", total=total, available=available)) is low
