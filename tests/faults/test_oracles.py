"""Each oracle can fail, and none fails over a run that is as the reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from controllers.api import names
from reliability.faults import oracles, plans, write_counts
from reliability.faults.budgets import BY_FAULT, REFUSED, budget
from reliability.faults.injections.process import JUMP
from reliability.faults.machine import Given
from reliability.faults.plans import Plan
from reliability.faults.process_proxy import Sent
from reliability.faults.run_record import Budget, Reference, Run, Verdict
from reliability.faults.snapshot import ABSENT
from reliability.faults.trace import Revision


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
    return oracles.verdict(replace(GOOD, **changes), REFERENCE, Budget()).failures


def test_a_run_as_the_reference_passes() -> None:
    assert failures() == []


def test_another_end_fails_with_the_path_and_both_values() -> None:
    (said,) = failures(end={"GPUDevice a.status.state": "Reserved"})

    assert "GPUDevice a.status.state is 'Reserved', the reference's 'Assigned'" in said


def test_where_people_do_not_wait_an_object_may_be_made_once_more_and_no_oftener() -> None:
    def told(times: int) -> list[str]:
        run = replace(GOOD, history=[made("a")] * times)
        return oracles.made(run, replace(REFERENCE, hasty=True))

    assert (told(0), told(2)) == ([], [])
    assert "ADDED GPUDevice a: 3 times" in told(3)[0]


def test_where_people_do_not_wait_an_object_may_be_written_as_often_as_any_of_its_kind() -> None:
    usual = Counter({"gpupool apply configmaps/x": 0, "gpupool apply configmaps/y": 4, "webhook apply configmaps/x": 9})

    def told(times: int, *, hasty: bool) -> list[str]:
        run = replace(GOOD, sent=[write("x")] * times)
        return write_counts.writes(run, replace(REFERENCE, writes=usual, hasty=hasty), Budget(more=1))

    assert told(7, hasty=True) == []
    deleted, hasty = replace(GOOD, sent=[replace(write("x"), verb="delete")] * 2), replace(REFERENCE, hasty=True)
    assert "written 2 times, 0 in the reference" in write_counts.writes(deleted, hasty, Budget(more=1))[0]
    assert "written 8 times, 6 in the reference" in told(8, hasty=True)[0]
    assert "written 5 times, 0 in the reference" in told(5, hasty=False)[0]


def test_something_left_behind_or_missing_fails() -> None:
    assert ABSENT in failures(end={**GOOD.end, "ConfigMap left.data.x": "1"})[0]
    assert ABSENT in failures(end={})[0]


def test_an_object_made_twice_or_deleted_on_the_way_fails() -> None:
    assert "2 times" in failures(history=[made("a"), made("a")])[0]
    assert "DELETED GPUDevice a: 1 times, 0 in the reference" in failures(history=[made("a"), made("a", "DELETED")])[0]
    assert failures(history=[])


def test_a_hot_loop_fails() -> None:
    assert not failures(sent=[write("x")] * 3)
    assert "written 4 times, 3 in the reference, 0 more are due" in failures(sent=[write("x")] * 4)[0]
    assert "written 1 times, 0 in the reference" in failures(sent=[*GOOD.sent, write("new")])[0]


def test_how_much_more_may_be_written_is_the_faults_and_what_references_differed_in() -> None:
    run, wide = (
        replace(GOOD, sent=[write("x")] * 5),
        replace(REFERENCE, spread=Counter({"gpupool apply configmaps/x": 2})),
    )

    assert not oracles.verdict(run, REFERENCE, budget(Plan.parse("pool/kill-after/gpupool:create:x#1"))).failures
    assert oracles.verdict(run, REFERENCE, budget(Plan.parse("pool/twice/gpupool:pods#1"))).failures
    assert not oracles.verdict(run, wide, Budget()).failures


def test_attempts_that_met_others_writes_are_no_writes_but_a_loop_of_them_fails() -> None:
    met = replace(write("x"), status=409)

    def found(count: int) -> list[str]:
        run = replace(GOOD, sent=[*GOOD.sent, *[met] * count])
        return list(oracles.verdict(run, REFERENCE, Budget()).failures)

    assert found(write_counts.CONFLICTS) == []
    (sentence,) = found(write_counts.CONFLICTS + 1)
    assert sentence.startswith("Conflicts of gpupool over configmaps/x: written 11 times")


def test_attempts_at_what_is_gone_are_excused_to_who_cannot_see_so_and_are_no_loop() -> None:
    lost = replace(write("x"), status=404)

    def found(count: int, fault: str) -> list[str]:
        run = replace(GOOD, sent=[*GOOD.sent, *[lost] * count])
        return list(oracles.verdict(run, REFERENCE, budget(Plan.parse(fault))).failures)

    deaf, seeing = "pool/half-open/gpupool@2", "pool/kill-after/gpupool:create:x#1"
    assert found(REFUSED.more, deaf) == []
    (sentence,) = found(REFUSED.more + 1, deaf)
    assert sentence.startswith("NotFound of gpupool over configmaps/x: written 13 times")
    assert found(budget(Plan.parse(seeing)).more, seeing) == []
    assert found(REFUSED.more, seeing)


def test_a_storm_of_events_fails() -> None:
    def events(count: int) -> list[Revision]:
        said = {"metadata": {"name": "e", "uid": "u"}, "reportingController": names.MANAGER_POOL}
        return [Revision(n, 0.0, "ADDED", ("Event", f"default/{n}"), said) for n in range(count)]

    assert not failures(history=[*GOOD.history, *events(4)])
    assert "Events of gpupool: written 9 times" in failures(history=[*GOOD.history, *events(9)])[0]


def test_what_goes_on_writing_fails() -> None:
    assert failures(rested=False) == ["it does not come to rest"]


def test_a_refused_or_late_bystander_fails_unless_the_api_server_was_away() -> None:
    assert "was refused: 500" in failures(plain=[(0.1, "500 Internal")])[0]
    assert "after 9.0 s" in failures(plain=[(9.0, "")])[0]
    run = replace(GOOD, plain=[(9.0, "gone")])
    assert not oracles.verdict(run, REFERENCE, Budget(plain=False)).failures


def test_an_unhandled_exception_in_a_log_fails() -> None:
    for line in (
        "Task exception was never retrieved",
        '{"event":"reconcile failed"}',
        "Traceback (most recent call last):",
    ):
        assert "gpupool logged" in failures(logs={"gpupool": [line]})[0]
    assert not failures(logs={"gpupool": ['{"event":"cannot list","level":"warning"}']})


def test_recovery_is_what_a_run_took_longer_than_the_reference() -> None:
    reference = replace(REFERENCE, story=20.0, after=5.0)

    def lost(story: float, after: float) -> float:
        return oracles.recovery(replace(GOOD, story=story, after=after), reference)

    assert lost(20.0, 5.0) == lost(18.0, 1.0) == 0.0
    assert lost(24.0, 2.0) == 4.0
    assert lost(24.0, 8.0) == 7.0


def test_recovery_has_a_limit_that_depends_on_the_fault() -> None:
    assert "longer than the reference" in failures(story=6.0)[0]
    assert not failures(story=4.0)
    assert budget(Plan.parse("pool/compacted/@1")).recovery > budget(Plan.parse("pool/409/gpupool:create:x#1")).recovery


def test_what_cannot_be_chance_is_told_apart() -> None:
    chance = oracles.verdict(replace(GOOD, end={}, plain=[(9.0, "")], rested=False), REFERENCE, Budget())
    assert chance.doubtful
    assert chance.paced
    assert not chance.certain
    bad = replace(GOOD, plain=[(0.1, "500")], logs={"gpupool": ["Traceback (most recent call last):"]})
    assert len(oracles.verdict(bad, REFERENCE, Budget()).certain) == 2


def test_a_process_that_ends_by_itself_fails_unless_it_may_lose_its_lease() -> None:
    assert failures(restarts={"gpupool": 1}) == ["gpupool ended by itself 1 times"]
    assert not failures(restarts={"gpupool": 0, "webhook": -1})
    run = replace(GOOD, restarts={"gpupool": 1})
    assert not oracles.verdict(run, REFERENCE, budget(Plan.parse("pool/rbac/gpupool@1"))).failures


def test_each_fault_has_its_due() -> None:
    assert set(BY_FAULT) == {*plans.FAULTS} - {plans.REFERENCE}
    assert all(found.slack == Budget().slack for found in BY_FAULT.values())


def test_only_a_clock_that_dates_reservations_and_is_behind_makes_them_end_early() -> None:
    assert budget(Plan.parse("pairs/clock-back/gpupool@2")).behind == JUMP
    others = ("pairs/clock-forth/gpupool@2", "pairs/clock-back/bootstrap@2", "pairs/stopped/gpupool@2")
    assert not any(budget(Plan.parse(name)).behind for name in others)


def test_nobody_is_there_to_sweep_from_a_kill_to_the_next_renewal() -> None:
    def renewal(at: float) -> Sent:
        return Sent("gpupool", "update", "leases", None, "x", None, at, 200, {"spec": {"holderIdentity": "a"}})

    acts = [renewal(at) for at in (10.4, 10.8, 15.0, 15.4)]

    assert oracles.away(acts, (10.0, 16.0), 1.2, 1000.0) == [(1010.8, 1015.0)]


def test_people_who_do_not_get_to_the_end_fail() -> None:
    assert failures(trouble=["the workload does not come to its end: x"])


SLOW = Given(2.0, 10.0)
TIMED = replace(REFERENCE, waits=(1.0, 1.5))


def judged(given: Given, **changes: Any) -> Verdict:
    return oracles.verdict(replace(GOOD, given=given, **changes), TIMED, Budget())


def test_how_often_it_wrote_is_judged_only_of_a_run_that_had_the_time_of_its_references() -> None:
    often = {"sent": [write("x")] * 4}
    (said,) = judged(Given(2.0, 3.9), **often).failures
    assert "written 4 times, 3 in the reference" in said

    verdict = judged(SLOW, **often)
    assert verdict.failures == []
    assert verdict.paced == [said]
    assert verdict.busy == (
        "the machine was busy: for 2.0 s of CPU its programs waited 10.0 s, 5.0 for each, its references 1.5 at most"
        " (2.0 with what they differ by)"
    )


def test_without_an_account_of_the_machine_all_is_judged() -> None:
    assert oracles.verdict(replace(GOOD, sent=[write("x")] * 4), REFERENCE, Budget()).failures


def test_a_busy_machine_excuses_what_takes_long_and_processes_that_lose_their_lease_and_nothing_else() -> None:
    for paced in ({"plain": [(9.0, "")]}, {"restarts": {"gpupool": 1}}, {"story": 60.0}):
        assert judged(Given(2.0, 1.0), **paced).failures
        assert not judged(SLOW, **paced).failures
        assert judged(SLOW, **paced).busy
    for wrong in (
        {"end": {}},
        {"history": [made("a"), made("a")]},
        {"rested": False},
        {"trouble": ["x"]},
        {"plain": [(0.1, "500")]},
        {"logs": {"gpupool": ["Traceback (most recent call last):"]}},
        {"sent": [write("x"), *[replace(write("x"), version="8")] * 2]},
    ):
        assert judged(SLOW, **wrong).failures


def test_a_run_as_the_reference_is_well_on_any_machine() -> None:
    verdict = judged(SLOW)

    assert (verdict.failures, verdict.busy) == ([], "")


def test_a_write_that_changes_nothing_is_told_of() -> None:
    first, second = (replace(write("x"), version=version) for version in ("8", "9"))
    assert not failures(sent=[first, second])

    (said,) = failures(sent=[first, second, second])
    assert said == "Unchanged by gpupool apply configmaps/x: written 1 times, 0 in the reference, 0 more are due"
    (said,) = failures(sent=[replace(first, version="7")], initial={("GPUDevice", "a"): card("a")})
    assert said.startswith("Unchanged by gpupool apply")


def test_a_write_that_changes_nothing_may_be_what_its_fault_costs() -> None:
    run = replace(GOOD, sent=[replace(write("x"), version="8")] * 2)

    assert not oracles.verdict(run, REFERENCE, budget(Plan.parse("pool/500-after/gpupool:create:x#1"))).failures
    assert oracles.verdict(run, REFERENCE, budget(Plan.parse("pool/twice/gpupool:pods#1"))).failures
