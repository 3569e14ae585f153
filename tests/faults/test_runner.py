"""What an environment shows only when it is wiped is the last plan's; references differ in what they say."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pytest

from reliability.faults import references, runner
from reliability.faults.cleanup import Dirty
from reliability.faults.machine import Given
from reliability.faults.observation import Seen
from reliability.faults.plans import Facts
from reliability.faults.run_record import Run
from reliability.faults.runner import Bench
from reliability.faults.trace import Recorder, Revision

if TYPE_CHECKING:
    from reliability.faults.environment import Environment

BAD = "Traceback (most recent call last):"


class Cluster:
    """As much of an environment as is wiped."""

    def __init__(self) -> None:
        self.recorder = Recorder(cast("Any", None))
        self.lines: dict[str, list[str]] = {"gpupool": []}
        self.dirty = ""

    async def wipe(self) -> None:
        if self.dirty:
            raise Dirty(self.dirty)

    def logs(self) -> dict[str, list[str]]:
        return self.lines


def bench(cluster: Cluster, last: str = "the last plan") -> Bench:
    made = Bench(cast("Environment", cluster))
    made._last = last
    return made


def test_a_ground_that_cannot_be_wiped_is_told_of_the_plan_before() -> None:
    cluster = Cluster()
    cluster.dirty = "a finalizer stays"
    made = bench(cluster)

    with pytest.raises(Dirty):
        asyncio.run(made.finish())

    assert made.later == [("the last plan", ["afterwards: a finalizer stays"], False)]


def test_a_ground_that_is_not_as_it_was_when_it_was_new_is_dirty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SAME", 0.0)
    cluster = Cluster()
    made = bench(cluster)
    asyncio.run(made.finish())
    made._last = "the plan that left something"
    cluster.recorder.now["ConfigMap", "d8/gpu-mig-layout-n"] = {"metadata": {"name": "gpu-mig-layout-n"}, "data": {}}

    with pytest.raises(Dirty, match="gpu-mig-layout-n"):
        asyncio.run(made.finish())

    assert made.later[0][0] == "the plan that left something"


def test_what_is_logged_while_a_plan_is_wiped_away_is_that_plans_and_certain() -> None:
    cluster = Cluster()
    cluster.lines["gpupool"] = [BAD, "told in the verdict", BAD]
    made = bench(cluster)
    made._judged = {"gpupool": 2}

    asyncio.run(made.finish())
    asyncio.run(made.finish())

    assert made.later == [("the last plan", [f"while it was wiped away: gpupool logged: {BAD}"], True)]


def seen(made: int, writes: int, story: float) -> Seen:
    card = {"metadata": {"name": "a"}}
    history = [Revision(n, 0.0, "ADDED", ("GPUDevice", "a"), card) for n in range(made)]
    from tests.faults.test_oracles import write

    run = Run(end={"x": 1}, history=history, sent=[write("x")] * writes, story=story, given=Given(4.0, 1.0))
    return Seen(run, Facts({}, {}, {}, 1, {}))


def test_references_keep_the_most_and_how_far_they_differ() -> None:
    found = references.reference_of(references.common([seen(1, 3, 5.0), seen(1, 5, 4.0)]))

    assert found.writes == Counter({"gpupool apply configmaps/x": 5})
    assert found.spread == Counter({"gpupool apply configmaps/x": 2})
    assert found.story == 5.0


def test_later_runs_without_a_fault_join_the_references() -> None:
    first, later = (references.common([seen(1, writes, 5.0)]) for writes in (3, 5))
    later["end"] = {"x": 2}

    found = references.reference_of(references.joined(first, later))

    assert found.writes == Counter({"gpupool apply configmaps/x": 5})
    assert found.spread == Counter({"gpupool apply configmaps/x": 2})
    assert (found.masked, len(found.made), found.waits) == ({"x"}, 2, [0.25, 0.25])


def test_controls_are_numbered_after_the_references(monkeypatch: pytest.MonkeyPatch) -> None:
    named = []

    async def run(_: Bench, plan: Any, *__: Any, **___: Any) -> Any:
        named.append(str(plan))
        return runner.Result(str(plan), "passed"), seen(1, 1, 1.0)

    monkeypatch.setattr(Bench, "run", run)
    results, found = asyncio.run(references.control(bench(Cluster()), "pool", quiet=1.0, first=3))

    assert named == [result.plan for result in results] == ["pool/none/3", "pool/none/4"]
    assert len(found["tallies"]) == references.CONTROLS


def aside(monkeypatch: pytest.MonkeyPatch, *failing: float) -> list[runner.Result]:
    """Results of references of which the first fail, on a machine that let them wait so long, and of two that pass."""
    left, passing = [*failing, 4.0, 5.0], 2

    async def run(_: Bench, plan: Any, *__: Any, **___: Any) -> Any:
        failed, one = len(left) > passing, seen(1, 1, 1.0)
        one.run.given = Given(4.0, left.pop(0))
        ended = ["gpupool ended by itself 1 times"] if failed else []
        return runner.Result(str(plan), "failed" if failed else "passed", ended, paced=ended), one

    monkeypatch.setattr(Bench, "run", run)
    results, found = asyncio.run(references.refer(bench(Cluster()), "pool"))
    assert found["waits"] == [1.0, 1.25]
    return results


def test_a_reference_that_lost_its_lease_on_a_busier_machine_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    *passed, first = aside(monkeypatch, 40.0)

    assert [(one.plan, one.outcome) for one in passed] == [("pool/none/2", "passed"), ("pool/none/3", "passed")]
    assert (first.plan, first.outcome, first.failures) == ("pool/none/1", "not judged", ())
    assert "10.0 for each, its references 1.2 at most" in first.busy


def test_a_reference_that_ended_by_itself_on_no_busier_machine_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, once = aside(monkeypatch, 4.0)
    *_, first, busy, second = aside(monkeypatch, 4.0, 40.0, 5.0)

    assert (once.outcome, once.failures) == ("1 of 2", ["gpupool ended by itself 1 times"])
    assert (first.outcome, busy.outcome, second.outcome) == ("failed", "not judged", "failed")


def test_references_that_differ_are_made_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    def runs(*made: int) -> int:
        left = list(made)

        async def run(_: Bench, plan: Any, *__: Any, **___: Any) -> Any:
            return runner.Result(str(plan), "passed"), seen(left.pop(0), 1, 1.0)

        monkeypatch.setattr(Bench, "run", run)
        results, _ = asyncio.run(references.refer(bench(Cluster()), "pool"))
        return len(results)

    assert runs(1, 1) == 2
    assert runs(1, 2, 1, 1) == references.MOST
