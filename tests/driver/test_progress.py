"""What a GPUDriver says of a node by how its last work ended: for this GPUDriver, on this machine, if it counts."""

from __future__ import annotations

import pytest

from controllers.api.driver_work import counts
from tests.driver.world import Cluster

BROKEN = (30, '{"result":"Refused","reason":"DiskFull","message":"no room"}')


@pytest.fixture
def failed() -> Cluster:
    """A node on which the driver of GPUDriver `main` failed, by its own fault; `second` asks for the same one."""
    made = Cluster()
    made.node()
    made.driver("main", priority=1)
    made.driver("second")
    made.breaks["n1"] = BROKEN
    made.settle()
    assert (made.phase(), made.status("main")["nodes"][0]["phase"]) == ("Failed", "Failed")
    made.now += 60
    return made


def told(made: Cluster, driver: str) -> str:
    """The word of the one node of a GPUDriver."""
    (found,) = made.status(driver)["nodes"]
    return str(found["phase"])


def give(made: Cluster) -> None:
    """The node is the second GPUDriver's from now on."""
    made.merge("GPUDriver", "second", {"spec": {"priority": 2}})
    made.reconcile("GPUNodeInventory", "n1")
    made.reconcile("GPUDriver", "second")


@pytest.mark.parametrize(
    ("since", "is_counted"),
    [
        (None, True),
        ("2026-01-01T00:00:09Z", True),
        ("2026-01-01T00:00:10Z", True),
        ("2026-01-01T00:00:11Z", False),
    ],
)
def test_what_a_node_showed_counts_from_the_second_on_in_which_it_was_wanted(
    since: str | None, is_counted: bool
) -> None:
    assert counts("2026-01-01T00:00:10Z", since) is is_counted


def test_what_failed_for_another_gpudriver_is_not_told_as_this_ones_failure(failed: Cluster) -> None:
    give(failed)

    assert failed.objects["GPUNodeInventory", "n1"]["status"]["lastDriverWork"]["driver"] == "main"
    assert told(failed, "second") != "Failed"


def test_a_node_that_failed_for_another_gpudriver_is_begun_anew(failed: Cluster) -> None:
    give(failed)
    failed.reconcile("GPUNodeInventory", "n1")
    assert failed.phase() == "Preflight"

    failed.breaks.clear()
    failed.settle()
    assert (failed.phase(), failed.last(), told(failed, "second")) == (None, "Good", "Current")
    assert failed.objects["GPUNodeInventory", "n1"]["status"]["lastDriverWork"]["driver"] == "second"


def test_a_node_that_fails_for_both_comes_to_rest(failed: Cluster) -> None:
    give(failed)
    failed.settle()

    assert (failed.phase(), told(failed, "second")) == ("Failed", "Failed")
    assert failed.objects["GPUNodeInventory", "n1"]["status"]["lastDriverWork"]["driver"] == "second"


def test_what_another_machine_of_the_name_did_is_not_told_of_this_one(failed: Cluster) -> None:
    with failed.edit("Node", "n1") as node:
        node["metadata"]["uid"] = "another"
    failed.reconcile("GPUNodeInventory", "n1")
    failed.reconcile("GPUDriver", "main")

    assert failed.phase() is None
    assert told(failed, "main") != "Failed"
