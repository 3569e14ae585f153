"""A pruned campaign: some plans of each kind over six workloads, on three control planes at once: they mostly wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from reliability.faults import outcomes, plans, report
from reliability.faults.campaign import QUIET, Campaign
from reliability.faults.regressions import REGRESSIONS

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.faults.plans import Plan

pytestmark = [pytest.mark.cluster, pytest.mark.faults]
WORKLOADS = ("join", "pool", "expiry", "maintenance", "gang", "hasty-assign")
CRASHES, OTHERS = 5, 4
"""Of each workload."""
LONG = ("hang", "hang-after", "stale", "stale-start")
"""Faults that take long by nature."""
LEAST = 40


def chosen(campaign: Campaign) -> list[Plan]:
    """Some of each workload, evenly over its writes and over the kinds of other faults; and plans that found a bug."""
    found: list[Plan] = []
    for turn, workload in enumerate(WORKLOADS):
        facts = campaign.facts(workload)
        crashes = list(plans.crashes(workload, facts))
        for kill, most in zip(plans.KILLS, (CRASHES // 2, CRASHES - CRASHES // 2), strict=True):
            found += plans.pruned([plan for plan in crashes if plan.fault == kill], most)
        others = [plan for plan in plans.sampled(workload, facts, turn) if plan.fault not in LONG]
        found += plans.pruned([*others[2 * turn :], *others[: 2 * turn]], OTHERS)
    return list(dict.fromkeys([*found, *(plan for plan in REGRESSIONS if plan.workload in WORKLOADS)]))


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Done, with all results."""
    folder: Path = tmp_path_factory.mktemp("faults")
    made = Campaign(folder, workers=3, quiet=QUIET["smoke"])

    async def go() -> None:
        await made.refer(WORKLOADS)
        await made.run(chosen(made))
        await made.dismiss()

    asyncio.run(go())
    return made


def test_nothing_is_lost_whatever_breaks(smoke: Campaign) -> None:
    failed = [result for result in smoke.results.values() if result["outcome"] == "failed"]

    assert not failed, report.text(failed, smoke.code)


def test_the_faults_did_strike(smoke: Campaign) -> None:
    struck = [result for result in smoke.results.values() if result.get("struck") and result["outcome"] == "passed"]

    assert len(struck) >= LEAST, report.text(smoke.results.values(), smoke.code)
    assert {plans.Plan.parse(result["plan"]).fault in plans.KILLS for result in struck} == {True, False}


def test_how_often_it_wrote_was_judged_of_every_run(smoke: Campaign) -> None:
    names = [name for name in smoke.results if plans.Plan.parse(name).fault != plans.REFERENCE]
    if outcomes.unjudged(smoke.results.values(), names):
        found = report.unjudged(smoke.results.values(), names)
        pytest.skip("; ".join([found, *report.each_unjudged(list(smoke.results.values()))]))
