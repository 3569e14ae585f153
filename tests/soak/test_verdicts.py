"""What grows is found, what comes and goes is not, and what cannot be told is not told."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from controllers.api import names
from reliability.soak import verdicts
from reliability.soak.limits import LEAST_CYCLES
from reliability.soak.verdicts import SERVER as API_SERVER
from reliability.soak.verdicts import Row
from tests.soak.cycles import CYCLE, OURS, SERVER, ends, own, reading

MANY = 48
"""Cycles of a soak of half an hour that are judged."""
Of = Callable[[int], Mapping[str, Any]]


def judged(count: int = MANY, **grows: Any) -> dict[tuple[str, str], Row]:
    return {(row.process, row.name): row for row in verdicts.rows(ends(count, **grows), [])}


def verdicts_of(rows: Mapping[tuple[str, str], Row]) -> set[str]:
    return {row.verdict for (process, _), row in rows.items() if process != SERVER}


def missed(rows: Mapping[tuple[str, str], Row]) -> set[str]:
    return {name for (_, name), row in rows.items() if row.verdict in ("missed", "unsure")}


def test_nothing_grows() -> None:
    rows = judged()
    assert missed(rows) == set()
    assert rows[OURS, "descriptors"].verdict == rows[OURS, "requests a cycle"].verdict == "met"
    assert rows[OURS, "memory (RSS)"].slope.value == 0


@pytest.mark.parametrize(
    ("name", "kernel", "said"),
    [
        ("descriptors", lambda n: {"descriptors": 30 + n}, lambda _: {}),
        ("threads", lambda n: {"threads": 4 + n}, lambda _: {}),
        ("tasks", lambda _: {}, lambda n: {"tasks": 40 + n}),
        ("series of metrics", lambda _: {}, lambda n: {"series": 500 + n}),
        ("cached objects", lambda _: {}, lambda n: {"cached": 100 + n}),
        ("keys that wait", lambda _: {}, lambda n: {"queue": n // 4}),
    ],
)
def test_one_more_with_each_cycle_or_with_every_fourth_is_found(name: str, kernel: Of, said: Of) -> None:
    assert missed(judged(kernel=kernel, said=said)) == {name}


def test_memory_that_grows_by_a_record_for_each_pod_is_found_through_its_noise() -> None:
    """0.7 kB for each of 55 pods a cycle is 4.6 MB an hour; the heap is half a megabyte more or less."""
    chance = random.Random(3)
    noise = [chance.gauss(0, 0.05) for _ in range(MANY + 1)]
    rows = judged(kernel=lambda n: {"rss": 80 + 0.0385 * n + noise[n]})
    assert rows[OURS, "memory (RSS)"].verdict == "missed"
    assert missed(judged(kernel=lambda n: {"rss": 80 + noise[n]})) == set()


def test_a_slope_that_noise_explains_is_no_verdict() -> None:
    chance = random.Random(8)
    noise = sorted(chance.gauss(0, 6) for _ in range(12))
    chance.shuffle(noise)
    noise[0], noise[-1] = min(noise), max(noise)  # the ends lie apart
    row = judged(11, kernel=lambda n: {"rss": 80 + noise[n]})[OURS, "memory (RSS)"]
    assert row.slope.value > (row.limit or 0)
    assert row.slope.low <= 0
    assert row.verdict == "unsure"


def test_more_and_more_requests_are_found_and_a_burst_is_not() -> None:
    total = [0.0]
    for number in range(MANY):
        total.append(total[-1] + 300 + 2 * number)
    assert missed(judged(said=lambda n: {"requests": {"GET 200": total[n]}})) == {"requests a cycle"}
    once = [300.0 * n + (500 if n > 20 else 0) for n in range(MANY + 1)]
    assert missed(judged(said=lambda n: {"requests": {"GET 200": once[n]}})) == set()


@pytest.mark.parametrize("seed", range(30))
def test_requests_that_waver_are_not_missed_by_chance_and_one_more_with_each_cycle_is(seed: int) -> None:
    """As two replicas of the webhook waver: never below 160, and often some more."""
    chance = random.Random(seed)
    each = [160 + chance.expovariate(1 / 11) for _ in range(MANY)]
    for more, verdict in ((0, {"met", "unsure"}), (1, {"missed"})):
        total = [0.0]
        for number, count in enumerate(each):
            total.append(total[-1] + count + more * number)
        row = judged(said=lambda n, total=total: {"requests": {"GET 200": total[n]}})[OURS, "requests a cycle"]
        assert row.verdict in verdict


def test_what_follows_the_clusters_objects_is_judged_where_a_cycle_ends() -> None:
    """A reading falls now and then into the moment in which a node is away."""
    found = ends(MANY)
    between = [
        {OURS: reading(end.at - 10, own(cached=80 if number < MANY / 2 else 90))} for number, end in enumerate(found)
    ]
    row = next(row for row in verdicts.rows(found, between) if (row.process, row.name) == (OURS, "cached objects"))
    assert (row.first, row.last, row.verdict) == (100, 100, "met")


def test_a_longer_cycle_does_no_more_than_its_time() -> None:
    found = ends(MANY)
    late = [end if number < 30 else _later(end, CYCLE) for number, end in enumerate(found)]
    row = next(row for row in verdicts.rows(late, []) if (row.process, row.name) == (OURS, "requests a cycle"))
    assert row.verdict == "met"


def _later(end: Any, by: float) -> Any:
    return replace(
        end, at=end.at + by, readings={name: replace(one, at=one.at + by) for name, one in end.readings.items()}
    )


def test_what_comes_and_goes_within_a_cycle_is_no_growth() -> None:
    """Connections that are busy when somebody looks: more of them each time, and none of them stays."""
    found = ends(MANY)
    between = [{OURS: reading(end.at - 10, own(), descriptors=60 + number)} for number, end in enumerate(found)]
    rows = verdicts.rows(found, between)
    assert all(row.verdict != "missed" for row in rows)


def test_objects_that_are_left_behind_are_found_and_events_that_time_out_are_not() -> None:
    assert missed(judged(stored=lambda n: {"ConfigMap": 9 + n})) == {"stored: ConfigMap"}
    assert missed(judged(stored=lambda n: {"Event": 300 + 5 * n})) == {"stored: Event"}
    assert judged()[API_SERVER, "stored: Event"].verdict == "met"


def test_what_is_not_the_modules_is_shown_only() -> None:
    rows = judged()
    assert rows[SERVER, "memory (RSS)"].slope.value == pytest.approx(120)
    assert {row.verdict for (process, _), row in rows.items() if process == SERVER} == {"info"}
    assert (SERVER, "tasks") not in rows


def test_a_short_run_is_not_judged() -> None:
    rows = judged(LEAST_CYCLES - 1, kernel=lambda n: {"descriptors": 30 + n})
    assert verdicts_of(rows) == {"info"}
    assert "missed" in verdicts_of(judged(LEAST_CYCLES, kernel=lambda n: {"descriptors": 30 + n}))
    assert verdicts.rows(ends(1), []) == []


def test_a_process_that_was_away_or_began_anew_is_left_out() -> None:
    found = ends(MANY)
    without = list(found)
    without[5] = type(found[5])(found[5].at, {SERVER: found[5].readings[SERVER]}, found[5].stored)
    assert {row.process for row in verdicts.rows(without, [])} == {SERVER, API_SERVER}
    anew = ends(MANY, kernel=lambda n: {"pid": 1 if n < 20 else 2})
    assert {row.process for row in verdicts.rows(anew, [])} == {SERVER, API_SERVER}


FIRST, SECOND, BOTH = names.WEBHOOK, f"{names.WEBHOOK}-2", f"{names.WEBHOOK}, all 2"


def replicas(first: Callable[[int], int], second: Callable[[int], int]) -> dict[tuple[str, str], Row]:
    """Of two replicas each has so many connections, and sends as many requests, in a cycle."""
    found, sent = [], Counter[str]()
    for number, end in enumerate(ends(MANY)):
        readings = {}
        for name, many in ((FIRST, first), (SECOND, second)):
            sent[name] += many(number)
            said = own(tasks=many(number), requests={"GET 200": sent[name]})
            readings[name] = reading(end.at, said, descriptors=many(number))
        found.append(replace(end, readings=readings))
    return {(row.process, row.name): row for row in verdicts.rows(found, [])}


def test_connections_that_move_from_replica_to_replica_are_no_growth() -> None:
    rows = replicas(lambda n: 60 - n, lambda n: 20 + n)
    assert rows[SECOND, "descriptors"].slope.value == pytest.approx(120)
    assert rows[SECOND, "descriptors"].verdict == rows[SECOND, "requests a cycle"].verdict == "info"
    assert {rows[BOTH, name].verdict for name in ("descriptors", "tasks", "requests a cycle")} == {"met"}
    assert (BOTH, "memory (RSS)") not in rows
    assert rows[SECOND, "memory (RSS)"].verdict == "met"


def test_what_grows_in_one_replica_is_found_in_the_sum() -> None:
    assert missed(replicas(lambda _: 20, lambda n: 20 + n)) == {"descriptors", "tasks", "requests a cycle"}


def test_replicas_are_not_added_up_where_one_began_anew() -> None:
    found = []
    for number, end in enumerate(ends(MANY)):
        one = end.readings[OURS]
        found.append(replace(end, readings={FIRST: one, SECOND: replace(one, pid=1 if number < 9 else 2)}))
    assert {row.process for row in verdicts.rows(found, [])} == {FIRST, API_SERVER}
