"""Canary and waves of one kind of node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.driver_rollout import Canary, Rollout
from controllers.domain.driver.waves import CANARY, Progress, Stage, caps, stage

ROLLOUT = Rollout()


def counted(total: int, has: int = 0, under_way: tuple[int, ...] = (), alone: int = 0) -> Progress:
    """Nodes of which `has` serve with the revision, and some are under way or failed by their own fault."""
    started = has + len(under_way) + alone
    return Progress(total, started, has + alone, has, alone, list(under_way))


@pytest.mark.parametrize(
    ("total", "expected"), [(100, (1, 10, 30, 100)), (1, (1, 1, 1, 1)), (7, (1, 1, 3, 7)), (0, (0, 0, 0, 0))]
)
def test_shares_are_rounded_up(total: int, expected: tuple[int, ...]) -> None:
    assert caps(total, ROLLOUT) == expected


@pytest.mark.parametrize(
    ("progress", "good", "expected"),
    [
        (counted(100), False, Stage(0, 1)),
        (counted(100, under_way=(0,)), False, Stage(0, 0)),
        (counted(100, has=1), True, Stage(1, 9)),
        (counted(100, has=1, under_way=(1, 1)), True, Stage(1, 7)),
        (counted(100, has=8, under_way=(1, 1)), True, Stage(1, 0)),
        (counted(100, has=10), True, Stage(2, 20)),
        (counted(100, has=12), True, Stage(2, 18)),
        (counted(100, has=30), True, Stage(3, 70)),
        (counted(100, has=100), True, Stage(3, 0)),
        (counted(3, has=1), True, Stage(3, 2)),
    ],
)
def test_a_wave_begins_once_the_one_before_has_ended(progress: Progress, good: bool, expected: Stage) -> None:
    assert stage(progress, ROLLOUT, good=good) == expected


def test_a_node_whose_canary_failed_alone_makes_room_for_another_one_a_few_times() -> None:
    rooms = [stage(counted(100, alone=alone), ROLLOUT, good=False).free for alone in range(5)]
    assert rooms == [1, 1, 1, 0, 0]


def test_several_canaries_have_to_serve_before_the_first_wave() -> None:
    three = replace(ROLLOUT, canary=Canary(per_stratum=3))
    assert stage(counted(100, has=1), three, good=True) == Stage(CANARY, 2)
    assert stage(counted(100, has=1, under_way=(0, 0)), three, good=True) == Stage(CANARY, 0)
    assert stage(counted(100, has=3), three, good=True) == Stage(1, 7)
    assert stage(counted(2, has=2), three, good=True) == Stage(3, 0)


def test_nodes_that_serve_with_it_prove_it_where_the_kind_is_new() -> None:
    assert stage(counted(100, has=40), ROLLOUT, good=False) == Stage(3, 60)


def test_an_unproved_kind_of_which_a_later_wave_runs_waits() -> None:
    assert stage(counted(100, under_way=(2, 2)), ROLLOUT, good=False) == Stage(2, 0)


@given(
    total=st.integers(1, 400),
    waves=st.sets(st.integers(1, 99), max_size=5),
    per_stratum=st.integers(1, 4),
    failures=st.lists(st.booleans(), max_size=20),
)
def test_every_node_comes_to_its_turn_in_waves_that_never_overlap(
    total: int, waves: set[int], per_stratum: int, failures: list[bool]
) -> None:
    """Nodes are begun as the stage says and end one after the other, some by a fault of their own."""
    rollout = Rollout(waves=(*sorted(waves), 100), canary=Canary(per_stratum=per_stratum))
    has, alone, running, fails = 0, 0, list[int](), iter(failures)
    for _ in range(3 * total + 50):
        now = stage(counted(total, has, tuple(running), alone), rollout, good=has > 0)
        assert not running or set(running) <= {now.wave}, "two waves at once"
        begun = min(now.free, total - has - alone - len(running))
        assert has + alone + len(running) + begun <= max(caps(total, rollout)[now.wave], per_stratum) + alone
        running += [now.wave] * begun
        if not running:
            break
        running.pop()
        if next(fails, False):
            alone += 1
        else:
            has += 1
    stuck = has == 0 and alone >= min(total, rollout.max_failures.nodes + per_stratum)
    assert has + alone == total or stuck or has < min(per_stratum, total)


def test_while_a_canary_still_runs_no_wave_begins() -> None:
    assert stage(counted(100, has=1, under_way=(0,)), ROLLOUT, good=True) == Stage(CANARY, 0)
