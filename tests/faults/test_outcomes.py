"""What failed once is run once more, nothing is dropped, and what was not run is no success."""

from __future__ import annotations

from typing import Any

from reliability.faults import outcomes, report

PLAN = "pool/hold/gpupool:pods#1"


def result(outcome: str, *failures: str, plan: str = PLAN, **more: Any) -> dict[str, Any]:
    return {"plan": plan, "outcome": outcome, "failures": list(failures), "certain": 0, "struck": "", **more}


def test_a_failure_that_does_not_come_again_is_told_and_not_counted() -> None:
    both = outcomes.together(result("failed", "the end differs"), result("passed"))

    assert both["outcome"] == "1 of 2"
    assert both["failures"] == ["1st run: the end differs"]
    assert [one["outcome"] for one in both["attempts"]] == ["failed", "passed"]
    text = report.text([both], "abc")
    assert "FAILED ONE RUN OF TWO, not counted: " + PLAN in text
    assert "1st run: the end differs" in text
    assert text.endswith("1 failed one run of two and not the other\n0 failures")
    assert outcomes.status([both], [PLAN]) == 0


def test_a_failure_that_comes_twice_is_one() -> None:
    both = outcomes.together(result("failed", "x"), result("failed", "y"))

    assert both["outcome"] == "failed"
    assert both["failures"] == ["1st run: x", "2nd run: y"]
    assert "failed in both runs" in report.text([both], "abc")
    assert outcomes.status([both], [PLAN]) == 1


def test_a_second_run_that_strikes_nothing_clears_nobody() -> None:
    assert outcomes.together(result("failed", "x"), result("not reached"))["outcome"] == "failed"


def test_what_struck_nothing_is_run_once_more_and_only_that_run_counts() -> None:
    missed, failed = result("not reached"), result("failed", "x")

    assert outcomes.is_doubtful(missed)
    assert outcomes.together(missed, result("passed"))["outcome"] == "passed"
    assert not outcomes.is_doubtful(outcomes.together(missed, missed))
    assert outcomes.is_doubtful(outcomes.together(missed, failed))  # it failed once as yet


def test_what_is_certain_is_not_run_again_and_counts_in_whichever_run() -> None:
    certain = result("failed", "a card is in two pools", certain=1)

    assert not outcomes.is_doubtful(certain)
    assert outcomes.is_doubtful(result("failed", "x"))
    assert not outcomes.is_doubtful(outcomes.together(result("failed", "x"), result("failed", "y")))
    assert outcomes.together(result("failed", "x"), certain)["outcome"] == "failed"


def test_what_shows_when_a_plan_is_wiped_away_is_that_plans() -> None:
    dirty = outcomes.amended(result("passed"), ["afterwards: a finalizer stays"], certain=False)

    assert (dirty["outcome"], dirty["failures"]) == ("failed", ["afterwards: a finalizer stays"])
    assert outcomes.is_doubtful(dirty)
    assert not outcomes.is_doubtful(outcomes.amended(result("passed"), ["logged: Traceback"], certain=True))


def test_more_than_two_in_a_hundred_that_strike_nothing_fail() -> None:
    names = [f"pool/hold/gpupool:pods#{n}" for n in range(100)]
    every = [result("passed", plan=name) for name in names]
    every[:2] = [result("not reached", plan=name) for name in names[:2]]
    assert outcomes.status(every, names) == 0
    every[2] = result("not reached", plan=names[2])

    assert outcomes.status(every, names) == 1
    text = report.text(every, "abc", names)
    assert "100 plans, 100 run, 3 not reached" in text
    assert "too many plans struck nothing: 3 of 100, 2% are allowed" in text


def test_more_than_ten_in_a_hundred_that_fail_one_run_of_two_are_no_chance() -> None:
    names = [f"pool/hold/gpupool:pods#{n}" for n in range(100)]
    every = [result("1 of 2" if n < 10 else "passed", plan=name) for n, name in enumerate(names)]
    assert outcomes.status(every, names) == 0
    every[10] = result("1 of 2", plan=names[10])

    assert outcomes.status(every, names) == 1
    assert "too many plans failed one run of two: 11 of 100, 10% are allowed" in report.text(every, "abc", names)


def test_a_failure_beside_a_run_that_struck_nothing_does_not_count_as_two() -> None:
    both = outcomes.together(result("failed", "x"), result("not reached"))

    assert "its fault struck nothing" in report.text([both], "abc")


def test_plans_that_were_not_run_are_no_success() -> None:
    names = [PLAN, "pool/hold/gpupool:pods#2"]

    assert outcomes.status([result("passed")], names) == 3
    assert outcomes.status([], names) == 3
    text = report.text([result("passed")], "abc", names)
    assert "2 plans, 1 run, 0 not reached" in text
    assert "incomplete: 1 plans were not run" in text


def test_the_report_says_how_to_replay_a_failure_and_counts_the_rest() -> None:
    results = [
        result("passed", plan="pool/none/1"),
        result("passed", plan="pool/kill-before/gpupool:create:x#1", recovery=4.5),
        result("failed", "left behind", struck="ADDED Pod x"),
    ]

    text = report.text(results, "abc")

    assert f"replay: python -m reliability.faults run '{PLAN}'" in text
    assert "left behind" in text
    assert text.endswith("1 failures")
    crashes = next(line for line in text.splitlines() if line.startswith("crashes"))
    assert crashes.split()[1:5] == ["1", "0", "0", "0"]


def test_the_report_shows_what_is_not_compared() -> None:
    text = report.text([result("passed")], "abc", [PLAN], {"pool": ["GPUPool p.status.candidates[a].name"], "join": []})

    assert "not compared in pool, since its references differ in it:\n    GPUPool p.status.candidates[a].name" in text
    assert "not compared in join" not in text


BUSY = result("not judged", busy="the machine was busy: 5.0 for each", paced=["x: written 4 times"])


def test_what_was_not_judged_is_run_once_more_and_only_that_run_counts() -> None:
    failed = result("failed", "x", paced=["x"])

    assert outcomes.is_doubtful(BUSY)
    assert outcomes.together(BUSY, result("passed"))["outcome"] == "passed"
    assert outcomes.is_doubtful(outcomes.together(BUSY, failed))  # it failed once as yet
    assert outcomes.together(outcomes.together(BUSY, failed), failed)["outcome"] == "failed"


def test_what_was_not_judged_twice_is_told_with_the_figures_and_fails_nothing() -> None:
    both = outcomes.together(BUSY, BUSY)

    assert not outcomes.is_doubtful(both)
    assert outcomes.status([both], [PLAN]) == 0
    text = report.text([both], "abc", [PLAN])
    assert f"not judged: {PLAN}: the machine was busy: 5.0 for each\n    x: written 4 times" in text
    assert "1 of 1 not judged by how often they wrote and how long they took" in text


def test_a_failure_whose_second_run_is_not_judged_has_another() -> None:
    once = outcomes.together(result("failed", "x", paced=["x"]), BUSY)

    assert outcomes.is_doubtful(once)
    assert outcomes.together(once, result("failed", "x"))["outcome"] == "failed"
    assert outcomes.together(once, result("passed"))["outcome"] == "1 of 2"
    assert outcomes.together(once, BUSY)["outcome"] == "not judged"
    assert not outcomes.is_doubtful(outcomes.together(once, BUSY))


def test_what_no_machine_excuses_was_seen_once_where_no_later_run_is_judged() -> None:
    once = outcomes.together(result("failed", "x", "two pools", paced=["x"]), BUSY)
    both = outcomes.together(once, BUSY)

    assert both["outcome"] == "1 of 2"
    assert "1st run: two pools" in both["failures"]


def test_what_is_certain_is_not_excused_by_a_run_that_was_not_judged() -> None:
    assert outcomes.together(result("failed", "two pools", certain=1), BUSY)["outcome"] == "failed"
