"""A campaign goes on where it was, over the same code and asked alike only; what was not run is not called well."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from reliability.faults import campaign as campaigns
from reliability.faults import fingerprint, worker_process
from reliability.faults.campaign import Campaign
from reliability.faults.plans import Plan
from reliability.faults.references import reference_of
from reliability.faults.worker_process import WorkerProcess

if TYPE_CHECKING:
    from pathlib import Path

WRITES = {"gpupool": ["create:x#1", "create:y#1"]}
FACTS = {"writes": WRITES, "reads": {}, "watched": {}, "steps": 1, "events": {}, "reviewed": []}
REFERENCE: dict[str, Any] = {
    "facts": FACTS,
    "end": {},
    "masked": [],
    "made": [{}, {}],
    "tallies": [{"x": 2}, {"x": 2}],
    "waits": [1.0, 1.5],
    "story": 5.0,
    "after": 0.0,
}
FIRST, SECOND = (Plan.parse(f"pool/kill-before/gpupool:create:{name}#1") for name in "xy")


class Workers:
    """What workers would be asked; each answers at once, as it was told to, or that the plan passed."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most: list[int] = []
        """At once, each time; 0 where all of them may work."""
        self.answers: dict[str, list[dict[str, Any]]] = {}

    async def work(self, made: Campaign, tasks: list[dict[str, Any]], keep: Any, most: int) -> None:
        for task in tasks:
            self.most.append(most)
            name = task.get("plan") or f"{task['control']}/control/{task['first']}"
            self.asked.append(name)
            told = self.answers[name].pop(0) if self.answers.get(name) else {}
            answer = {"plan": name, "outcome": "passed", "failures": [], "certain": 0} | told
            made._later(answer)
            keep(answer)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    """Instead of control planes."""
    made = Workers()

    async def work(self: Campaign, tasks: list[dict[str, Any]], keep: Any, most: int = 0) -> None:
        await made.work(self, tasks, keep, most)

    monkeypatch.setattr(Campaign, "_work", work)
    return made


def campaign(folder: Path, code: str, **asked: Any) -> Campaign:
    made = Campaign(folder, 1, **{"quiet": 3.0, "code": code, "tell": lambda _: None} | asked)
    made.reference_file("pool").parent.mkdir(parents=True, exist_ok=True)
    made.reference_file("pool").write_text(json.dumps(REFERENCE))
    made.load()
    return made


def test_a_plan_that_has_a_result_is_not_run_again(tmp_path: Path, workers: Workers) -> None:
    asyncio.run(campaign(tmp_path, "a").run([FIRST]))
    asyncio.run(campaign(tmp_path, "a").run([FIRST, SECOND]))

    assert workers.asked == [str(FIRST), str(SECOND)]


@pytest.mark.parametrize("other", [{"code": "b"}, {"quiet": 12.0}, {"last": 30.0}, {"wrapped": ["-m", "seeded"]}])
def test_results_about_other_code_or_asked_otherwise_count_for_nothing(
    tmp_path: Path, workers: Workers, other: dict[str, Any]
) -> None:
    asyncio.run(campaign(tmp_path, "a").run([FIRST]))
    asyncio.run(campaign(tmp_path, **{"code": "a"} | other).run([FIRST]))

    assert len(workers.asked) == 2


def test_results_at_another_pace_count_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    was = campaign(tmp_path, "a").key
    monkeypatch.setattr(campaigns, "PACE", 7.0)

    assert campaign(tmp_path, "a").key != was


def test_everything_that_decides_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    hashes = set()
    for name in (
        "controllers/a.py",
        "nodeagent/a.py",
        "reliability/kit/a.py",
        "tools/programs/a.py",
        "requirements.lock",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        hashes.add(fingerprint.code_hash())

    assert len(hashes) == 5


def test_a_plan_without_a_reference_is_not_run(tmp_path: Path, workers: Workers) -> None:
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([Plan.parse("join/kill-before/inventory:create:x#1")]))

    assert not workers.asked
    assert [plan for plan in made.every_plan(["pool", "join"]) if plan.workload == "join"] == []


def test_a_doubtful_failure_is_run_once_more_alone_and_both_are_kept(tmp_path: Path, workers: Workers) -> None:
    failure = {"outcome": "failed", "failures": ["the end differs"]}
    workers.answers = {str(FIRST): [failure], str(SECOND): [failure, failure]}
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([FIRST, SECOND]))

    assert workers.asked == [str(FIRST), str(SECOND)] * 2
    assert workers.most == [0, 0, 1, 1]
    assert {name: made.results[name]["outcome"] for name in made.results} == {
        str(FIRST): "1 of 2",
        str(SECOND): "failed",
    }
    assert campaign(tmp_path, "a").results[str(FIRST)]["failures"] == ["1st run: the end differs"]


def test_many_doubtful_failures_are_run_by_everybody(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaigns, "ALONE_MOST", 1)
    failure = {"outcome": "failed", "failures": ["the end differs"]}
    workers.answers = {str(FIRST): [failure], str(SECOND): [failure]}
    made = campaign(tmp_path, "a")
    made.workers = 3

    asyncio.run(made.run([FIRST, SECOND]))

    assert workers.most == [0, 0, 3, 3]


def test_no_more_workers_work_at_once_than_they_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy, at_once = [0], list[int]()

    class Slow:
        def __init__(self, *_: Any) -> None: ...

        async def ask(self, task: dict[str, Any]) -> dict[str, Any]:
            busy[0] += 1
            at_once.append(busy[0])
            await asyncio.sleep(0)
            busy[0] -= 1
            return {"plan": task["plan"], "outcome": "passed", "failures": []}

    monkeypatch.setattr(campaigns, "WorkerProcess", Slow)
    made = campaign(tmp_path, "a")
    made.workers = 3

    async def work() -> None:
        await made._work([{"plan": str(n)} for n in range(6)], lambda _: None)
        assert max(at_once) == 3
        at_once.clear()
        await made._work([{"plan": str(n)} for n in range(6)], lambda _: None, most=1)
        assert at_once == [1] * 6

    asyncio.run(work())


def test_a_plan_that_struck_nothing_is_run_once_more_and_may_fail_twice_then(tmp_path: Path, workers: Workers) -> None:
    missed, failed = {"outcome": "not reached"}, {"outcome": "failed", "failures": ["the end differs"]}
    workers.answers = {str(FIRST): [missed, missed], str(SECOND): [missed, failed, failed]}
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([FIRST, SECOND]))

    assert workers.asked == [str(FIRST), str(SECOND)] * 2 + [str(SECOND)]
    assert (made.results[str(FIRST)]["outcome"], made.results[str(SECOND)]["outcome"]) == ("not reached", "failed")


def test_a_certain_failure_is_not_run_again(tmp_path: Path, workers: Workers) -> None:
    workers.answers = {str(FIRST): [{"outcome": "failed", "failures": ["two pools"], "certain": 1}]}
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([FIRST]))

    assert workers.asked == [str(FIRST)]
    assert made.results[str(FIRST)]["outcome"] == "failed"


def test_what_shows_when_a_plan_is_wiped_away_fails_that_plan(tmp_path: Path, workers: Workers) -> None:
    workers.answers = {str(SECOND): [{"later": [[str(FIRST), ["afterwards: a finalizer stays"], False]]}]}
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([FIRST, SECOND]))

    assert workers.asked == [str(FIRST), str(SECOND), str(FIRST)]
    assert made.results[str(FIRST)]["outcome"] == "1 of 2"
    assert made.results[str(SECOND)]["outcome"] == "passed"


def test_what_was_planned_is_known_to_a_report_of_the_same_kind(tmp_path: Path) -> None:
    campaign(tmp_path, "a").planned = [str(FIRST)]

    assert campaign(tmp_path, "a").planned == [str(FIRST)]
    assert campaign(tmp_path, "b").planned == []


def test_a_worker_that_hangs_is_ended_and_its_plan_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "PLAN_SECONDS", 0.1)
    worker = WorkerProcess(tmp_path / "worker", ())

    async def deaf() -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec("sleep", "60", stdin=pipe, stdout=pipe)

    monkeypatch.setattr(worker, "_start", deaf)

    answer = asyncio.run(worker.ask({"plan": str(FIRST)}))

    assert answer["outcome"] == "failed"
    assert "did not answer within" in answer["failures"][0]


def test_what_wrote_oftener_is_run_again_beside_runs_without_a_fault(tmp_path: Path, workers: Workers) -> None:
    often = {"outcome": "failed", "failures": ["x: written 3 times"], "paced": ["x: written 3 times"]}
    workers.answers = {str(FIRST): [often], str(SECOND): [{"outcome": "failed", "failures": ["the end differs"]}]}
    more = {"end": {}, "masked": [], "made": [{}], "tallies": [{"x": 3}], "waits": [2.0], "story": 6.0, "after": 0.0}
    passed = {"plan": "pool/none/3", "outcome": "passed", "failures": [], "certain": 0}
    workers.answers["pool/control/3"] = [{"reference": more, "results": [passed]}]
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([FIRST, SECOND]))

    assert workers.asked == [str(FIRST), str(SECOND), "pool/control/3", str(FIRST), str(SECOND)]
    assert workers.most == [0, 0, 1, 1, 1]
    found = reference_of(json.loads(made.reference_file("pool").read_text()))
    assert found.writes["x"] == 3
    assert found.waits == [1.0, 1.5, 2.0]
    assert made.facts("pool").steps == 1


def test_a_run_without_a_fault_that_fails_by_chance_joins_nothing(tmp_path: Path, workers: Workers) -> None:
    often = {"outcome": "not judged", "failures": [], "paced": ["x: written 3 times"], "busy": "the machine was busy"}
    workers.answers = {str(FIRST): [often]}
    late = {"plan": "pool/none/3", "outcome": "failed", "failures": ["gpupool ended by itself 1 times"], "certain": 0}
    workers.answers["pool/control/3"] = [{"reference": {}, "results": [late]}]
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([FIRST]))

    assert made.results.keys() == {str(FIRST)}
    assert json.loads(made.reference_file("pool").read_text())["tallies"] == REFERENCE["tallies"]


def test_a_run_without_a_fault_that_breaks_an_invariant_counts(tmp_path: Path, workers: Workers) -> None:
    often = {"outcome": "failed", "failures": ["x: written 3 times"], "paced": ["x: written 3 times"]}
    workers.answers = {str(FIRST): [often]}
    wrong = {"plan": "pool/none/3", "outcome": "failed", "failures": ["two pools"], "certain": 1}
    workers.answers["pool/control/3"] = [{"reference": {}, "results": [wrong]}]
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([FIRST]))

    assert made.results["pool/none/3"]["outcome"] == "failed"


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("^gang$", ["gang"]),
        ("^(gang|limit)/kill", ["gang", "limit"]),
        ("^(driver|pool)/", ["driver", "pool"]),
        ("kill-before/gpupool", None),
        ("(gang/kill|limit/hold)", None),
        ("^gang/kill|^limit/hold", None),
        ("disable|stopped", None),
        ("", None),
    ],
)
def test_references_are_made_of_the_workloads_that_an_expression_speaks_of(
    only: str, expected: list[str] | None
) -> None:
    assert sorted(campaigns.workloads_of(only)) == sorted(expected or campaigns.all_workloads())
