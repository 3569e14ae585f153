"""The trace of jobs is the same each time and more than fits; what is read off a run is right at its edges."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from reliability.bench import churn_trace
from reliability.bench.churn_trace import TEAMS, Arrival, Run, Sample, jain, sample, trace, usable
from reliability.bench.rows import Sizes

ARRIVALS = [
    Arrival(10.0, TEAMS[1], "early", 8, 50.0),
    Arrival(100.0, TEAMS[1], "served", 8, 50.0),
    Arrival(110.0, TEAMS[2], "never", 8, 50.0),
    Arrival(120.0, TEAMS[0], "greedy", 8, 50.0),
    Arrival(800.0, TEAMS[1], "last", 8, 50.0),
    Arrival(130.0, TEAMS[1], "small", 1, 50.0),
]


def test_the_trace_is_the_same_each_time_and_each_team_brings_what_it_is_to() -> None:
    sizes = Sizes(1)
    made = trace(40, sizes)

    assert made == trace(40, sizes) != trace(40, sizes, seed=2)
    assert [each.at for each in made] == sorted(each.at for each in made)
    assert max(each.at for each in made) < sizes.churn_seconds
    assert len({each.name for each in made}) == len(made)
    brought: dict[str, float] = defaultdict(float)
    for each in made:
        brought[each.team] += each.cards * each.runs
    share = 40 / 10 * sizes.churn_seconds
    assert brought.pop(TEAMS[0]) / share == pytest.approx(churn_trace.GREEDY, rel=0.1)
    assert all(one / share == pytest.approx(churn_trace.OTHERS, rel=0.15) for one in brought.values())
    assert set(Counter(each.cards for each in made)) == set(churn_trace.MIX)


@pytest.mark.parametrize(
    ("free", "waiting", "expected"),
    [
        ([8, 8], [], 0),
        ([], [1], 0),
        ([3, 5], [8], 0),
        ([3, 5], [8, 4, 1], 5),
        ([3, 5], [4, 3, 1], 8),
        ([2, 1], [1, 1, 1, 1], 3),
    ],
)
def test_free_cards_count_where_a_waiting_pod_fits_on_one_node(
    free: list[int], waiting: list[int], expected: int
) -> None:
    assert usable(free, waiting) == expected


def test_a_node_is_kept_for_a_pod_that_waits_long_and_fits_nowhere() -> None:
    free, waiting = {"a": 5, "b": 2}, [(8, 0.0), (1, 90.0), (2, 90.0), (3, 90.0)]

    early, late = (sample(at, free, waiting, hold_after=100.0) for at in (99.0, 100.0))
    assert (early.idle, early.kept, early.waiting) == (6, 0, 4)
    assert (late.idle, late.kept) == (2, 5)
    # One that fits somewhere needs no node kept for it.
    assert sample(500.0, free, [(5, 0.0)], hold_after=100.0).kept == 0
    assert sample(500.0, {}, waiting, hold_after=100.0).idle == 0


def test_what_is_read_off_a_run_leaves_out_its_start_and_jobs_that_came_too_late_to_be_served() -> None:
    began = {"early": 11.0, "served": 160.0, "greedy": 125.0, "small": 850.0, "last": 810.0}
    run = Run(1000.0, 60.0, 16, began, {"early": 70.0, "served": 210.0, "greedy": 225.0})

    assert run.waits(ARRIVALS, 8) == [60.0, 890.0]
    assert run.waits(ARRIVALS, 1) == [720.0]
    assert (run.never_began(ARRIVALS, 8), run.never_began(ARRIVALS, 1)) == (1, 0)
    used = run.card_seconds(ARRIVALS)
    assert set(used) == set(TEAMS), "who got nothing counts, too"
    assert used[TEAMS[1]] == 8 * (70 - 60) + 8 * 50 + 1 * 150 + 8 * 190
    assert (used[TEAMS[0]], used[TEAMS[2]]) == (800.0, 0.0)
    run.samples = [Sample(61.0, 2, 1, 3), Sample(62.0, 0, 0, 0)]
    assert (run.share("idle"), run.share("kept")) == (6.25, 3.125)


@pytest.mark.parametrize(("values", "expected"), [([], 1.0), ([3, 3, 3], 1.0), ([1, 0, 0, 0], 0.25), ([0, 0], 1.0)])
def test_jains_index(values: list[float], expected: float) -> None:
    assert jain(values) == pytest.approx(expected)
