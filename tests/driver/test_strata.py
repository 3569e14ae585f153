"""What one kind of node shows of a revision holds for that kind, whatever it shows of others and whatever follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import resources
from tests.driver.world import NEXT, VERSION, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

BAD = (1, "modprobe: ERROR: could not insert 'nvidia': the kernel refuses it")
OLD_KERNEL = "5.15.0-1-generic"
NEW, OLD = ("n1", "n2"), ("o1", "o2", "o3")


@pytest.fixture
def made() -> Cluster:
    """Nodes of two kinds: the version fails on those of the old kernel."""
    cluster = Cluster()
    for name in NEW:
        cluster.node(name)
    for name in OLD:
        cluster.node(name, kernel=OLD_KERNEL)
        cluster.breaks[name] = BAD
    cluster.driver()
    return cluster


def mend(made: Cluster, version: str) -> None:
    made.breaks.clear()
    made.now += 60
    made.merge("GPUDriver", "main", {"spec": {"version": version}})


def strata(made: Cluster, number: int = 0) -> dict[str, str]:
    found = made.status()["revisions"][number]["strata"]
    return {one["key"].split()[1]: one["result"] for one in found}


def test_a_kind_of_node_where_a_revision_is_bad_gets_the_next_one_and_not_the_last_good(made: Cluster) -> None:
    made.settle()
    assert strata(made) == {"6.8": "Good", "5.15": "Bad"}
    mend(made, NEXT)
    made.breaks = {VERSION: BAD}
    made.settle()

    assert [made.last(name) for name in OLD] == ["Good"] * 3
    assert {made.label(name) for name in OLD} != {made.label(name) for name in NEW}
    assert strata(made) == {"5.15": "Good"}
    assert strata(made, 1) == {"6.8": "Good", "5.15": "Bad"}


def test_a_version_that_is_wanted_again_is_still_bad_where_it_was(made: Cluster) -> None:
    made.settle()
    mend(made, NEXT)
    made.breaks = {VERSION: BAD, NEXT: BAD}
    made.settle()
    tried = sum(made.label(name) is not None for name in OLD)
    made.merge("GPUDriver", "main", {"spec": {"version": VERSION}})
    made.settle()

    assert sum(made.label(name) is not None for name in OLD) == tried
    assert strata(made)["5.15"] == "Bad"


def test_a_kind_of_node_where_a_revision_fails_first_stops_no_other(made: Cluster) -> None:
    for name in NEW:
        made.merge("Node", name, {"spec": {"unschedulable": True}})
    made.settle()
    assert made.status()["revisions"][0]["result"] == "Bad"
    for name in NEW:
        made.merge("Node", name, {"spec": {"unschedulable": None}})
    made.settle()

    assert [made.last(name) for name in NEW] == ["Good"] * 2
    assert [made.phase(name) for name in OLD].count("Failed") == 1
    assert made.told("Halted") == ("True", "ModuleLoad")


@pytest.mark.parametrize("anew", [False, True])
def test_a_node_proves_a_revision_for_the_kind_of_which_it_was(made: Cluster, anew: bool) -> None:
    for name in OLD:
        made.merge("Node", name, {"spec": {"unschedulable": True}})
    made.settle()
    if anew:
        made.drop(resources.NODE, "n1")
    made.node("n1", kernel=OLD_KERNEL, boot="boot-2")
    for name in OLD:
        made.merge("Node", name, {"spec": {"unschedulable": None}})
    made.breaks = dict.fromkeys(OLD, "hangs") | {"n1": "hangs"}
    made.settle()

    assert [made.phase(name) for name in ("n1", *OLD)].count("Installing") == 1
    assert strata(made) == {"6.8": "Good"}


def test_the_record_of_the_last_work_names_kind_machine_and_fault(made: Cluster) -> None:
    made.settle()
    failed = next(name for name in OLD if made.phase(name) == "Failed")
    work = made.objects["GPUNodeInventory", failed]["status"]["lastDriverWork"]
    assert (work["result"], work["fault"]) == ("Failed", "Revision")
    assert work["nodeUID"] == made.objects["Node", failed]["metadata"]["uid"]
    assert work["stratum"].split()[1] == "5.15"


def with_nvswitches(made: Cluster, name: str) -> None:
    made.report(name, nvswitch=True)


def in_mig_mode(made: Cluster, name: str) -> None:
    """As its card was told to be by the driver that it had before."""
    (card,) = (key for (kind, key), one in made.objects.items() if kind == "GPUDevice" and is_on(one, name))
    told = {"capable": True, "enabled": True}
    made.merge("GPUDevice", card, {"status": {"hardware": {"mig": told}}})


def is_on(card: dict[str, Any], node: str) -> bool:
    return bool(card["status"]["nodeName"] == node)


@pytest.mark.parametrize(("differ", "word"), [(with_nvswitches, "nvswitch"), (in_mig_mode, "mig")])
def test_what_is_good_on_other_nodes_is_tried_by_one_with_nvswitches_or_in_mig_mode(
    differ: Callable[[Cluster, str], None], word: str
) -> None:
    made = Cluster()
    for name in (*NEW, *OLD):
        made.node(name)
    for name in OLD:
        differ(made, name)
    made.breaks = dict.fromkeys(OLD, BAD)
    made.driver()
    made.settle()

    assert [made.last(name) for name in NEW] == ["Good"] * 2
    assert [made.phase(name) for name in OLD].count("Failed") == 1
    found = {one["key"]: one["result"] for one in made.status()["revisions"][0]["strata"]}
    assert {result: key.endswith(f" {word}") for key, result in found.items()} == {"Good": False, "Bad": True}
