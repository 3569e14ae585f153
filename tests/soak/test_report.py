"""What a soak says in the end: people see what is wrong, programs get all of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from reliability.soak import run, verdicts
from reliability.soak.__main__ import main
from reliability.soak.actors import Actors
from reliability.soak.report import Check, Outcome, show
from reliability.soak.run_loop import Course, Length
from tests.soak.cycles import OURS, ends, own, reading

MACHINE = {"cores": 2, "cpu": "a CPU", "python": "3.11"}


def outcome(checks: tuple[Check, ...] = (), **grows: Any) -> Outcome:
    return Outcome(
        machine=MACHINE,
        minutes=30,
        seed=1,
        cycles=60,
        judged=48,
        rows=verdicts.rows(ends(48, **grows), []),
        checks=(Check("no error in a log"), *checks),
        done=Counter(pod=3270, assign=3840),
        refused=Counter(DeviceBusy=2),
        facts={"acts planned": 12},
    )


def test_a_leak_and_a_found_error_each_fail_the_soak() -> None:
    assert outcome().met
    assert not outcome(kernel=lambda n: {"descriptors": 30 + n}).met
    assert not outcome((Check("no process ended", ["etcd: 1"]),)).met


def test_the_table_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    show(outcome((Check("no process ended", ["gpupool-controller: 1"]),), kernel=lambda n: {"descriptors": 30 + n}))
    said = capsys.readouterr().out
    (line,) = [line for line in said.splitlines() if "descriptors" in line and "missed" in line]
    assert "+120.00" in line
    assert "1.00" in line
    assert OURS in said
    assert "MISSED no process ended" in said
    assert "gpupool-controller: 1" in said
    assert "met    no error in a log" in said
    assert "pod 3270" in said
    assert "DeviceBusy 2" in said


def test_everything_is_in_the_file_with_times_from_the_begin() -> None:
    course = Course(ends=ends(4), readings=[{OURS: reading(115.0, own())}])
    found = json.loads(json.dumps(outcome().to_json(course)))
    assert found["met"] is True
    assert [end["at"] for end in found["ends"]] == [0, 30, 60, 90, 120]
    assert found["readings"][0][OURS]["at"] == 15
    assert found["readings"][0][OURS]["own"]["tasks"] == 40
    assert {"process", "name", "slope", "limit", "verdict", "first", "last"} <= set(found["rows"][0])


def test_the_begin_is_not_judged() -> None:
    course = Course(ends=ends(10))
    assert Length(600).warm_up == 120
    assert Length(180).warm_up == 60
    assert [end.at for end in course.judged(Length(180).warm_up)] == [160 + 30 * n for n in range(9)]


def test_series_that_come_after_the_warm_up_are_named() -> None:
    course = Course(ends=ends(10), came={OURS: {"a": 50.0, "b": 161.0, "c": 160.5}, "other": {"d": 99.0}})
    assert course.new_series(60) == {OURS: ["b", "c"]}


def test_cycles_fill_the_time() -> None:
    assert Length(1800).cycles == 60
    assert Length(1.0).cycles == 1


@pytest.mark.parametrize("minutes", ["2", "soon", "-1", "5000"])
def test_wrong_minutes_are_a_sentence(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--minutes", minutes])
    assert ended.value.code == 2
    assert "minutes of churn are 3 to 1440" in capsys.readouterr().err


def found(seen: Course, *, done: int = 600, given_up: tuple[str, ...] = (), **of: Any) -> dict[str, list[str]]:
    actors = Actors(environment=None)  # type: ignore[arg-type]
    actors.done.update(pod=done, assign=done)
    actors.given_up += given_up
    said = {"restarts": {OURS: 0}, "told": {OURS: []}} | of
    made = run._outcome(seen, actors, machine=MACHINE, length=Length(300), seed=1, **said)
    return {check.name: list(check.found) for check in made.checks if check.found}


def test_what_must_not_be_is_found_each_by_its_check() -> None:
    def course(**of: Any) -> Course:
        return Course(ends=ends(10), readings=[{OURS: reading(115.0, own())}], begun=10, **of)

    assert found(course()) == {}
    assert found(course(), given_up=("pod p steady: 403",)) == {}
    assert found(course(), given_up=("unpool a : 500",)) == {
        "every act but a pod's creation was taken": ["unpool a : 500"]
    }
    assert list(found(course(), done=300)) == ["the load was twice the benchmark's"]
    assert list(found(course(), restarts={OURS: 1})) == ["no process ended or did not answer"]
    assert list(found(course(), told={OURS: ["Traceback (most recent call last):"]})) == ["no error in a log"]
    assert list(found(course(left=["pod p: was not there"]))) == ["at the end everything is as before the churn"]
    assert list(found(course(quiet_writes={OURS: 1.0}))) == ["no write in 60 quiet seconds"]
    assert list(found(course(quiet_changes=["GPUDevice a"]))) == ["no write in 60 quiet seconds"]
    assert len(found(course(broken="cycle 3"))) == 3, "what was not looked at is not met"
