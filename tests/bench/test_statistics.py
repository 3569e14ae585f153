"""What is done with measured values, and how a verdict is reached."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability.bench import stats
from reliability.bench.rows import Row

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200)


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert stats.percentile(values, 0.99) == 99
    assert stats.percentile(values, 0.5) == 50
    assert stats.percentile(values, 0) == 1
    assert stats.percentile(values, 1) == 100
    assert stats.percentile([*values, 101.0], 0.99) == 100
    assert stats.percentile([7.0], 0.99) == 7
    assert stats.percentile([1.0, 2.0], 0.5) == 1


@given(VALUES, st.floats(0, 1))
def test_a_percentile_has_its_share_at_or_below(values: list[float], share: float) -> None:
    found = stats.percentile(values, share)
    below = sum(value <= found for value in values)
    assert found in values
    assert below >= share * len(values) - 1e-6
    assert sum(value < found for value in values) < max(1, share * len(values))


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=99).filter(lambda v: len(v) % 2 == 1))
def test_the_median_of_an_odd_number_is_the_usual_one(values: list[int]) -> None:
    assert stats.percentile(values, 0.5) == statistics.median(values)


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 1.1), ([1.0], -0.1)])
def test_what_has_no_percentile(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match=r"no values|a share is"):
        stats.percentile(values, share)


def test_a_summary() -> None:
    assert stats.summary([3.0, 1.0, 2.0]) == stats.Summary(count=3, least=1, p50=2, p99=3, most=3)


def timed(*values: float) -> list[stats.Timed]:
    """Negative: disturbed."""
    return [stats.Timed(abs(value), value > 0) for value in values]


def test_ratios_are_to_the_floors_around() -> None:
    assert stats.ratios(timed(12, 30), timed(8, 12, 18)) == [1.2, 2.0]
    assert stats.ratios([], timed(8)) == []
    with pytest.raises(ValueError, match="1 measurements lie between 2 floors, got 1"):
        stats.ratios(timed(1), timed(1))


def test_what_others_disturbed_does_not_count() -> None:
    assert stats.ratios(timed(12, -30, 40), timed(8, -99, -99, 20)) == [1.5, None, 2.0]
    assert stats.ratios(timed(12), timed(-8, -9)) == [None]


def test_a_machine_that_slows_down_evenly_does_not_change_a_ratio() -> None:
    assert stats.ratios(timed(11 * 2), timed(10 * 1, 10 * 3)) == pytest.approx([1.1])


def test_spread() -> None:
    assert stats.spread([2.0, 5.0, 4.0]) == 2.5


def test_verdicts() -> None:
    assert Row("x", 1.15, at_most=1.15).verdict == "met"
    assert Row("x", 1.16, at_most=1.15).verdict == "missed"
    assert Row("x", 0.0, at_most=0.0).verdict == "met"
    assert Row("x", 1.0, exactly=1.0).verdict == "met"
    assert Row("x", 0.99, exactly=1.0).verdict == "missed"
    assert Row("x", 0.0, exactly=0.0).verdict == "met"
    assert Row("x", 1.0, exactly=0.0).verdict == "missed"
    assert Row("x", 9.0).verdict == "info"
    assert Row("x", 9.0, at_most=1.0, judged=False).verdict == "info"


def test_how_a_figure_is_written() -> None:
    assert Row("x", 1234.567, "ms", 1, at_most=10.0).measured == "1,234.6 ms"
    assert Row("x", 1.0, "ms", at_most=10.0).budget == "≤ 10 ms"
    assert Row("x", 1.0, exactly=1.0).budget == "= 1"
    assert Row("x", 1.0).budget == ""
