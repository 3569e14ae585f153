"""Soaks that are broken off prove nothing: no wave is begun on them, and they are begun anew."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.driver_work import DriverWork, LastDriverWork
from controllers.api.record import adapter
from controllers.domain.clock import stamp
from controllers.domain.driver.variant import revision_of
from controllers.driver.node.work import finished
from tests.driver.rollout.cluster import RolledOut
from tests.driver.rollout.test_rollout import passing
from tests.driver.world import NEXT, VERSION

ROLLBACK = {"rollback": "Wave", "waveSoak": "1h", "maxFailures": {"nodes": 0, "percent": 0}}


@pytest.fixture
def six() -> RolledOut:
    """Six nodes of one kind, and a canary that has just come back with the next version, and soaks for a minute."""
    made = RolledOut()
    made.fleet(6, waves=[50, 100], maxUnavailable={"nodes": "2", "perPool": "100%"})
    made.retarget(NEXT)
    made.settle()
    assert with_next(made) == ["n0"]
    assert made.phase("n0") == "Soaking"
    return made


def with_next(made: RolledOut) -> list[str]:
    return [name for name in made.nodes() if made.version(name) == NEXT]


def last(made: RolledOut, node: str = "n0") -> dict[str, Any]:
    found: dict[str, Any] = made.objects["GPUNodeInventory", node]["status"]["lastDriverWork"]
    return found


def want(made: RolledOut, version: str) -> None:
    made.merge("GPUDriver", "main", {"spec": {"version": version}})


def test_a_version_that_is_named_again_soaks_again_before_any_other_node_gets_it(six: RolledOut) -> None:
    want(six, VERSION)
    six.reconcile("GPUNodeInventory", "n0")
    assert (six.phase("n0"), last(six)["result"]) == (None, "Unproved")
    want(six, NEXT)
    assert six.rollout().waiting["n1"] == "AwaitingProof", "nor before that"
    six.settle()

    assert six.phase("n0") == "Soaking"
    assert with_next(six) == ["n0"]
    assert six.rollout().waiting["n1"] == "AwaitingProof"
    six.now += 61
    six.settle()
    assert last(six)["result"] == "Good"
    passing(six)
    assert with_next(six) == six.nodes()


def test_a_soak_that_was_broken_off_counts_what_it_has_cost(six: RolledOut) -> None:
    spent = (six.work("n0") or {}).get("gpuSeconds", 0)
    want(six, VERSION)
    six.reconcile("GPUNodeInventory", "n0")

    assert last(six).get("gpuSeconds", 0) == spent


def test_a_machine_that_comes_back_after_an_hour_soaks_again(six: RolledOut) -> None:
    six.merge("Node", "n0", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    six.silence("n0")
    six.settle()
    six.now += 3700
    six.merge("GPUDriver", "main", {"metadata": {"annotations": {names.PAUSE: stamp(six.now + 86_400)}}})
    six.settle()
    assert (six.phase("n0"), last(six)["result"]) == (None, "Unproved")
    driver = six.view().driver("main")
    assert driver is not None
    assert driver.evidence == (), "it says neither that the revision is good nor that it is bad"
    six.silent.clear()
    six.merge("Node", "n0", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    six.settle()

    assert six.phase("n0") == "Soaking"
    six.merge("GPUDriver", "main", {"metadata": {"annotations": {names.PAUSE: None}}})
    six.settle()
    assert with_next(six) == ["n0"]


def test_a_node_that_goes_back_for_others_and_is_resumed_soaks_again(six: RolledOut) -> None:
    """Roll back of the whole wave: one of two fails, the other one had just come back."""
    six.merge("GPUDriver", "main", {"spec": {"rollout": ROLLBACK}})
    six.now += 61
    six.settle()
    wave = [name for name in with_next(six) if name != "n0"]
    assert len(wave) == 2
    six.merge("GPUDriver", "main", {"spec": {"rollout": {"maxUnavailable": {"nodes": "1"}}}})
    six.users.add(wave[0])  # it goes first, and holds the other one up
    six.outside()
    six.card(wave[0], {"fault": "CriticalXid"})
    six.settle()
    six.card(wave[0], {"fault": None})
    assert (six.work(wave[1]) or {}).get("undoes")
    assert last(six, wave[1])["result"] == "Unproved"
    six.now += 30
    six.merge("GPUDriver", "main", {"metadata": {"annotations": {names.RESUME: "true"}}})
    six.settle()

    assert six.version(wave[1]) == NEXT
    assert six.phase(wave[1]) == "Soaking"


def test_a_failure_of_one_nodes_own_is_tried_again_in_its_time_though_nobody_waits() -> None:
    made = RolledOut()
    made.fleet(2, waves=[100])
    made.retarget(NEXT)
    made.settle()
    made.breaks[NEXT] = (30, '{"result":"Refused","reason":"DiskFull","message":"no room"}')
    made.now += 61
    made.settle()
    assert (made.phase("n0"), made.phase("n1")) == (None, "RolledBack")
    plan = made.rollout()

    assert plan.waiting == {}
    assert plan.plan.requeue_after is not None
    assert 0 < plan.plan.requeue_after <= 1800
    made.breaks.clear()
    made.now += plan.plan.requeue_after
    made.settle()
    assert with_next(made) == ["n0", "n1"]


def test_a_node_that_went_back_and_starts_with_another_kernel_gets_a_driver_for_that(six: RolledOut) -> None:
    six.breaks[NEXT] = (1, "modprobe: ERROR: could not insert 'nvidia': the kernel refuses it")
    six.card("n0", {"fault": "CriticalXid"})
    six.settle()
    assert six.phase("n0") == "RolledBack"
    six.merge("Node", "n0", {"metadata": {"labels": {names.DRIVER_VARIANT: None}}})
    six.settle()

    assert six.in_service("n0")
    assert six.version("n0") == VERSION


def test_a_canary_that_went_back_from_yet_another_version_soaks_again(six: RolledOut) -> None:
    third = "595.91.07"
    want(six, third)
    six.breaks[third] = (1, "modprobe: ERROR: could not insert 'nvidia': the kernel refuses it")
    for _ in range(10):
        six.settle()
        six.now += 61
    assert (last(six)["result"], six.phase("n0"), with_next(six)) == ("RolledBack", "RolledBack", ["n0"])
    want(six, NEXT)
    six.reconcile("GPUNodeInventory", "n0")
    assert (six.phase("n0"), six.rollout().waiting["n1"]) == (None, "AwaitingProof")
    six.settle()
    served = [name for name in with_next(six) if six.phase(name) != "Soaking"]

    assert served == [], "nobody has shown that it is good"
    passing(six)
    assert with_next(six) == six.nodes()


@pytest.mark.parametrize(("key", "on"), [(names.RESUME, ("GPUDriver", "main")), (names.DRIVER_RETRY, ("Node", "n0"))])
def test_a_canary_that_failed_in_service_without_a_way_back_soaks_again_where_a_person_asks(
    six: RolledOut, key: str, on: tuple[str, str]
) -> None:
    six.merge("GPUDriver", "main", {"spec": {"rollout": {"rollback": "None"}}})
    six.card("n0", {"fault": "CriticalXid"})
    six.settle()
    assert (six.phase("n0"), last(six)["result"]) == (None, "Failed")
    six.card("n0", {"fault": None})
    six.now += 30
    six.merge(*on, {"metadata": {"annotations": {key: "true"}}})
    six.settle()

    assert six.phase("n0") == "Soaking"
    assert with_next(six) == ["n0"]
    assert key not in six.objects[on]["metadata"]["annotations"]


def test_a_card_that_fails_in_the_second_soak_speaks_against_the_version(six: RolledOut) -> None:
    want(six, VERSION)
    six.reconcile("GPUNodeInventory", "n0")
    want(six, NEXT)
    six.settle()
    six.card("n0", {"fault": "CriticalXid"})
    six.settle()

    assert six.told("Halted") == ("True", "Xid")
    assert six.version("n1") == VERSION


def test_a_node_whose_label_is_for_another_kernel_is_not_watched_anew_over_and_over(six: RolledOut) -> None:
    six.merge("GPUDriver", "main", {"spec": {"mode": "Precompiled", "version": "580"}})
    six.now += 60
    for _ in range(12):
        six.settle()
        six.now += 61
    assert six.phase("n0") is None
    with six.edit("GPUNodeInventory", "n0") as inventory:
        inventory["status"]["lastDriverWork"]["result"] = "Unproved"
    with six.edit("Node", "n0") as node:
        node["status"]["nodeInfo"]["kernelVersion"] = "6.8.0-90-generic"
    six.report("n0", driver=six.version("n0"), kernel="6.8.0-90-generic")
    writes = six.writes
    for _ in range(3):
        six.reconcile("GPUNodeInventory", "n0")

    assert six.writes == writes
    assert six.rollout().progress[six.view().node("n1").stratum].soaked == 5


def test_a_canary_that_comes_back_after_others_have_proved_the_version_holds_no_wave_for_a_day(six: RolledOut) -> None:
    six.merge("GPUDriver", "main", {"spec": {"rollout": {"canary": {"evidence": "Use"}}}})
    six.users.add("n0")
    six.settle()
    six.now += 61
    six.settle()
    assert last(six)["result"] == "Good"
    with six.edit("GPUNodeInventory", "n0") as inventory:
        inventory["status"]["lastDriverWork"]["result"] = "Unproved"
    six.reconcile("GPUNodeInventory", "n0")

    assert ((six.work("n0") or {})["phase"], (six.work("n0") or {})["wave"]) == ("Soaking", 1)
    passing(six)
    assert with_next(six) == six.nodes()


@pytest.mark.parametrize(
    ("before", "result"),
    [
        (None, "Good"),
        ({"result": "Unproved", "wave": 0}, "Unproved"),
        ({"result": "Failed", "wave": 2}, "Unproved"),
        ({"result": "Failed"}, "Good"),
        ({"result": "Good", "wave": 0}, "Good"),
        ({"result": "Unproved", "wave": 0, "revision": "another"}, "Good"),
    ],
)
def test_a_node_of_a_roll_out_that_is_begun_anew_as_a_bare_one_has_yet_to_soak(
    six: RolledOut, before: dict[str, Any] | None, result: str
) -> None:
    work = adapter(DriverWork).validate_python(six.work("n0"))
    told = {"driver": "main", "revision": revision_of(work.to or ""), "at": stamp(six.now), "took": 1}
    known = adapter(LastDriverWork).validate_python({**told, **before}) if before is not None else None
    made = finished(work, known, six.now)

    assert made.result == result
    assert result == "Good" or made.wave == (before or {})["wave"]
