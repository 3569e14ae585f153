"""A plan's name is all it takes to replay it, and an enumeration covers every write."""

from __future__ import annotations

import pytest

from tests.faults import plans
from tests.faults.plans import Facts, Plan

FACTS = Facts(
    writes={"gpupool": 5, "webhook": 1},
    reads={"gpupool": 9},
    watched={"gpupool": ["gpudevices", "pods"]},
    steps=4,
)


def test_every_plan_that_is_enumerated_can_be_read_from_its_name() -> None:
    every = [*plans.crashes("pool", FACTS), *plans.others("pool", FACTS)]

    assert [Plan.parse(str(plan)) for plan in every] == every
    assert len({str(plan) for plan in every}) == len(every)


def test_each_write_is_struck_before_and_after() -> None:
    found = {str(plan) for plan in plans.crashes("pool", FACTS)}

    assert found == {
        f"pool/{kill}/{at}" for kill in plans.KILLS for at in (*(f"gpupool.{n}" for n in range(1, 6)), "webhook.1")
    }


def test_every_kind_of_fault_is_in_the_enumeration() -> None:
    found = {plan.fault for plan in [*plans.crashes("pool", FACTS), *plans.others("pool", FACTS)]}

    assert found == {*plans.FAULTS} - {plans.REFERENCE}


def test_numbers_and_steps_stay_within_what_the_reference_had() -> None:
    for plan in plans.others("pool", FACTS):
        assert 0 <= plan.step <= FACTS.steps
        most = FACTS.reads if plan.fault in plans.READS else FACTS.writes
        assert plan.number <= most.get(plan.process, 0)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("pool/kill-before", "workload/fault/at"),
        ("pool/earthquake/gpupool.1", "no fault 'earthquake'"),
        ("pool/kill-before/kubelet.1", "no process 'kubelet'"),
        ("pool/kill-before/gpupool.x", "invalid literal"),
    ],
)
def test_a_name_that_is_none_is_refused_with_what_is_wrong(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Plan.parse(text)


def test_a_pruned_list_is_spread_over_the_whole() -> None:
    every = [*plans.crashes("pool", FACTS)]

    found = plans.pruned(every, 4)

    assert len(found) == 4
    assert len({plan.process for plan in found} | {plan.number for plan in found}) > 3
    assert plans.pruned(every, 100) == every


def test_a_campaign_takes_of_each_group_so_many_and_others_for_another_workload() -> None:
    first, second = list(plans.sampled("pool", FACTS, 0)), list(plans.sampled("pool", FACTS, 1))

    for _, faults, most in plans.GROUPS:
        there = sum(plan.fault in faults for plan in plans.others("pool", FACTS))
        assert sum(plan.fault in faults for plan in first) == min(most, there)
    assert len(set(first)) == len(first)
    assert set(first) != set(second)


def test_some_workloads_together_meet_every_fault() -> None:
    found = {plan.fault for turn in range(15) for plan in plans.sampled("pool", FACTS, turn)}

    assert found == {*plans.FAULTS} - {plans.REFERENCE, *plans.KILLS}
