"""Many nodes: permits, the first node of a kind, bad revisions, and what becomes of nodes when GPUDrivers change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.api import names, resources
from tests.driver.world import NEXT, VERSION, Cluster

NODES = [f"n{number}" for number in range(1, 7)]
BAD = (1, "modprobe: ERROR: could not insert 'nvidia': the kernel refuses it")


@pytest.fixture
def made() -> Cluster:
    cluster = Cluster()
    for name in NODES:
        cluster.node(name)
    cluster.driver()
    return cluster


def phases(made: Cluster) -> list[str | None]:
    return [made.phase(name) for name in NODES]


def turn(made: Cluster) -> None:
    """Each loop once, and then the world outside."""
    for key in made.all_keys():
        made.reconcile(*key)
        made.check()
    made.outside()


def test_all_come_into_service(made: Cluster) -> None:
    made.settle()

    assert phases(made) == [None] * 6
    assert [made.last(name) for name in NODES] == ["Good"] * 6
    assert made.status()["counts"]["current"] == 6


def test_no_more_are_looked_at_or_installed_at_once_than_may(made: Cluster) -> None:
    made.settings = replace(made.settings, prefetch_parallel=2, install_parallel=2)
    most_looks = most_installs = 0
    for _ in range(40):
        for key in made.all_keys():
            made.reconcile(*key)
            most_looks = max(most_looks, phases(made).count("Preflight"), len(made.checks()))
            most_installs = max(most_installs, phases(made).count("Installing"))
        made.outside()

    assert (most_looks, most_installs) == (2, 2)
    assert [made.last(name) for name in NODES] == ["Good"] * 6


def test_a_node_that_has_not_told_of_itself_is_named_and_nothing_is_begun_there(made: Cluster) -> None:
    made.report("n2", kernel="6.8.0-79-generic")  # kubelet says another one: it is being started
    made.settle()

    (found,) = (one for one in made.status()["nodes"] if one["phase"] != "Current")
    assert (found["name"], found["phase"], found["reason"]) == ("n2", "Preflight", "AwaitingFacts")
    assert made.told("Progressing") == ("True", "AwaitingFacts")
    assert made.told("Ready") == ("False", "NodesAtWork")
    assert not made.checks()
    made.report("n2")
    made.settle()
    assert made.told("Ready") == ("True", "AllNodesReady")


def test_one_node_of_a_kind_tries_an_unproved_revision(made: Cluster) -> None:
    made.breaks = dict.fromkeys(NODES, "hangs")
    for _ in range(6):
        turn(made)

    assert sorted(map(str, phases(made))) == ["Installing", *["Queued"] * 5]
    assert made.told("Progressing") == ("True", "NodesAtWork")
    assert [one["reason"] for one in made.status()["nodes"] if one["phase"] == "Queued"] == ["AwaitingProof"] * 5
    made.breaks.clear()
    made.settle()
    assert [made.last(name) for name in NODES] == ["Good"] * 6


def test_nodes_of_another_kind_do_not_wait_for_it(made: Cluster) -> None:
    made.node("older", kernel="5.15.0-1-generic")
    made.breaks = dict.fromkeys(NODES, "hangs")
    for _ in range(12):
        turn(made)

    assert made.last("older") == "Good"
    assert phases(made).count("Installing") == 1
    # Proved on one kind of node, it may be tried on the next, still by one of them.
    assert phases(made).count("Queued") == 5


def test_the_first_failure_of_an_unproved_revision_ends_it(made: Cluster) -> None:
    made.breaks = {VERSION: BAD}
    made.settle()

    assert phases(made).count("Failed") == 1
    assert sum(made.label(name) is not None for name in NODES) == 1
    assert made.told("Halted") == ("True", "ModuleLoad")
    assert made.status()["revisions"][0]["result"] == "Bad"
    assert made.status()["state"] == "Halted"
    made.now += 100_000
    made.settle()
    assert sum(made.label(name) is not None for name in NODES) == 1


def test_a_new_node_says_that_the_version_is_bad_on_its_kind(made: Cluster) -> None:
    made.breaks = {VERSION: BAD}
    made.settle()
    made.node("new")
    made.settle()
    work = made.work("new") or {}
    assert (work["phase"], work["reason"], made.label("new")) == ("Blocked", "RevisionBad", None)
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT}})
    made.settle()

    assert (made.phase("new"), made.last("new")) == (None, "Good")


def test_a_failure_of_the_node_does_not_speak_against_the_revision(made: Cluster) -> None:
    made.breaks = {"n1": (30, '{"result":"Refused","reason":"DiskFull","message":"no room"}')}
    made.settle()

    assert made.phase("n1") == "Failed"
    assert [made.last(name) for name in NODES[1:]] == ["Good"] * 5
    assert made.told("Halted")[0] == "False"
    assert made.told("Failed") == ("True", "DiskFull")


def test_a_person_has_a_bad_revision_tried_again(made: Cluster) -> None:
    made.breaks = {VERSION: BAD}
    made.settle()
    made.breaks.clear()
    made.now += 60
    made.merge("GPUDriver", "main", {"metadata": {"annotations": {names.RESUME: "true"}}})
    made.settle()

    assert [made.last(name) for name in NODES] == ["Good"] * 6
    assert names.RESUME not in made.objects["GPUDriver", "main"]["metadata"]["annotations"]
    assert made.status()["revisions"][0]["result"] == "Good"


def test_a_person_resumes_in_two_plans_whatever_the_clock_says(made: Cluster) -> None:
    made.breaks = {VERSION: BAD}
    made.settle()
    made.merge("GPUDriver", "main", {"metadata": {"annotations": {names.RESUME: "true"}}})
    for _ in range(2):
        made.now += 1
        made.reconcile("GPUDriver", "main")

    assert names.RESUME not in made.objects["GPUDriver", "main"]["metadata"]["annotations"]
    assert made.status()["revisions"][0]["result"] == "Unproved"
    made.now += 1
    made.reconcile("GPUDriver", "main")
    assert made.told("Halted")[0] == "False"


def test_a_person_has_a_bad_revision_tried_again_on_one_node(made: Cluster) -> None:
    made.breaks = {VERSION: BAD}
    made.settle()
    (failed,) = (name for name in NODES if made.phase(name) == "Failed")
    other = next(name for name in NODES if name != failed)
    for name, attempts in ((other, 1), (failed, 2)):
        made.merge("Node", name, {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
        made.settle()
        work = made.work(name)
        assert work is not None
        assert (work["phase"], work["attempt"]) == ("Failed", attempts)
        assert names.DRIVER_RETRY not in made.objects["Node", name]["metadata"]["annotations"]
    assert sum(made.label(name) is not None for name in NODES) == 2
    made.breaks.clear()
    made.merge("Node", failed, {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
    made.settle()
    assert [made.last(name) for name in NODES] == ["Good"] * 6


def test_another_version_goes_on_where_one_is_bad(made: Cluster) -> None:
    made.breaks = {VERSION: BAD}
    made.settle()
    made.now += 60
    made.driver(version=NEXT)
    made.settle()

    assert [made.last(name) for name in NODES] == ["Good"] * 6
    assert made.status()["revisions"][0]["version"] == NEXT


def test_nodes_with_another_revision_are_left_alone_and_new_ones_get_the_last_good(made: Cluster) -> None:
    made.settle()
    labels = {name: made.label(name) for name in NODES}
    spec = {"version": NEXT}
    made.merge("GPUDriver", "main", {"spec": spec})
    made.node("new")
    made.settle()

    assert {name: made.label(name) for name in NODES} == labels
    assert made.label("new") == labels["n1"]
    assert made.status()["counts"]["outdated"] == 7
    assert made.told("Ready") == ("False", "NodesOutdated")


def test_a_new_node_gets_the_last_good_driver_as_that_was_and_not_as_the_next_is_to_be(made: Cluster) -> None:
    made.merge("GPUDriver", "main", {"spec": {"image": {"pullSecrets": ["then"]}}})
    made.settle()
    gds = {"enabled": True, "image": "registry/nvidia-fs", "version": "no-such"}
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT, "gds": gds, "image": {"pullSecrets": ["now"]}}})
    made.absent = "no-such"
    made.node("new")
    made.reconcile("GPUNodeInventory", "new")
    (check,) = [pod for (kind, _), pod in made.objects.items() if kind == "Pod" and pod["spec"]["nodeName"] == "new"]
    made.settle()

    assert [one["name"] for one in check["spec"]["containers"]] == ["image", "look"]
    assert check["spec"]["imagePullSecrets"][0] == {"name": "then"}
    assert (made.phase("new"), made.last("new")) == (None, "Good")
    assert made.label("new") == made.label("n1")


def test_a_new_node_gets_what_is_wanted_where_the_last_good_image_is_gone(made: Cluster) -> None:
    made.settle()
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT}})
    made.absent = VERSION
    made.node("new")
    made.settle()

    assert (made.phase("new"), made.last("new")) == (None, "Good")
    assert made.label("new") != made.label("n1")


def test_a_node_for_which_neither_driver_is_there_asks_ever_more_seldom(made: Cluster) -> None:
    made.settle()
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT}})
    made.absent = "ubuntu24.04"
    made.node("new")
    tries = []
    for _ in range(6):
        made.settle()
        work = made.work("new") or {}
        assert (work["phase"], work["reason"]) == ("Blocked", "ImageMissing")
        tries.append(work["attempt"])
        made.now += 1801
    assert tries == [1, 2, 3, 4, 5, 6]


def test_what_has_not_been_begun_takes_the_new_target_at_once(made: Cluster) -> None:
    made.breaks = dict.fromkeys(NODES, "hangs")
    for _ in range(6):
        turn(made)
    began = next(name for name in NODES if made.phase(name) == "Installing")
    was = made.label(began)
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT}})
    made.breaks.clear()
    made.settle()

    assert made.label(began) == was
    others = {made.label(name) for name in NODES if name != began}
    assert len(others) == 1


def test_deleting_a_driver_lets_go_of_what_is_not_begun_and_finishes_the_rest(made: Cluster) -> None:
    made.breaks = dict.fromkeys(NODES, "hangs")
    for _ in range(6):
        turn(made)
    began = next(name for name in NODES if made.phase(name) == "Installing")
    made.delete_driver()
    for _ in range(4):
        turn(made)

    assert [name for name in NODES if made.phase(name) is not None] == [began]
    assert ("GPUDriver", "main") in made.objects
    made.breaks.clear()
    made.settle()
    assert ("GPUDriver", "main") not in made.objects
    assert made.last(began) == "Good"
    assert made.label(began) is not None
    assert [key for key in made.objects if key[0] == "DaemonSet"] != []
    assert all(not o["metadata"].get("ownerReferences") for (k, _), o in made.objects.items() if k == "DaemonSet")


@pytest.mark.parametrize("how", ["failed", "held", "away", "blocked"])
def test_a_driver_that_is_deleted_goes_whatever_keeps_the_next_one_from_its_nodes(made: Cluster, how: str) -> None:
    if how == "blocked":
        made.looks = dict.fromkeys(NODES, "dial tcp: i/o timeout")
    elif how == "away":
        made.driver(rollout={"paused": True})
    else:
        made.breaks = {VERSION: BAD}
    made.settle()
    assert all(made.work(name) for name in NODES)
    made.driver("next", mode="Precompiled" if how == "blocked" else "Compiled")  # a whole version has no such images
    for name in NODES if how == "away" else ():
        with made.edit("Node", name) as node:
            node["status"]["conditions"][0]["status"] = "False"
    made.delete_driver()
    made.settle()

    assert ("GPUDriver", "main") not in made.objects


def test_a_driver_that_is_made_anew_has_its_nodes_again(made: Cluster) -> None:
    made.settle()
    labels = {name: made.label(name) for name in NODES}
    made.delete_driver()
    made.settle()
    assert ("GPUDriver", "main") not in made.objects
    made.driver()
    made.settle()

    assert {name: made.label(name) for name in NODES} == labels
    assert made.status()["counts"]["current"] == 6


def test_a_module_that_is_disabled_lets_go_and_unloads_nothing(made: Cluster) -> None:
    made.breaks = dict.fromkeys(NODES, "hangs")
    for _ in range(6):
        turn(made)
    made.enabled = False
    made.breaks.clear()
    made.settle()

    assert phases(made) == [None] * 6
    assert sum(made.label(name) is not None for name in NODES) == 1
    assert [key for key in made.objects if key[0] == "DaemonSet"] != []
    assert not made.objects["GPUDriver", "main"]["metadata"].get("finalizers")
    made.enabled = True
    made.settle()
    assert [made.last(name) for name in NODES] == ["Good"] * 6


def test_a_daemonset_that_no_node_needs_goes_and_one_in_use_stays(made: Cluster) -> None:
    made.settle()
    for name in NODES:
        made.drop(resources.NODE, name)
        made.drop(resources.GPUNODEINVENTORY, name)
    (name,) = (key for kind, key in made.objects if kind == "DaemonSet")
    value = made.objects["DaemonSet", name]["metadata"]["labels"][names.DRIVER_VARIANT]
    made.reconcile("Variant", value)
    assert ("DaemonSet", name) in made.objects  # of a revision that is remembered
    made.delete_driver()
    made.settle()
    made.reconcile("Variant", value)
    assert ("DaemonSet", name) not in made.objects


def test_an_edit_of_a_daemonset_is_undone(made: Cluster) -> None:
    made.settle()
    (name,) = (key for kind, key in made.objects if kind == "DaemonSet")
    before = made.objects["DaemonSet", name]["spec"]["template"]["spec"]["hostPID"]
    made.merge("DaemonSet", name, {"spec": {"template": {"spec": {"hostPID": not before}}}})
    made.settle()

    assert made.objects["DaemonSet", name]["spec"]["template"]["spec"]["hostPID"] == before


def test_a_configmap_that_is_not_there_is_told_and_nothing_is_begun(made: Cluster) -> None:
    made.driver(build={"repositories": {"configMap": "repositories"}})
    made.settle()

    assert made.told("SettingsInvalid") == made.told("Blocked") == ("True", "ConfigMapMissing")
    assert phases(made) == ["Blocked"] * 6
    assert all("repositories" in (made.work(name) or {})["message"] for name in NODES)
    writes = made.writes
    made.now += 7200
    made.settle()
    assert made.writes == writes, "a person has to do something"
    meta = {"name": "repositories", "namespace": names.NAMESPACE, "labels": {}}
    made.put(resources.CONFIGMAP, {"metadata": meta, "data": {"local.list": "deb x"}})
    made.settle()
    assert [made.last(name) for name in NODES] == ["Good"] * 6


def test_a_configmap_that_changes_is_another_revision(made: Cluster) -> None:
    meta: dict[str, Any] = {"name": "repositories", "namespace": names.NAMESPACE, "labels": {}}
    made.put(resources.CONFIGMAP, {"metadata": meta, "data": {"local.list": "deb x"}})
    made.driver(build={"repositories": {"configMap": "repositories"}})
    made.settle()
    first = made.status()["target"]
    made.put(resources.CONFIGMAP, {"metadata": meta, "data": {"local.list": "deb y"}})
    made.settle()

    assert made.status()["target"] != first
    assert made.status()["current"] == first
    assert made.status()["counts"]["outdated"] == 6


def test_overlapping_drivers_share_the_nodes_and_stop_nobody(made: Cluster) -> None:
    made.driver("second", version=NEXT, priority=10)
    made.settle()

    assert made.told("Overlaps", "main") == ("True", "OthersHaveNodes")
    assert [made.last(name) for name in NODES] == ["Good"] * 6
    assert made.status("second")["counts"]["current"] == 6
    assert made.status("main")["counts"]["nodes"] == 0
