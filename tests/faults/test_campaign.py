"""A campaign goes on where it was, over the same code only."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.campaign import Campaign
from tests.faults.plans import Plan

FACTS = {"writes": {"gpupool": 2}, "reads": {}, "watched": {}, "steps": 1}
FIRST, SECOND = Plan.parse("pool/kill-before/gpupool.1"), Plan.parse("pool/kill-before/gpupool.2")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What workers would be asked; each answers at once that the plan passed."""
    seen: list[dict[str, Any]] = []

    async def work(self: Campaign, tasks: list[dict[str, Any]], keep: Any) -> None:
        for task in tasks:
            seen.append(task)
            keep({"plan": task["plan"], "outcome": "passed", "failures": []})

    monkeypatch.setattr(Campaign, "_work", work)
    return seen


def campaign(folder: Path, code: str) -> Campaign:
    made = Campaign(folder, 1, 3.0, code=code)
    made.reference_file("pool").parent.mkdir(parents=True, exist_ok=True)
    made.reference_file("pool").write_text(json.dumps({"facts": FACTS}))
    made.load()
    return made


def test_a_plan_that_has_a_result_is_not_run_again(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    asyncio.run(campaign(tmp_path, "a").run([FIRST]))
    asyncio.run(campaign(tmp_path, "a").run([FIRST, SECOND]))

    assert [task["plan"] for task in asked] == [str(FIRST), str(SECOND)]


def test_results_about_other_code_count_for_nothing(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    asyncio.run(campaign(tmp_path, "a").run([FIRST]))
    asyncio.run(campaign(tmp_path, "b").run([FIRST]))

    assert len(asked) == 2


def test_a_plan_without_a_reference_is_not_run(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    made = campaign(tmp_path, "a")

    asyncio.run(made.run([Plan.parse("join/kill-before/inventory.1")]))

    assert not asked
    assert [plan for plan in made.every_plan(["pool", "join"]) if plan.workload == "join"] == []
