"""The reasons that a GPUDriver gives: each is the one that keeps its nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.api.driver_work import LastDriverWork
from controllers.driver.drivers import conditions
from controllers.driver.drivers.progress import progress_of
from controllers.driver.views import Evidence, ObservedDriver, Results
from tests.driver.world import Cluster

AT = "2026-01-01T00:00:00Z"


@pytest.fixture
def made() -> Cluster:
    cluster = Cluster()
    cluster.node("n1")
    cluster.driver()
    return cluster


def observed(made: Cluster) -> ObservedDriver:
    seen = made.view().driver("main")
    assert seen is not None
    return seen


def test_nodes_that_wait_for_a_configmap_say_so(made: Cluster) -> None:
    made.driver(build={"repositories": {"configMap": "repositories"}})
    made.settle()

    assert made.told("SettingsInvalid") == made.told("Blocked") == ("True", "ConfigMapMissing")
    assert made.told("Ready") == ("False", "NodesBlocked")


@pytest.mark.parametrize(("said", "told"), [("ModuleLoad", "ModuleLoad"), ("OfALaterVersion", "DriverPodFailed")])
def test_a_revision_that_is_halted_says_why_it_failed_whatever_that_node_does_now(
    made: Cluster, said: str, told: str
) -> None:
    bad = (Evidence("n1", "x", False, AT, said, "the kernel refuses it"),)
    seen = replace(observed(made), results=Results("Bad", {"x": "Bad"}), evidence=bad)
    found = conditions.findings(seen, ())["Halted"]

    assert (found.status, found.reason) == (True, told)


def test_a_node_whose_last_work_failed_says_why(made: Cluster) -> None:
    made.settle()
    seen = observed(made)
    (member,) = seen.members
    at = seen.driver.status.revisions[0].since
    last = LastDriverWork(driver="main", revision=seen.revision, at=at, took=1, result="Failed", reason="ModuleLoad")
    node = progress_of(replace(member, last=last), seen)

    assert node is not None
    assert (node.phase, node.reason) == ("Failed", "ModuleLoad")
