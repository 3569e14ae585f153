"""The rows of a node whose driver is replaced, from its turn to its end, and every way back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from controllers.api import names
from controllers.domain.clock import seconds, stamp
from controllers.domain.driver.variant import revision_of
from tests.driver.rolling import Rolling
from tests.driver.world import LOOK, NEXT, VERSION, held_by

DRAIN = 90 * 60
BAD = (1, "modprobe: ERROR: could not insert 'nvidia': the kernel refuses it")


@pytest.fixture
def made() -> Rolling:
    """A node that is looked at for the next version, and waits for its turn."""
    cluster = Rolling()
    cluster.node()
    cluster.driver(rollout={"canary": {"soak": "1m", "evidence": "Use"}, "waveSoak": "30s"})
    cluster.settle()
    assert cluster.in_service("n1")
    retarget(cluster, NEXT)
    cluster.begin()
    cluster.settle()
    assert cluster.phase() == "Queued"
    return cluster


def retarget(made: Rolling, version: str) -> None:
    made.now += 60
    made.merge("GPUDriver", "main", {"spec": {"version": version}})
    made.settle()


def version(made: Rolling, node: str = "n1") -> str:
    report = made.objects["NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(node)}"]
    found: dict[str, Any] = report["spec"]["features"]["attributes"]
    return str(found[names.FEATURE_DRIVER]["elements"]["version"]) if names.FEATURE_DRIVER in found else ""


def until(made: Rolling, phase: str | None) -> None:
    """Take the node's steps one by one until it is there."""
    for _ in range(60):
        if made.phase() == phase:
            return
        made.reconcile("GPUNodeInventory", "n1")
        made.outside()
    raise AssertionError(f"{made.work()}")


def test_a_node_whose_turn_has_not_come_keeps_its_driver_and_serves(made: Rolling) -> None:
    before = made.label()
    made.now += 600
    made.settle()

    assert made.phase() == "Queued"
    assert made.label() == before
    assert made.in_service("n1")


def test_a_driver_is_replaced_and_soaks_until_a_pod_has_used_it(made: Rolling) -> None:
    before = made.label()
    made.take()
    made.settle()

    assert made.phase() == "Soaking"
    assert made.in_service("n1")
    assert version(made) == NEXT
    assert made.label() != before
    made.now += 61
    made.settle()
    assert made.phase() == "Soaking", "nobody has used the driver"
    made.users.add("n1")
    made.settle()
    assert (made.phase(), made.last()) == (None, "Good")
    last = made.objects["GPUNodeInventory", "n1"]["status"]["lastDriverWork"]
    assert (last["wave"], last["revision"]) == (0, revision_of(made.label() or ""))


def test_a_use_that_has_ended_by_the_end_of_the_soak_counts(made: Rolling) -> None:
    made.take()
    made.settle()
    made.users.add("n1")
    made.settle()
    made.users.clear()
    made.settle()
    assert made.phase() == "Soaking"
    made.now += 61
    made.settle()

    assert (made.phase(), made.last()) == (None, "Good")


def test_a_canary_that_nobody_uses_is_proved_after_a_day(made: Rolling) -> None:
    made.take()
    made.settle()
    made.now += 86_401
    made.settle()

    assert (made.phase(), made.last()) == (None, "Good")


def test_a_node_of_a_wave_soaks_for_its_time_alone(made: Rolling) -> None:
    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["driverWork"]["wave"] = 1
    made.take()
    made.settle()
    made.now += 31
    made.settle()

    assert (made.phase(), made.last()) == (None, "Good")


def test_no_driver_goes_while_a_pod_has_a_card_and_the_node_is_given_back_in_time(made: Rolling) -> None:
    before = made.label()
    made.users.add("n1")
    made.take()
    made.settle()
    assert made.phase() == "Withdrawing", "the plugin still tells of the pod"
    assert not made.in_service("n1")
    made.now += 301
    made.settle()

    assert made.phase() == "Deferred"
    assert (made.work() or {})["reason"] == "CardsNotWithdrawn"
    assert made.in_service("n1")
    assert made.label() == before


@pytest.mark.parametrize("phase", ["Withdrawing", "Clearing"])
@pytest.mark.parametrize("how", ["paused", "cordoned", "deleted", "another version", "the former version", "disabled"])
def test_a_node_that_still_has_its_driver_is_given_back(made: Rolling, phase: str, how: str) -> None:
    before = made.label()
    made.clients_stay.add("n1")
    made.take()
    until(made, phase)
    made.now += 60
    match how:
        case "paused":
            made.merge("GPUDriver", "main", {"spec": {"rollout": {"paused": True}}})
        case "cordoned":
            made.merge("Node", "n1", {"spec": {"unschedulable": True}})
        case "deleted":
            made.delete_driver()
        case "another version":
            made.merge("GPUDriver", "main", {"spec": {"version": "595.91.07"}})
        case "the former version":
            made.merge("GPUDriver", "main", {"spec": {"version": VERSION}})
        case "disabled":
            made.enabled = False
    made.settle()

    assert made.phase() is None
    assert made.label() == before
    assert made.in_service("n1")


def test_a_paused_driver_lets_a_node_finish_that_has_lost_its_driver(made: Rolling) -> None:
    made.take()
    until(made, "Removing")
    made.merge("GPUDriver", "main", {"spec": {"rollout": {"paused": True}}})
    made.settle()

    assert made.phase() == "Soaking"
    assert version(made) == NEXT


def test_clients_that_do_not_leave_have_the_node_given_back(made: Rolling) -> None:
    made.clients_stay.add("n1")
    made.take()
    made.settle()
    assert made.phase() == "Clearing"
    made.now += 301
    made.settle()

    work = made.work() or {}
    assert (made.phase(), work["reason"], "MPS" in work["message"]) == ("Deferred", "ClientsRemain", False)


def test_daemons_of_mps_that_hold_the_driver_open_are_named(made: Rolling) -> None:
    made.card("n1", {"mps": {"pool": "a", "phase": "Stopping", "running": True}})
    made.clients_stay.add("n1")
    made.take()
    made.settle()
    made.now += 301
    made.settle()
    assert "MPS control daemons run on 1 of its cards" in (made.work() or {})["message"]


def test_whoever_holds_the_driver_open_is_named_and_the_node_given_back(made: Rolling) -> None:
    made.looks["n1"] = held_by("Xorg")
    before = made.label()
    made.take()
    made.settle()
    assert made.phase() == "Clearing"
    made.now += 301
    made.settle()

    work = made.work() or {}
    assert (work["phase"], work["reason"]) == ("Deferred", "DevicesHeld")
    assert "Xorg" in work["message"]
    assert made.label() == before
    assert made.in_service("n1")
    assert made.checks() == []


def test_the_look_is_taken_again_and_the_node_goes_on(made: Rolling) -> None:
    made.looks["n1"] = held_by("Xorg")
    made.take()
    made.settle()
    assert made.phase() == "Clearing"
    made.looks["n1"] = LOOK
    made.now += 2.1  # the module's own pods need a moment
    made.settle()

    assert made.phase() == "Soaking"


def test_who_holds_the_driver_open_for_long_is_looked_at_less_and_less_often(made: Rolling) -> None:
    made.looks["n1"] = held_by("Xorg")
    made.take()
    began, looks = made.now, set[float]()
    while made.now < began + 4 * 60:
        made.settle()
        assert made.phase() == "Clearing"
        (check,) = made.checks()
        looks.add(seconds(made.objects["Pod", check]["metadata"]["creationTimestamp"]) - began)
        made.now += 1.0

    assert sorted(looks)[:5] == [0, 2, 4, 8, 16]
    assert {later - earlier for earlier, later in pairwise(sorted(looks)[4:])} == {15}


def test_a_driver_that_fails_is_undone_and_the_revision_is_bad(made: Rolling) -> None:
    before = made.label()
    made.breaks[NEXT] = BAD
    made.take()
    made.settle()

    assert made.phase() == "RolledBack"
    assert made.label() == before
    assert version(made) == VERSION
    assert made.in_service("n1")
    assert made.last() == "RolledBack"
    assert made.told("Halted") == ("True", "ModuleLoad")
    assert made.status()["revisions"][0]["result"] == "Bad"
    work = made.work() or {}
    assert (work["reason"], work["fault"]) == ("ModuleLoad", "Revision")
    made.now += 7200
    made.settle()
    assert made.phase() == "RolledBack", "it is not tried again by itself"


@pytest.mark.parametrize("how", ["resumed", "another version"])
def test_a_node_that_was_rolled_back_is_free_for_what_is_new(made: Rolling, how: str) -> None:
    made.breaks[NEXT] = BAD
    made.take()
    made.settle()
    made.now += 60
    if how == "resumed":
        made.merge("GPUDriver", "main", {"metadata": {"annotations": {names.RESUME: "true"}}})
    else:
        made.merge("GPUDriver", "main", {"spec": {"version": "595.91.07"}})
    made.settle()

    assert made.phase() is None
    assert made.told("Halted")[0] == "False"


def test_without_a_roll_back_the_node_stays_failed(made: Rolling) -> None:
    made.merge("GPUDriver", "main", {"spec": {"rollout": {"rollback": "None"}}})
    made.breaks[NEXT] = BAD
    made.take()
    made.settle()

    assert (made.phase(), made.last()) == ("Failed", "Failed")
    assert not made.in_service("n1")


def test_a_former_driver_that_fails_too_leaves_the_node_broken_until_a_person_asks(made: Rolling) -> None:
    made.breaks["n1"] = BAD
    made.take()
    made.settle()
    assert (made.phase(), (made.work() or {})["reason"]) == ("Broken", "RollbackFailed")
    made.breaks.clear()
    made.breaks["n1"] = "hangs"
    made.settle()
    assert made.phase() == "Broken"
    made.breaks.clear()
    made.merge("Node", "n1", {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
    made.settle()

    assert made.phase() == "RolledBack"
    assert version(made) == VERSION
    assert names.DRIVER_RETRY not in made.objects["Node", "n1"]["metadata"]["annotations"]


def test_what_cards_cost_out_of_service_is_counted(made: Rolling) -> None:
    made.take()
    until(made, "Clearing")
    made.now += 100
    made.settle()

    assert (made.work() or {})["gpuSeconds"] == 100


def test_a_process_that_dies_after_any_write_comes_to_the_same_end(made: Rolling) -> None:
    made.take()
    for _ in range(200):
        if made.phase() == "Soaking":
            break
        for key in made.all_keys():
            made.reconcile(*key, stop_after=1)
        made.outside()
    made.settle()

    assert made.phase() == "Soaking"
    assert version(made) == NEXT


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"lostSince": "2026-01-02T00:00:00Z"}, "CardsLost"),
        ({"fault": "CriticalXid"}, "Xid"),
        ({"fault": "DoubleBitEcc"}, "CardFaulted"),
    ],
)
def test_a_card_that_fails_while_the_node_soaks_has_the_driver_undone_once_pods_have_ended(
    made: Rolling, status: dict[str, Any], reason: str
) -> None:
    made.take()
    made.settle()
    label = made.label()
    made.users.add("n1")
    made.settle()
    made.card("n1", status)
    made.settle()

    work = made.work() or {}
    assert (work["phase"], work["reason"], work["to"]) == ("Queued", reason, work["from"].replace(*revisions(made)))
    assert made.last() == "Failed"
    assert made.told("Halted") == ("True", reason)
    assert made.label() == label, "pods compute with the driver"
    made.users.clear()
    made.take()
    made.settle()
    assert (made.phase(), made.last()) == ("RolledBack", "RolledBack")
    assert version(made) == VERSION


def revisions(made: Rolling) -> tuple[str, str]:
    """The revision that is wanted, and the one before it."""
    now, before = made.status()["revisions"][:2]
    return now["hash"], before["hash"]


def test_a_card_that_was_faulty_before_does_not_speak_against_the_driver(made: Rolling) -> None:
    made.card("n1", {"fault": "CriticalXid"})
    made.take()
    made.settle()

    assert made.phase() == "Soaking"


def test_a_node_waits_for_the_layouts_of_its_cards_and_comes_back_without_one_that_does_not_come(made: Rolling) -> None:
    made.card("n1", {"offer": "AwaitingLayout"})
    made.take()
    made.settle()
    assert made.phase() == "Relayout"
    assert made.in_service("n1")
    made.now += 601
    made.settle()

    assert made.phase() == "Soaking"


def two(made: Rolling) -> None:
    """Another node of the kind, with the former version, that waits for its turn like the first."""
    made.merge("GPUDriver", "main", {"spec": {"version": VERSION}})
    made.node("n2")
    made.settle()
    made.write("n1", None)
    retarget(made, NEXT)
    for name in ("n1", "n2"):
        made.begin(name)
    made.settle()
    assert [made.phase(name) for name in ("n1", "n2")] == ["Queued"] * 2


def test_a_canary_that_serves_after_another_has_failed_proves_nothing(made: Rolling) -> None:
    two(made)
    made.breaks["n1"] = BAD
    for name in ("n1", "n2"):
        made.take(name)
    made.settle()
    made.users.add("n2")
    made.settle()
    made.now += 61
    made.settle()

    assert made.last("n2") == "Good"
    assert made.told("Halted")[0] == "True"
    assert made.status()["revisions"][0]["result"] == "Bad"
    made.drop_node("n1")
    made.settle()
    assert made.status()["revisions"][0]["result"] == "Bad", "nor is it forgotten with the node"


def fail_in_service(made: Rolling) -> None:
    made.take()
    made.settle()
    made.users.add("n1")
    made.settle()
    made.card("n1", {"fault": "CriticalXid"})
    made.settle()
    assert (made.phase(), (made.work() or {})["undoes"]) == ("Queued", revisions(made)[0])


def test_a_roll_back_that_pods_kept_is_tried_again(made: Rolling) -> None:
    fail_in_service(made)
    made.take()
    made.settle()
    made.now += DRAIN + 1
    made.settle()
    assert made.phase() == "Deferred"
    made.now += 30 * 60 + 1
    made.settle()
    assert (made.phase(), (made.work() or {})["attempt"]) == ("Queued", 2)
    made.users.clear()
    made.take()
    made.settle()
    assert made.phase() == "RolledBack"


def test_a_resume_while_the_node_goes_back_ends_that(made: Rolling) -> None:
    fail_in_service(made)
    made.now += 30
    made.merge("GPUDriver", "main", {"metadata": {"annotations": {names.RESUME: "true"}}})
    made.card("n1", {"fault": None})
    made.settle()

    assert made.phase() == "Soaking", "it has shown nothing good yet"
    assert made.told("Halted")[0] == "False"
    made.now += 61
    made.settle()
    assert (made.phase(), made.last()) == (None, "Good")


def test_a_resume_before_the_former_driver_is_back_is_not_lost(made: Rolling) -> None:
    made.breaks[NEXT] = BAD
    made.take()
    for _ in range(60):
        if (work := made.work()) is not None and work.get("undoes") and work["phase"] == "Installing":
            break
        made.reconcile("GPUNodeInventory", "n1")
        made.reconcile("GPUDriver", "main")
        made.outside()
    made.now += 30
    made.merge("GPUDriver", "main", {"metadata": {"annotations": {names.RESUME: "true"}}})
    made.now += 30
    made.settle()

    assert made.phase() is None
    assert made.told("Halted")[0] == "False"


def test_a_failed_node_of_a_roll_out_that_comes_to_itself_soaks(made: Rolling) -> None:
    made.merge("GPUDriver", "main", {"spec": {"rollout": {"rollback": "None"}}})
    made.breaks[NEXT] = BAD
    made.take()
    made.settle()
    assert made.phase() == "Failed"
    made.breaks.clear()
    made.settle()

    assert made.phase() == "Soaking"


def test_a_machine_that_dies_amid_its_soak_is_not_waited_for_without_end(made: Rolling) -> None:
    made.take()
    made.settle()
    made.merge("Node", "n1", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    made.silence("n1")
    made.settle()
    made.now += 3000
    made.settle()
    assert made.phase() == "Soaking"
    made.now += 700
    made.settle()

    assert made.phase() is None
    assert made.status()["revisions"][0]["result"] == "Unproved"


def test_a_driver_that_does_not_serve_any_more_amid_its_soak_is_undone_after_an_hour(made: Rolling) -> None:
    """The node was started anew, and the driver's pod does not become ready, for a reason that nobody tells."""
    made.take()
    made.settle()
    assert made.phase() == "Soaking"
    made.reboot("n1", "boot-2")
    made.silence("n1")
    made.card("n1", {"published": None})
    made.settle()
    made.now += 3000
    made.settle()
    assert made.phase() == "Soaking"
    made.now += 700
    with made.edit("Node", "n1") as node:
        node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(made.now)}]
    made.settle()
    assert made.phase() == "Soaking", "a machine that has just come back loads its driver, or compiles it"
    made.now += 1801
    made.reconcile("GPUNodeInventory", "n1")
    assert (made.last(), made.phase(), (made.work() or {})["reason"]) == ("Failed", "Removing", "DriverPodFailed")
    made.silent.clear()
    made.settle()

    assert (made.phase(), version(made)) == ("RolledBack", VERSION)


def test_a_node_that_is_due_and_may_not_start_is_not_looked_at_over_and_over(made: Rolling) -> None:
    made.clients_stay.add("n1")
    made.take()
    made.settle()
    made.now += 301
    made.settle()
    made.now += 30 * 60 + 1

    assert made.phase() == "Deferred"
    assert made.of_node("n1").plan.requeue_after is None


def test_a_controller_that_was_away_takes_no_driver_on_a_limit_that_has_passed(made: Rolling) -> None:
    before = made.label()
    made.take()
    until(made, "Clearing")
    made.outside()
    for _ in range(20):
        made.reconcile("GPUNodeInventory", "n1", stop_after=1)
        if made.phase() == "Removing":
            break
        made.outside()
    assert (made.phase(), made.label()) == ("Removing", before)
    made.now += 3600
    made.settle()

    assert (made.phase(), made.label()) == (None, before)


def test_a_look_from_before_the_phase_does_not_count(made: Rolling) -> None:
    made.clients_stay.add("n1")
    made.take()
    until(made, "Clearing")
    made.clients_stay.clear()
    made.outside()
    made.reconcile("GPUNodeInventory", "n1")
    (check,) = made.checks()
    with made.edit("Pod", check) as pod:
        pod["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    made.outside()
    made.reconcile("GPUNodeInventory", "n1")

    assert made.phase() == "Clearing"
    assert made.checks() == []
