"""Each oracle can fail, and none fails over a run that is as the reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tests.faults import oracles, report
from tests.faults.oracles import Due, Reference, Run
from tests.faults.picture import ABSENT, differences, mask, picture
from tests.faults.plans import Plan
from tests.faults.strikes import due
from tests.faults.tap import Sent
from tests.faults.trace import Revision


def card(name: str, **status: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": "5b3f2b1e-0000-4000-8000-000000000000", "resourceVersion": "7", "labels": {"a": "b"}}
    return {"metadata": meta, "status": {"state": "Assigned", "lastUpdated": "2026-01-02T03:04:05Z", **status}}


def made(name: str, type_: str = "ADDED") -> Revision:
    return Revision(1, 0.0, type_, ("GPUDevice", name), card(name))


def write(name: str) -> Sent:
    return Sent("gpupool", "apply", "configmaps", None, name, None, 0.0, 200, {})


REFERENCE = Reference(
    {"GPUDevice a.status.state": "Assigned"},
    set(),
    [Counter({"ADDED GPUDevice a": 1})],
    Counter({"gpupool apply configmaps/x": 3}),
)
GOOD = Run(end={"GPUDevice a.status.state": "Assigned"}, history=[made("a")], sent=[write("x")] * 3, plain=[(0.01, "")])


def failures(**changes: Any) -> list[str]:
    return oracles.verdict(replace(GOOD, **changes), REFERENCE, Due())


def test_a_run_as_the_reference_passes() -> None:
    assert failures() == []


def test_another_end_fails_with_the_path_and_both_values() -> None:
    (said,) = failures(end={"GPUDevice a.status.state": "Reserved"})

    assert "GPUDevice a.status.state is 'Reserved', the reference's 'Assigned'" in said


def test_something_left_behind_or_missing_fails() -> None:
    assert ABSENT in failures(end={**GOOD.end, "ConfigMap left.data.x": "1"})[0]
    assert ABSENT in failures(end={})[0]


def test_an_object_made_twice_or_deleted_on_the_way_fails() -> None:
    assert "2 times" in failures(history=[made("a"), made("a")])[0]
    assert "DELETED GPUDevice a: 1 times, 0 in the reference" in failures(history=[made("a"), made("a", "DELETED")])[0]
    assert failures(history=[])


def test_a_hot_loop_fails() -> None:
    assert not failures(sent=[write("x")] * 10)
    assert "written 11 times, 3 in the reference" in failures(sent=[write("x")] * 11)[0]


def test_what_goes_on_writing_fails() -> None:
    assert failures(rested=False) == ["it does not come to rest"]


def test_a_refused_or_late_bystander_fails_unless_the_api_server_was_away() -> None:
    assert "was refused: 500" in failures(plain=[(0.1, "500 Internal")])[0]
    assert "after 9.0 s" in failures(plain=[(9.0, "")])[0]
    run = replace(GOOD, plain=[(9.0, "gone")])
    assert not oracles.verdict(run, REFERENCE, Due(plain=False))


def test_an_unhandled_exception_in_a_log_fails() -> None:
    for line in (
        "Task exception was never retrieved",
        '{"event":"reconcile failed"}',
        "Traceback (most recent call last):",
    ):
        assert "gpupool logged" in failures(logs={"gpupool": [line]})[0]
    assert not failures(logs={"gpupool": ['{"event":"cannot list","level":"warning"}']})


def test_recovery_has_a_limit_that_depends_on_the_fault() -> None:
    assert "to come to rest" in failures(recovery=46.0)[0]
    assert due(Plan.parse("pool/compacted/@1")).recovery > due(Plan.parse("pool/409/gpupool.1")).recovery


def test_people_who_do_not_get_to_the_end_fail() -> None:
    assert failures(trouble=["the workload does not come to its end: x"])


def test_a_picture_leaves_out_what_is_new_each_time_and_nothing_else() -> None:
    one, other = card("a"), card("a")
    other["metadata"] |= {"uid": "6b3f2b1e-0000-4000-8000-000000000000", "resourceVersion": "8"}
    other["status"]["lastUpdated"] = "2026-09-09T09:09:09Z"

    assert picture({("GPUDevice", "a"): one}) == picture({("GPUDevice", "a"): other})
    other["status"]["state"] = "Faulted"
    found = differences(picture({("GPUDevice", "a"): one}), picture({("GPUDevice", "a"): other}))
    assert list(found) == ["GPUDevice a.status.state"]


def test_a_daemonsets_pods_are_known_by_node() -> None:
    def pod(name: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": "d8", "ownerReferences": [{"kind": "DaemonSet", "name": "plugin"}]}
        return {"metadata": meta, "spec": {"nodeName": "n"}, "status": {}}

    assert picture({("Pod", "d8/a"): pod("a")}) == picture({("Pod", "d8/b"): pod("b")})


def test_a_mask_hides_only_what_differed_between_references() -> None:
    one, other, third = {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 1}, {"a": 1, "b": 1}
    hidden = mask([one, other, third])

    assert hidden == {"b", "c"}
    assert list(differences(one, {"a": 9, "b": 9}, hidden)) == ["a"]


def test_the_report_says_how_to_replay_a_failure_and_counts_the_rest() -> None:
    results = [
        {"plan": "pool/none/1", "outcome": "passed", "failures": []},
        {"plan": "pool/kill-before/gpupool.1", "outcome": "passed", "failures": [], "recovery": 4.5},
        {"plan": "pool/hold/gpupool.pods", "outcome": "failed", "failures": ["left behind"], "struck": "ADDED Pod x"},
    ]

    text = report.text(results, "abc")

    assert "replay: python -m tests.faults run pool/hold/gpupool.pods" in text
    assert "left behind" in text
    assert text.endswith("1 failures")
    crashes = next(line for line in text.splitlines() if line.startswith("crashes"))
    assert crashes.split()[1:4] == ["1", "0", "0"]
