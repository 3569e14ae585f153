"""The estimate finds what grows, under noise and odd values, and finds nothing where nothing grows."""

from __future__ import annotations

import random

import pytest

from reliability.soak.slopes import Slope, theil_sen


def line(count: int, slope: float, noise: float = 0.0, seed: int = 1) -> list[tuple[float, float]]:
    chance = random.Random(seed)
    return [(float(x), 5.0 + slope * x + chance.gauss(0, noise)) for x in range(count)]


def test_a_line_has_its_slope_and_no_doubt() -> None:
    found = theil_sen(line(20, 0.25))
    assert found.value == pytest.approx(0.25)
    assert found.low == pytest.approx(found.high)


def test_what_stays_the_same_does_not_grow() -> None:
    assert theil_sen([(float(x), 7.0) for x in range(10)]) == Slope(0.0, 0.0, 0.0)


def test_a_quarter_of_odd_values_does_not_move_it() -> None:
    points = line(40, 0.1)
    for at in range(0, 40, 4):
        points[at] = (points[at][0], 1e6)
    assert theil_sen(points).value == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("seed", range(10))
def test_noise_that_does_not_grow_has_a_range_around_nothing_mostly(seed: int) -> None:
    found = theil_sen(line(48, 0.0, noise=1.0, seed=seed), confidence=0.999)
    assert found.low < 0 < found.high


@pytest.mark.parametrize("seed", range(10))
def test_growth_shows_through_noise(seed: int) -> None:
    found = theil_sen(line(48, 0.2, noise=1.0, seed=seed))
    assert 0 < found.low < found.value < found.high
    assert found.value == pytest.approx(0.2, abs=0.06)


def test_more_confidence_is_a_wider_range() -> None:
    points = line(30, 0.0, noise=1.0)
    narrow, wide = theil_sen(points, 0.5), theil_sen(points, 0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_times_need_not_be_even_and_the_unit_can_be_changed() -> None:
    found = theil_sen([(0.0, 0.0), (1.0, 2.0), (10.0, 20.0)]) * 60
    assert found.value == pytest.approx(120.0)


@pytest.mark.parametrize("points", [[], [(1.0, 1.0)], [(1.0, 1.0), (1.0, 2.0)]])
def test_a_slope_needs_two_points_in_time(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="two points"):
        theil_sen(points)
