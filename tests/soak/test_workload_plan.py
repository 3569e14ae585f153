"""A cycle is the same for the same seed, ends where it began, and is twice what the benchmark does."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest

from reliability.bench.rows import Sizes
from reliability.soak import workload_plan
from reliability.soak.workload_plan import GUEST, STAYING_NODES, Act, Pace, cycle

PACE = Pace()
NUMBERS = range(1, 6)


def by_subject(acts: list[Act]) -> dict[str, list[Act]]:
    found: dict[str, list[Act]] = defaultdict(list)
    for act in acts:
        found[act.subject].append(act)
    return found


def test_a_seed_says_what_happens() -> None:
    assert cycle(7, 3, PACE) == cycle(7, 3, PACE)
    assert cycle(7, 3, PACE) != cycle(8, 3, PACE)


def test_acts_come_in_order_and_leave_time_to_rest() -> None:
    for number in NUMBERS:
        times = [act.at for act in cycle(1, number, PACE)]
        begun = [act.at for act in cycle(1, number, PACE) if act.verb != "unpod"]
        assert times == sorted(times)
        assert times[0] >= 0
        assert max(begun) < PACE.cycle - PACE.rest
        assert max(times) <= PACE.cycle - PACE.rest / 2


def test_it_is_twice_the_load_of_the_benchmark() -> None:
    assert Sizes(0).gap == workload_plan.BENCHMARK_GAP
    for number in NUMBERS:
        acts = cycle(1, number, PACE)
        for verb in ("pod", "assign"):
            assert sum(act.verb == verb for act in acts) / PACE.cycle >= 2 / Sizes(0).gap


@pytest.mark.parametrize("number", NUMBERS)
def test_everything_is_undone(number: int) -> None:
    for subject, acts in by_subject(cycle(1, number, PACE)).items():
        verbs, values = [act.verb for act in acts], [act.value for act in acts]
        match verbs[0]:
            case "pod" | "strand":
                assert verbs == [verbs[0], "unpod"]
            case "assign":
                assert values[-1] == workload_plan.home_of(int(subject.partition("/")[2]))
                assert values[0] != values[-1]
            case "pool":
                assert verbs[-1] == "unpool"
                assert subject == workload_plan.brief_pool(number)
            case "break":
                assert values[-1] == ""
                assert subject in STAYING_NODES
            case "leave":
                assert (verbs, subject) == (["leave", "join"], GUEST)
            case "join":
                assert (verbs, subject) == (["join", "leave"], workload_plan.visitor(number))
            case "settings":
                assert values[-1] == "Spread"
            case _:
                pytest.fail(f"{subject}: {verbs}")


def test_a_card_never_goes_where_it_is() -> None:
    for subject, acts in by_subject(cycle(1, 1, PACE)).items():
        if acts[0].verb == "assign":
            values = [workload_plan.home_of(int(subject.partition("/")[2])), *(act.value for act in acts)]
            assert all(one != other for one, other in itertools.pairwise(values))
            assert {workload_plan.LEFT, workload_plan.RIGHT, ""} == set(values)
            assert any(one and other for one, other in itertools.pairwise(values)), "from pool to pool"


def test_names_of_what_lives_within_a_cycle_do_not_come_again() -> None:
    made = [
        {act.subject for act in cycle(1, number, PACE) if act.verb in ("pod", "strand", "pool")}
        | {workload_plan.visitor(number)}
        for number in NUMBERS
    ]
    assert sum(map(len, made)) == len(set().union(*made))
