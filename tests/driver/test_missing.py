"""Images that the registry does not have: who is told, who asks again and when, and what mode Auto makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.driver.missing import Missing
from tests.driver.world import VERSION, Cluster, held_by

NODES = ("n1", "n2", "n3")
PRECOMPILED = "580-6.8"


@pytest.fixture
def made() -> Cluster:
    cluster = Cluster()
    for name in NODES:
        cluster.node(name)
    cluster.driver()
    return cluster


def work(made: Cluster, name: str = "n1") -> dict[str, Any]:
    found = made.work(name)
    assert found is not None
    return found


def forget(made: Cluster) -> None:
    """The process starts anew."""
    made.missing = Missing()


def test_a_node_whose_image_is_missing_asks_again_with_growing_pauses(made: Cluster) -> None:
    made.absent = VERSION
    made.settle()
    pauses = []
    for _ in range(5):
        after = made.of_node("n1").plan.requeue_after
        assert after is not None
        assert (work(made)["phase"], work(made)["reason"]) == ("Blocked", "ImageMissing")
        assert work(made)["retryAt"]
        pauses.append(after)
        made.now += after
        made.settle()
    assert pauses == sorted(pauses)
    assert pauses[0] == 60
    assert pauses[-1] > 600
    made.absent = ""
    made.now += 1800
    made.settle()
    assert [made.last(name) for name in NODES] == ["Good"] * 3


def test_nobody_forgets_what_is_missing_when_the_process_starts_anew(made: Cluster) -> None:
    made.absent = VERSION
    made.settle()
    writes = made.writes
    forget(made)
    made.settle()

    assert made.writes == writes


def test_a_node_that_is_blocked_asks_its_registry_each_time(made: Cluster) -> None:
    made.absent = VERSION
    made.settle()
    made.absent = ""
    made.now += 61
    made.settle()

    assert [made.last(name) for name in NODES] == ["Good"] * 3


def test_a_node_that_finds_the_image_wakes_those_that_wait_for_it(made: Cluster) -> None:
    made.absent = VERSION
    for _ in range(4):
        made.now += 1800
        made.settle()
    made.absent = ""
    made.node("n4")
    made.now += 400
    made.settle()

    assert [made.last(name) for name in (*NODES, "n4")] == ["Good"] * 4


def test_what_auto_has_decided_for_a_node_stands_until_its_work_ends(made: Cluster) -> None:
    made.driver(mode="Auto", rollout={"paused": True})
    made.absent = PRECOMPILED
    made.settle()
    assert {made.phase(name) for name in NODES} == {"Queued"}
    assert {work(made, name)["to"].rpartition("-")[2] for name in NODES} == {"any"}
    assert all(PRECOMPILED in work(made, name)["missing"][0] for name in NODES)
    writes = made.writes
    made.now += 301
    forget(made)
    made.settle()

    assert made.writes == writes


def test_a_node_that_compiled_its_driver_is_current_whatever_auto_would_take_now(made: Cluster) -> None:
    made.driver(mode="Auto")
    made.absent = PRECOMPILED
    made.settle()
    made.now += 301
    forget(made)
    made.settle()

    assert made.status()["counts"]["current"] == 3
    assert made.told("Ready") == ("True", "AllNodesReady")
    assert [one["key"].split()[1] for one in made.status()["revisions"][0]["strata"]] == ["6.8"]


def test_a_node_that_is_blocked_for_another_reason_does_not_ask_for_what_was_missing(made: Cluster) -> None:
    made.driver(mode="Auto")
    made.absent = PRECOMPILED
    made.looks = dict.fromkeys(NODES, held_by("Xorg"))
    made.settings = replace(made.settings, prefetch_parallel=1)
    made.settle()
    forget(made)
    made.now += 61
    made.silent.update(NODES)
    made.reconcile("GPUNodeInventory", "n1")

    assert work(made)["phase"] == "Preflight"
    assert work(made)["to"].endswith("-any")
