"""A plan's name is all it takes to replay it, and an enumeration covers every write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reliability.faults import plans
from reliability.faults.plans import Facts, Plan

STATUS = "patch:gpudevices:base-1-0000-3b-00-0:status"
FACTS = Facts(
    writes={
        "gpupool": [f"{STATUS}#1", f"{STATUS}#2", "create:configmaps:d8-gpu-operator:gpu-device-plugin-train#1"],
        "webhook": [f"{STATUS}#1"],
    },
    reads={"gpupool": ["list:pods#1", "get:nodes:a.b-c#1"]},
    watched={"gpupool": {"gpudevices": 9, "pods": 2}},
    steps=4,
    events={"gpupool": ["pods:ADDED:team:one#1", "pods:DELETED:team:one#1"]},
    reviewed=[2, 3],
)


def every() -> list[Plan]:
    return [*plans.crashes("pool", FACTS), *plans.others("pool", FACTS)]


def test_every_plan_that_is_enumerated_can_be_read_from_its_name() -> None:
    assert [Plan.parse(str(plan)) for plan in every()] == every()
    assert len({str(plan) for plan in every()}) == len(every())


def test_a_name_tells_the_process_the_request_and_which_of_those_alike() -> None:
    plan = Plan.parse(f"pool/kill-before/gpupool:{STATUS}#2")

    assert (plan.process, plan.thing, plan.number) == ("gpupool", f"{STATUS}#2", 2)


def test_a_name_tells_the_kind_of_events() -> None:
    kind, one = Plan.parse("pool/hold/gpupool:pods#3"), Plan.parse("pool/unseen-one/gpupool:pods:DELETED:team:one#1")

    assert (kind.process, kind.resource, kind.number) == ("gpupool", "pods", 3)
    assert (one.process, one.resource, one.thing) == ("gpupool", "pods", "pods:DELETED:team:one#1")


def test_each_write_is_struck_before_and_after() -> None:
    found = {str(plan) for plan in plans.crashes("pool", FACTS)}

    writes = [f"{process}:{write}" for process, names in FACTS.writes.items() for write in names]
    assert found == {f"pool/{kill}/{write}" for kill in plans.KILLS for write in writes}


def test_of_a_share_of_crashes_each_write_is_struck_once_and_the_other_way_next_turn() -> None:
    first, second = (list(plans.crashes_once("pool", FACTS, turn)) for turn in (0, 1))

    assert [plan.at for plan in first] == [plan.at for plan in second]
    assert sorted([*first, *second]) == sorted(plans.crashes("pool", FACTS))
    assert {plan.fault for plan in first} == set(plans.KILLS)


def test_every_kind_of_fault_is_in_the_enumeration() -> None:
    assert {plan.fault for plan in every()} == {*plans.FAULTS} - {plans.REFERENCE}


def test_steps_stay_within_what_the_reference_had() -> None:
    assert {plan.step for plan in every()} <= set(range(FACTS.steps + 1))


def test_the_webhook_is_struck_only_where_it_is_asked() -> None:
    asked = {plan.step for plan in every() if plan.fault in plans.REVIEWED or plan.at.startswith("webhook@")}
    never = list(plans.others("join", replace(FACTS, reviewed=())))

    assert asked <= set(FACTS.reviewed)
    assert not [plan for plan in never if plan.fault in plans.REVIEWED or plan.at.startswith("webhook@")]


def test_leases_are_taken_from_leaders_only() -> None:
    assert {plan.process for plan in every() if plan.fault in plans.LEASES} == set(plans.LEADERS)


def test_what_only_one_run_did_is_no_place_for_a_fault() -> None:
    less = replace(
        FACTS,
        writes={"gpupool": [f"{STATUS}#1"]},
        watched={"gpupool": {"gpudevices": 5}},
        events={"gpupool": ["pods:ADDED:team:one#1"]},
        reviewed=[3, 4],
    )

    found = plans.shared([FACTS, less])

    assert found.writes == {"gpupool": [f"{STATUS}#1"]}
    assert found.watched == {"gpupool": {"gpudevices": 5}}
    assert found.events == {"gpupool": ["pods:ADDED:team:one#1"]}
    assert list(found.reviewed) == [3]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("pool/kill-before", "workload/fault/at"),
        ("pool/earthquake/gpupool:x#1", "no fault 'earthquake'"),
        ("pool/kill-before/kubelet:create:pods:one#1", "no process 'kubelet'"),
        ("pool/kill-before/gpupool:create:pods:one", "invalid literal"),
        ("pool/rbac/gpupool@x", "invalid literal"),
    ],
)
def test_a_name_that_is_none_is_refused_with_what_is_wrong(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Plan.parse(text)


def test_a_pruned_list_is_spread_over_the_whole() -> None:
    crashes = [*plans.crashes("pool", FACTS)]

    found = plans.pruned(crashes, 4)

    assert len(found) == 4
    assert {plan.process for plan in found} == {"gpupool", "webhook"}
    assert plans.pruned(crashes, 100) == crashes


def test_a_campaign_takes_of_each_group_so_many_and_others_for_another_workload() -> None:
    first, second = list(plans.sampled("pool", FACTS, 0)), list(plans.sampled("pool", FACTS, 1))

    for _, faults, most in plans.GROUPS:
        there = sum(plan.fault in faults for plan in plans.others("pool", FACTS))
        assert sum(plan.fault in faults for plan in first) == min(most, there)
    assert len(set(first)) == len(first)
    assert set(first) != set(second)


def test_some_workloads_together_meet_every_fault() -> None:
    found = {plan.fault for turn in range(20) for plan in plans.sampled("pool", FACTS, turn)}

    assert found == {*plans.FAULTS} - {plans.REFERENCE, *plans.KILLS}
