"""A node that a person wants by annotation: its clients of the driver leave, it is theirs, and it comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.api import names
from controllers.api.driver_look import Holder
from controllers.domain.driver.node_work import work_on
from controllers.driver.node.work import step
from tests.driver.rolling import Rolling
from tests.driver.test_rolling import retarget, until, version
from tests.driver.world import LOOK, NEXT, VERSION

WHO = "kernel-update"


def asks(made: Rolling, who: str | None = WHO) -> None:
    """A person, or a program of theirs, wants the node, or no longer does."""
    made.merge("Node", "n1", {"metadata": {"annotations": {names.HAND_OVER: who}}})


def begin(made: Rolling) -> None:
    """The roll-out gives the node its place."""
    seen = made.view().node("n1")
    assert seen.node is not None
    label = seen.node.metadata.labels.get(names.DRIVER_VARIANT)
    work = step(seen.work, "Queued", made.now, driver="main", node=seen.node, to=label)
    made.write("n1", replace(work, hand_over=seen.node.metadata.annotations[names.HAND_OVER]))


@pytest.fixture
def made() -> Rolling:
    """A node with a driver of the module's, which is somebody's turn to have."""
    cluster = Rolling()
    cluster.node()
    cluster.driver()
    cluster.settle()
    asks(cluster)
    begin(cluster)
    cluster.settle()
    assert cluster.phase() == "Queued"
    assert cluster.in_service("n1")
    return cluster


def handed_over(made: Rolling) -> Rolling:
    """It is theirs."""
    made.take()
    made.settle()
    assert made.phase() == "HandedOver"
    return made


def host() -> Rolling:
    """A node that has the host's own driver, which a GPUDriver leaves there."""
    made = Rolling()
    made.node()
    made.driver(mode="Host")
    made.report("n1", driver=VERSION, driver_source="host")
    made.host = True
    made.settle()
    return made


def test_a_driver_of_mode_host_has_a_finalizer_from_when_a_node_is_under_way_for_it() -> None:
    made = host()
    assert not made.objects["GPUDriver", "main"]["metadata"].get("finalizers")
    asks(made)
    begin(made)
    handed_over(made)
    made.host = False  # it does not load
    asks(made, None)
    made.settle()
    assert made.phase() == "Validating"
    assert made.objects["GPUDriver", "main"]["metadata"]["finalizers"] == [names.FINALIZER_DRIVER]
    made.delete_driver()
    made.settle()
    assert ("GPUDriver", "main") in made.objects
    made.host = True
    made.settle()
    assert ("GPUDriver", "main") not in made.objects


def test_a_driver_that_leaves_mode_host_has_a_finalizer() -> None:
    made = host()
    made.merge("GPUDriver", "main", {"spec": {"mode": "Auto"}})
    made.settle()
    assert made.objects["GPUDriver", "main"]["metadata"]["finalizers"] == [names.FINALIZER_DRIVER]


def test_a_node_is_handed_over_with_its_driver_and_without_clients_of_it(made: Rolling) -> None:
    before = made.label()
    handed_over(made)

    assert not made.in_service("n1")
    labels = made.objects["Node", "n1"]["metadata"]["labels"]
    assert not [key for key in labels if key.startswith(names.pool_node_label(""))]
    assert (made.label(), version(made)) == (before, VERSION)
    assert (made.work() or {})["handOver"] == WHO
    assert made.checks() == []
    made.now += 30 * 86_400
    made.settle()
    assert made.phase() == "HandedOver", "a person decides how long it lasts"


def test_it_comes_back_when_nobody_wants_it_any_more(made: Rolling) -> None:
    handed_over(made)
    last = made.objects["GPUNodeInventory", "n1"]["status"]["lastDriverWork"]
    asks(made, None)
    made.settle()

    assert made.phase() is None
    assert made.in_service("n1")
    assert made.objects["GPUNodeInventory", "n1"]["status"]["lastDriverWork"] == last, "it says nothing of the revision"


def test_it_waits_for_pods_and_for_processes_of_pods_but_not_for_those_of_the_host(made: Rolling) -> None:
    made.looks["n1"] = replace(LOOK, holders=(Holder(pid=7, command="python", pod_uid="p"),))
    made.users.add("n1")
    made.take()
    made.settle()
    assert made.phase() == "Withdrawing"
    made.users.clear()
    made.settle()
    assert made.phase() == "Clearing"
    made.looks["n1"] = replace(LOOK, holders=(Holder(pid=7, command="nvidia-persistenced"),))
    made.now += 20
    made.settle()

    assert made.phase() == "HandedOver"


def test_clients_that_stay_have_it_given_back_for_now(made: Rolling) -> None:
    made.clients_stay.add("n1")
    made.take()
    made.settle()
    made.now += 301
    made.settle()

    assert (made.phase(), (made.work() or {})["reason"]) == ("Deferred", "ClientsRemain")
    assert made.in_service("n1")


@pytest.mark.parametrize("phase", ["Queued", "Withdrawing", "Clearing"])
def test_a_wish_that_is_taken_back_gives_the_node_back(made: Rolling, phase: str) -> None:
    made.clients_stay.add("n1")
    if phase != "Queued":
        made.take()
    until(made, phase)
    asks(made, None)
    made.settle()

    assert made.phase() is None
    assert made.in_service("n1")


def test_a_cordon_belongs_to_it(made: Rolling) -> None:
    made.merge("Node", "n1", {"spec": {"unschedulable": True}})
    handed_over(made)


def test_another_who_wants_it_is_told(made: Rolling) -> None:
    handed_over(made)
    asks(made, "ansible")
    made.settle()

    assert (made.phase(), (made.work() or {})["handOver"]) == ("HandedOver", "ansible")


@pytest.mark.parametrize("how", ["deleted", "disabled", "another version"])
def test_whatever_becomes_of_its_driver_it_is_theirs_until_they_are_through(made: Rolling, how: str) -> None:
    handed_over(made)
    match how:
        case "deleted":
            made.delete_driver()
        case "disabled":
            made.enabled = False
        case _:
            retarget(made, NEXT)
    made.settle()
    assert made.phase() == "HandedOver"
    asks(made, None)
    made.settle()

    assert made.phase() is None
    assert version(made) == VERSION


def test_a_node_that_does_not_come_back_is_left_to_its_own_checks(made: Rolling) -> None:
    handed_over(made)
    made.unfit.add(VERSION)
    asks(made, None)
    made.settle()
    assert made.phase() == "Validating"
    made.now += 45 * 60 + 1
    made.settle()

    assert made.phase() is None
    assert not made.in_service("n1")


def test_a_node_that_is_wanted_again_before_it_is_back_goes_at_once(made: Rolling) -> None:
    handed_over(made)
    made.unfit.add(VERSION)
    asks(made, None)
    made.settle()
    asks(made)
    made.settle()

    assert made.phase() == "HandedOver"


def test_with_another_kernel_it_gets_a_driver_like_a_bare_node(made: Rolling) -> None:
    handed_over(made)
    with made.edit("Node", "n1") as node:
        node["status"]["nodeInfo"]["kernelVersion"] = "6.8.0-99-generic"
        node["metadata"]["labels"][names.DRIVER_VARIANT] = f"{made.label()}".replace("-any", "-12345678")
    made.settle()
    assert made.phase() == "HandedOver"
    asks(made, None)
    made.settle()

    assert made.phase() is None
    assert (made.label() or "").endswith("-any")


def test_a_bare_node_gets_no_driver_while_somebody_wants_it() -> None:
    made = Rolling()
    made.node()
    asks(made)
    made.driver()
    made.settle()
    assert made.phase() is None
    asks(made, None)
    made.settle()

    assert version(made) == VERSION


def test_a_roll_gives_way_to_a_person(made: Rolling) -> None:
    asks(made, None)
    made.settle()
    retarget(made, NEXT)
    made.begin()
    made.settle()
    made.clients_stay.add("n1")
    made.take()
    until(made, "Clearing")
    asks(made)
    made.settle()

    assert made.phase() is None
    assert made.in_service("n1")


def test_whoever_has_the_node_keeps_the_modules_clients_off_it_without_end(made: Rolling) -> None:
    handed_over(made)
    seen = made.view().node("n1")
    assert seen.node is not None
    found = work_on(seen.work, seen.node, made.now + 1e9)

    assert (found.is_out, found.is_closed, found.is_planned) == (True, True, True)


def test_a_process_that_dies_after_any_write_hands_it_over_too(made: Rolling) -> None:
    made.take()
    for _ in range(100):
        if made.phase() == "HandedOver":
            break
        made.reconcile("GPUNodeInventory", "n1", stop_after=1)
        made.outside()

    assert made.phase() == "HandedOver"


def test_the_hosts_own_driver_is_handed_over_too() -> None:
    made = host()
    assert made.in_service("n1")
    asks(made)
    begin(made)
    handed_over(made)
    assert made.label() is None
    asks(made, None)
    made.settle()

    assert made.phase() is None
    assert made.in_service("n1")
