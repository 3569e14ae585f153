"""One node's way to a driver, and what keeps it from one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.api import names
from controllers.api.driver_look import Prepared
from controllers.api.resources import GPUNODEINVENTORY
from controllers.driver.observe import target
from tests.driver.world import KERNEL, LOOK, NEXT, VERSION, Cluster, held_by
from tests.kit import conditions
from tests.kit.manifests import body
from tests.kit.objects import allocation, condition


@pytest.fixture
def made() -> Cluster:
    cluster = Cluster()
    cluster.node()
    cluster.driver()
    return cluster


def test_a_bare_node_comes_into_service(made: Cluster) -> None:
    phases = []
    for _ in range(8):
        made.reconcile("GPUNodeInventory", "n1")
        if made.phase() not in phases:
            phases.append(made.phase())
        made.outside()

    assert phases == ["Preflight", "Queued", "Installing", "Validating", None]
    assert made.last() == "Good"
    assert made.label() is not None
    assert made.checks() == []


def test_it_takes_no_more_than_fourteen_writes(made: Cluster) -> None:
    for _ in range(8):
        made.reconcile("GPUNodeInventory", "n1")
        made.outside()

    assert made.last() == "Good"
    assert made.writes <= 10
    made.settle()
    writes = made.writes
    made.settle()
    assert made.writes == writes


def test_a_settled_cluster_says_so(made: Cluster) -> None:
    made.settle()

    assert made.told("Ready") == ("True", "AllNodesReady")
    assert made.told("Progressing") == ("False", "NothingToDo")
    status = made.status()
    assert status["state"] == "Ready"
    assert status["current"] == status["target"] == status["revisions"][0]["hash"]
    assert status["revisions"][0]["result"] == "Good"
    assert status["counts"]["current"] == 1
    assert [one["result"] for one in status["strata"]] == ["Good"]
    assert status["nodes"] == [{"name": "n1", "phase": "Current", "since": status["nodes"][0]["since"]}]


def test_a_node_with_a_driver_of_its_own_is_left_alone(made: Cluster) -> None:
    made.driver(mode="Auto")
    made.report("n1", driver="570.1", driver_source="host")
    made.settle()

    assert made.label() is None
    assert made.work() is None
    assert made.status()["counts"]["host"] == 1


def test_a_host_driver_and_mode_compiled_is_blocked_and_told(made: Cluster) -> None:
    made.report("n1", driver_source="host")
    made.settle()

    assert (made.phase(), made.label()) == ("Blocked", None)
    assert made.told("Blocked") == ("True", "HostDriver")


@pytest.mark.parametrize("kind", ["ManagedDisabled", "ManagedElsewhere"])
def test_a_node_of_which_nobody_has_said_whose_it_is_waits(made: Cluster, kind: str) -> None:
    with made.edit("GPUNodeInventory", "n1") as inventory:
        found = inventory["status"]["conditions"]
        inventory["status"]["conditions"] = [one for one in found if one["type"] != kind]
    made.settle()

    assert (made.work(), made.label()) == (None, None)


def test_a_node_that_is_not_managed_is_left_alone_and_one_of_another_operator_is_blocked(made: Cluster) -> None:
    made.node("n2")
    with made.edit("GPUNodeInventory", "n1") as inventory:
        conditions.put(inventory, condition("ManagedDisabled"))
    with made.edit("GPUNodeInventory", "n2") as inventory:
        inventory["status"]["managedElsewhere"] = {"driver": "gpu-operator/nvidia-driver-daemonset"}
    made.settle()

    assert (made.work("n1"), made.label("n1")) == (None, None)
    assert (made.phase("n2"), made.label("n2")) == ("Blocked", None)
    assert made.told("Blocked") == ("True", "ManagedElsewhere")


@pytest.mark.parametrize("label", [names.DRIVER_OPT_OUT, "nvidia.com/gpu-driver-upgrade.skip"])
def test_a_node_that_is_opted_out_is_left_as_it_is(made: Cluster, label: str) -> None:
    made.merge("Node", "n1", {"metadata": {"labels": {label: "true"}}})
    made.settle()

    assert (made.work(), made.label()) == (None, None)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ("manifest unknown", "ImageMissing"),
        ("dial tcp: i/o timeout", "PullFailed"),
        (held_by("nvidia-smi"), "DevicesHeld"),
        (Prepared(result="Refused", reason="HeadersMissing", message="no headers"), "HeadersMissing"),
        (replace(LOOK, secure_boot=True), "ModulesUnsigned"),
        (replace(LOOK, lockdown="integrity"), "ModulesUnsigned"),
        (replace(LOOK, free_mib=100), "DiskFull"),
        (replace(LOOK, host_driver="570.1"), "HostDriver"),
        (replace(LOOK, gpus=0), "PreflightFailed"),
        (Prepared(result="Refused", reason="RepositoryUnreachable", message="no answer"), "RepositoryUnreachable"),
        (Prepared(result="Refused", reason="WhoKnows", message="of a later version"), "PreflightFailed"),
    ],
)
def test_what_a_look_finds_keeps_the_node_untouched(made: Cluster, found: object, reason: str) -> None:
    made.looks["n1"] = found  # type: ignore[assignment]
    made.settle()

    work = made.work()
    assert work is not None
    assert (work["phase"], work["reason"]) == ("Blocked", reason)
    assert made.label() is None
    assert made.told("Blocked") == ("True", reason)
    assert made.checks() == []
    assert [key for key in made.objects if key[0] == "DaemonSet"] == []


def test_a_blocked_node_is_looked_at_again_with_growing_pauses(made: Cluster) -> None:
    made.looks["n1"] = held_by("Xorg")
    made.settle()
    pauses = []
    for _ in range(7):
        after = made.of_node("n1").plan.requeue_after
        assert after is not None
        pauses.append(after)
        made.now += after
        made.settle()
    assert pauses == [60, 120, 240, 480, 960, 1800, 1800]
    made.looks.clear()
    made.now += 1800
    made.settle()
    assert made.last() == "Good"


def test_an_image_that_one_node_misses_is_not_asked_for_on_others(made: Cluster) -> None:
    for number in range(2, 6):
        made.node(f"n{number}")
    made.settings = replace(made.settings, prefetch_parallel=1)
    made.looks = {f"n{number}": "not found" for number in range(1, 6)}
    asked = []
    for _ in range(12):
        for key in made.all_keys():
            made.reconcile(*key)
        asked += made.checks()
        made.outside()

    assert len(set(asked)) == 1
    assert {made.phase(f"n{number}") for number in range(1, 6)} == {"Blocked"}
    made.looks.clear()
    made.now += 400
    made.settle()
    made.now += 400
    made.settle()
    assert {made.last(f"n{number}") for number in range(1, 6)} == {"Good"}


@pytest.mark.parametrize(
    ("how", "reason", "fault"),
    [
        ((30, '{"result":"Refused","reason":"DiskFull","message":"no room"}'), "DiskFull", "Node"),
        ((1, "modprobe: ERROR: could not insert 'nvidia': Key was rejected"), "ModuleLoad", "Revision"),
        ((1, "modprobe: ERROR: could not insert 'nvidia': Unknown symbol in module"), "UnknownSymbol", "Revision"),
        ((1, "E: Failed to fetch http://archive"), "RepositoryUnreachable", "Node"),
        ((1, "who knows"), "DriverPodFailed", "Revision"),
    ],
)
def test_a_driver_that_fails_is_told_and_keeps_what_it_has(
    made: Cluster, how: tuple[int, str], reason: str, fault: str
) -> None:
    made.breaks["n1"] = how
    made.settle()

    work = made.work()
    assert work is not None
    assert (work["phase"], work["reason"], work["fault"]) == ("Failed", reason, fault)
    assert made.label() is not None
    assert made.last() == "Failed"
    assert made.told("Failed") == ("True", reason)
    assert made.told("Halted")[0] == str(fault == "Revision")


def test_what_goes_by_itself_is_awaited_up_to_the_limit(made: Cluster) -> None:
    made.breaks["n1"] = (20, '{"result":"Refused","reason":"DevicesHeld","message":"by Xorg"}')
    made.settle()
    assert made.phase() == "Installing"
    made.now += 1801
    made.settle()

    work = made.work()
    assert work is not None
    assert (work["phase"], work["reason"]) == ("Failed", "DevicesHeld")


def test_a_node_that_is_not_validated_in_time_fails_by_the_revision(made: Cluster) -> None:
    made.breaks["n1"] = "unfit"
    made.settle()
    assert made.phase() == "Validating"
    made.now += 901
    made.settle()

    work = made.work()
    assert work is not None
    assert (work["phase"], work["reason"], work["fault"]) == ("Failed", "ValidationTimeout", "Revision")


def test_limits_stand_still_while_the_node_is_away(made: Cluster) -> None:
    made.breaks["n1"] = "hangs"
    made.settle()
    made.now += 1000
    made.settle()
    with made.edit("Node", "n1") as node:
        node["status"]["conditions"] = [
            {"type": "Ready", "status": "False", "lastTransitionTime": "2027-01-15T08:16:40Z"}
        ]
    made.now += 3000
    made.settle()
    assert made.phase() == "Installing"
    made.now += 3000
    made.settle()
    assert made.phase() == "Failed"


def test_a_node_that_failed_is_tried_again_when_it_is_asked_for(made: Cluster) -> None:
    made.breaks["n1"] = (30, "no room")
    made.settle()
    made.breaks.clear()
    made.silent.add("n1")
    made.merge("Node", "n1", {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
    made.reconcile("GPUNodeInventory", "n1")

    work = made.work()
    assert work is not None
    assert (work["phase"], work["attempt"]) == ("Preflight", 2)
    assert names.DRIVER_RETRY not in made.objects["Node", "n1"]["metadata"]["annotations"]
    made.silent.clear()
    made.settle()
    assert (made.phase(), made.last()) == (None, "Good")


def test_a_node_that_failed_is_tried_again_after_a_reboot_and_with_a_new_revision(made: Cluster) -> None:
    made.breaks["n1"] = (30, "no room")
    made.settle()
    made.reboot("n1", "boot-2")
    made.reconcile("GPUNodeInventory", "n1")
    assert made.phase() == "Preflight"
    made.settle()
    assert made.phase() == "Failed"

    made.breaks.clear()
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT, "rollout": None}})
    made.settle()
    assert (made.phase(), made.last()) == (None, "Good")


def relabel(made: Cluster) -> str:
    """A node that failed to be validated, and waits, paused, for another version."""
    made.breaks["n1"] = "unfit"
    made.settle()
    made.now += 901
    made.settle()
    assert made.phase() == "Failed"
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT, "rollout": {"paused": True}}})
    made.settle()
    assert made.phase() == "Queued"
    label = made.label()
    assert label is not None
    return label


def test_a_driver_that_serves_again_is_not_taken_from_under_its_pods(made: Cluster) -> None:
    label = relabel(made)
    made.breaks.clear()
    made.outside()
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT, "rollout": None}})
    made.settle()

    assert (made.label(), made.work()) == (label, None)
    assert made.told("Ready") == ("False", "NodesOutdated")


def test_a_driver_that_serves_again_in_the_moment_of_its_successor_stays(made: Cluster) -> None:
    label = relabel(made)
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT, "rollout": None}})
    made.reconcile("GPUNodeInventory", "n1", stop_after=2)  # dies between the phase and the label
    assert (made.phase(), made.label()) == ("Installing", label)
    made.breaks.clear()
    made.outside()
    made.settle()

    assert (made.label(), made.work()) == (label, None)


def test_a_driver_whose_cards_are_allocated_stays(made: Cluster) -> None:
    label = relabel(made)
    (card,) = (key for kind, key in made.objects if kind == "GPUDevice")
    with made.edit("GPUDevice", card) as device:
        device["status"]["allocations"] = [body(allocation())]
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT, "rollout": None}})
    made.settle()

    assert (made.label(), made.phase()) == (label, "Queued")
    with made.edit("GPUDevice", card) as device:
        device["status"]["allocations"] = []
    made.breaks.clear()
    made.silent.add("n1")
    made.reconcile("GPUNodeInventory", "n1")
    assert made.phase() == "Installing"
    assert made.label() != label


def test_a_driver_that_comes_to_itself_is_no_failure_any_more(made: Cluster) -> None:
    made.breaks["n1"] = "hangs"
    made.settle()
    made.now += 1801
    made.settle()
    assert made.phase() == "Failed"
    made.breaks.clear()
    made.settle()
    assert (made.phase(), made.last()) == (None, "Good")


def test_a_reboot_amid_an_install_counts_as_no_failure(made: Cluster) -> None:
    made.breaks["n1"] = "unfit"
    made.settle()
    made.now += 800
    made.reboot("n1", "boot-2")
    made.breaks.clear()
    made.reconcile("GPUNodeInventory", "n1")

    work = made.work()
    assert work is not None
    assert (work["phase"], work["bootID"]) == ("Installing", "boot-2")
    made.settle()
    assert made.last() == "Good"


def test_a_driver_that_brings_the_node_down_again_and_again_has_failed(made: Cluster) -> None:
    made.breaks["n1"] = "hangs"
    for number in range(4):
        made.settle()
        made.now += 1000
        made.reboot("n1", f"boot-{number + 2}")
    made.settle()

    work = made.work()
    assert work is not None
    assert (work["phase"], work["reason"], work["fault"]) == ("Failed", "NodeRestarts", "Revision")
    assert made.told("Halted") == ("True", "NodeRestarts")


def test_a_kernel_that_changes_amid_an_install_has_the_node_begun_anew(made: Cluster) -> None:
    made.driver(version="580", mode="Precompiled")
    made.breaks["n1"] = "hangs"
    made.settle()
    before = made.label()
    boot(made, "6.8.0-90-generic")
    made.breaks.clear()
    made.settle()

    assert made.label() not in (None, before)
    assert made.last() == "Good"
    assert [one["result"] for one in made.status()["revisions"][0]["strata"]] == ["Good"]


def test_a_node_that_starts_with_another_kernel_gets_the_driver_for_that(made: Cluster) -> None:
    made.driver(version="580", mode="Precompiled")
    made.settle()
    before = made.label()
    boot(made, "6.8.0-90-generic")
    assert seen_of(made, until="Validating") == {
        ("Preflight", "KernelChanged"),
        ("Queued", "KernelChanged"),
        ("Installing", "KernelChanged"),
        ("Validating", None),
    }
    made.settle()

    assert made.label() not in (None, before)
    assert made.status()["counts"]["current"] == 1
    assert [(one["phase"], one.get("reason")) for one in made.status()["nodes"]] == [("Current", None)]


def test_a_node_that_comes_back_with_its_former_kernel_proves_nothing_of_the_other(made: Cluster) -> None:
    made.driver(version="580", mode="Precompiled")
    made.settle()
    before = made.label()
    with made.edit("Node", "n1") as node:
        node["spec"]["unschedulable"] = True
    boot(made, "6.8.0-90-generic")
    made.settle()
    assert made.phase() == "Queued"

    with made.edit("Node", "n1") as node:
        node["status"]["nodeInfo"] |= {"kernelVersion": KERNEL, "bootID": "boot-3"}
    made.reconcile("GPUNodeInventory", "n1")
    made.reconcile("GPUDriver", "main")
    told = made.status()["nodes"]
    assert [(one["phase"], one["reason"]) for one in told] == [("Queued", "AwaitingFacts")], "its agent is silent"
    assert made.told("Ready") == ("False", "NodesAtWork")
    made.settings = replace(made.settings, prefetch_parallel=1)
    made.silent.add("n2")  # it is looked at for ever: no other node is
    made.node("n2")
    made.reconcile("GPUNodeInventory", "n2")
    made.report("n1", boot="boot-3")
    made.settle()

    assert (made.work(), made.label()) == (None, before)
    assert made.last() == "Good"
    assert [one["key"] for one in made.status()["revisions"][0]["strata"] if KERNEL not in one["key"]] == []


def seen_of(made: Cluster, *, until: str) -> set[tuple[str, str | None]]:
    """Phases of the node with their reasons, up to the first time that it is in a phase."""
    seen = set()
    for _ in range(20):
        made.reconcile("GPUNodeInventory", "n1")
        work = made.work()
        if work is not None:
            seen.add((str(work["phase"]), work.get("reason")))
            assert work.get("reason") is None or "kernel 6.8.0-90-generic" in work["message"]
        if made.phase() == until:
            return seen
        made.outside()
    raise AssertionError(f"it does not come to {until}: {seen}")


def test_a_node_whose_kernel_changed_amid_an_install_says_so(made: Cluster) -> None:
    made.driver(version="580", mode="Precompiled")
    made.breaks["n1"] = "hangs"
    made.settle()
    assert made.phase() == "Installing"
    boot(made, "6.8.0-90-generic")
    made.reconcile("GPUNodeInventory", "n1")
    assert made.work() is None
    made.reconcile("GPUDriver", "main")
    assert [(one["phase"], one["reason"]) for one in made.status()["nodes"]] == [("Preflight", "KernelChanged")]
    assert made.told("Progressing") == ("True", "KernelChanged")
    made.reconcile("GPUNodeInventory", "n1")

    work = made.work()
    assert work is not None
    assert (work["phase"], work["reason"], work["from"]) == ("Preflight", "KernelChanged", made.label())


def test_a_node_that_starts_with_a_kernel_that_no_image_serves_says_which_there_are(made: Cluster) -> None:
    made.driver(version="580", mode="Precompiled")
    made.settle()
    boot(made, "6.17.0-1-strange")
    made.settle()

    assert made.told("Blocked") == ("True", "NoImageForKernel")
    assert made.status()["counts"] == made.status()["counts"] | {"blocked": 1}


def test_a_node_that_serves_with_another_kernel_than_its_label_is_for_is_left_alone(made: Cluster) -> None:
    made.driver(version="580", mode="Precompiled")
    made.settle()
    with made.edit("Node", "n1") as node:
        node["status"]["nodeInfo"]["kernelVersion"] = "6.8.0-90-generic"
    made.report("n1", driver="580.178.04", kernel="6.8.0-90-generic")
    made.settle()

    assert (made.work(), made.status()["counts"]["outdated"]) == (None, 1)


def boot(made: Cluster, kernel: str) -> None:
    """The node starts with another kernel: the driver that it has does not load there."""
    made.reboot("n1", "boot-2")
    with made.edit("Node", "n1") as node:
        node["status"]["nodeInfo"]["kernelVersion"] = kernel
    made.report("n1", boot="boot-2", kernel=kernel)


def test_a_driver_that_is_too_old_for_the_cards_speaks_against_the_revision(made: Cluster) -> None:
    made.breaks["n1"] = "unfit"
    made.settle()
    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["bootstrap"] = {"stage": "Driver"}
        conditions.put(inventory, condition("DriverOutdated", True))
    made.now += 901
    made.settle()

    work = made.work()
    assert work is not None
    assert (work["phase"], work["fault"]) == ("Failed", "Revision")


@pytest.mark.parametrize("who", ["DriverWork", "Driver", "agent", "Node", "Agent", "Toolkit", "Component"])
def test_a_node_that_nobody_checks_does_not_speak_against_the_revision(made: Cluster, who: str) -> None:
    made.breaks["n1"] = "unfit"
    made.settle()
    assert made.phase() == "Validating"
    if who == "agent":
        made.report("n1", driver=VERSION, boot="boot-0")
    else:
        with made.edit("GPUNodeInventory", "n1") as inventory:
            inventory["status"]["bootstrap"] = {"stage": who}
    made.now += 901
    made.settle()

    work = made.work()
    assert work is not None
    assert (work["phase"], work["reason"], work["fault"]) == ("Failed", "ValidationTimeout", "Node")
    assert made.told("Halted")[0] == "False"


@pytest.mark.parametrize("found", ["manifest unknown", held_by("Xorg")])
def test_a_person_has_a_blocked_node_looked_at_at_once(made: Cluster, found: object) -> None:
    made.looks["n1"] = found  # type: ignore[assignment]
    made.settle()
    assert made.phase() == "Blocked"
    made.looks.clear()
    made.now += 1
    made.merge("Node", "n1", {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
    made.settle()

    assert made.last() == "Good"
    assert names.DRIVER_RETRY not in made.objects["Node", "n1"]["metadata"]["annotations"]


def test_nodes_that_are_away_keep_no_slots_from_others(made: Cluster) -> None:
    made.settings = replace(made.settings, prefetch_parallel=1, install_parallel=1)
    made.silent = {"n1", "n2"}
    made.reconcile("GPUNodeInventory", "n1")
    assert made.phase() == "Preflight"
    away(made, "n1")
    made.node("n2", kernel="5.15.0-1-generic")
    made.breaks["n2"] = "hangs"
    made.silent.clear()
    made.settle()
    assert (made.phase("n1"), made.phase("n2")) == (None, "Installing")
    away(made, "n2")
    made.node("n3")
    made.settle()

    assert made.last("n3") == "Good"
    assert made.phase("n2") == "Installing"


def away(made: Cluster, name: str) -> None:
    """Kubelet is not heard of."""
    with made.edit("Node", name) as node:
        node["status"]["conditions"][0]["status"] = "False"


def test_check_pods_go_with_the_inventory(made: Cluster) -> None:
    made.reconcile("GPUNodeInventory", "n1")
    assert made.checks() != []
    made.drop(GPUNODEINVENTORY, "n1")
    made.reconcile("GPUNodeInventory", "n1")

    assert made.checks() == []


def test_a_node_whose_driver_cannot_be_what_is_wanted_is_outdated_and_says_why(made: Cluster) -> None:
    made.settle()
    made.merge("GPUDriver", "main", {"spec": {"version": "999.1.1", "mode": "Precompiled"}})
    made.settle()

    assert made.work() is None
    assert made.status()["counts"] | {"outdated": 1, "nodes": 1} == made.status()["counts"]
    assert made.status()["nodes"][0]["reason"] == "NoImageForBranch"
    assert made.told("Ready") == ("False", "NodesOutdated")


def test_a_node_of_which_nothing_is_heard_is_still_counted(made: Cluster) -> None:
    made.settle()
    made.report("n1", driver=VERSION, boot="boot-0")
    made.settle()

    assert made.status()["counts"]["current"] == 1
    assert made.told("Ready") == ("True", "AllNodesReady")


def test_a_cordoned_node_is_looked_at_and_not_begun(made: Cluster) -> None:
    made.merge("Node", "n1", {"spec": {"unschedulable": True}})
    made.settle()

    assert (made.phase(), made.label()) == ("Queued", None)
    assert made.told("Progressing") == ("True", "NodeCordoned")
    made.now += 3601
    made.settle()
    assert made.phase() == "Queued"
    made.merge("Node", "n1", {"spec": {"unschedulable": None}})
    made.settle()
    assert made.last() == "Good"


def test_a_paused_driver_begins_nothing(made: Cluster) -> None:
    made.driver(rollout={"paused": True})
    made.settle()

    assert (made.phase(), made.label()) == ("Queued", None)
    assert made.told("Progressing") == ("False", "RolloutPaused")


def test_a_node_of_another_machine_by_the_same_name_is_begun_anew(made: Cluster) -> None:
    made.breaks["n1"] = "hangs"
    made.settle()
    made.drop(made_node(), "n1")
    made.node("n1")
    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["driverWork"] = {
            "driver": "main", "to": "x", "phase": "Installing", "since": "2026-01-01T00:00:00Z", "nodeUID": "another",
        }  # fmt: skip
    made.reconcile("GPUNodeInventory", "n1")
    assert made.work() is None


def made_node() -> object:
    from controllers.api.resources import NODE

    return NODE


def test_the_versions_that_run_are_counted(made: Cluster) -> None:
    made.settle()
    assert made.status()["versions"] == [{"version": VERSION, "nodes": 1}]
    assert KERNEL.startswith("6.8")


def test_one_kernel_too_many_waits_and_no_node_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel of precompiled images is a DaemonSet of its own, and their number has an end."""
    monkeypatch.setattr(target, "VARIANTS_MAX", 2)
    made = Cluster()
    made.driver(version="580", mode="Precompiled")
    for number in (1, 2, 3, 4):
        made.node(f"n{number}", kernel=f"6.8.0-{min(number, 3)}-generic")
        made.settle()

    assert [made.work(f"n{number}") for number in (1, 2)] == [None, None]
    for name in ("n3", "n4"):
        work = made.work(name)
        assert work is not None
        assert (work["phase"], work["reason"]) == ("Blocked", "TooManyKernels")
        assert "6.8.0-3-generic is one more" in work["message"]
    assert len([key for key in made.objects if key[0] == "DaemonSet"]) == 2
    assert made.told("Blocked") == ("True", "TooManyKernels")


def failed() -> Cluster:
    """A node with whose driver it does not come into service."""
    made = Cluster()
    made.node()
    made.breaks[VERSION] = "unfit"
    made.driver()
    made.settle()
    made.now += 16 * 60
    made.settle()
    assert made.phase() == "Failed"
    return made


def test_a_driver_that_failed_and_is_held_open_by_its_own_pods_makes_way_for_another_version() -> None:
    made = failed()
    before = made.label()
    made.looks["n1"] = held_by("nvidia-persistenced")
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT}})
    made.settle()

    assert made.phase() != "Blocked"
    assert made.label() != before
    assert conditions.holds(made.objects["GPUNodeInventory", "n1"], "ReadyForPooling")


def test_a_driver_that_failed_and_is_held_open_by_its_own_pods_is_tried_again() -> None:
    made = failed()
    made.looks["n1"] = held_by("nv-hostengine")
    made.merge("Node", "n1", {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
    made.settle()

    assert made.phase() == "Validating"
    made.breaks.clear()
    made.settle()
    assert (made.phase(), made.last()) == (None, "Good")


def test_a_node_that_is_out_of_service_with_the_driver_that_is_wanted_does_not_count_as_ready(made: Cluster) -> None:
    made.settle()
    assert made.told("Ready") == ("True", "AllNodesReady")
    with made.edit("GPUNodeInventory", "n1") as inventory:
        conditions.put(inventory, condition("ReadyForPooling", False))
    made.reconcile("GPUDriver", "main")

    assert made.told("Ready") == ("False", "NodesOutOfService")
    assert (made.status()["state"], made.status()["counts"]["current"]) == ("NodesOutOfService", 0)
    made.settle()
    assert made.told("Ready") == ("True", "AllNodesReady")


def test_a_node_that_serves_with_another_version_than_was_asked_for_gets_the_next(made: Cluster) -> None:
    """The image of an override has another driver in it."""
    image = "registry/driver:570.1.1-ubuntu24.04"
    made.merge("GPUDriver", "main", {"spec": {"image": {"overrides": [{"system": "ubuntu24.04", "image": image}]}}})
    made.settle()
    made.now += 121
    made.settle()
    assert (made.phase(), (made.work() or {})["reason"]) == ("Failed", "OtherVersion")
    assert conditions.holds(made.objects["GPUNodeInventory", "n1"], "ReadyForPooling")
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT, "image": None}})
    made.reconcile("GPUNodeInventory", "n1")

    assert made.phase() is None, "its roll-out begins it"
    assert made.last() == "Failed"
