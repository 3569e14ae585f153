"""A node is compared with what it was before its driver was changed, and fails by what has come since."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, validation
from controllers.domain.clock import stamp
from controllers.driver.node.health import is_as_asked, verdict, verdict_in
from tests.driver.rolling import Rolling
from tests.driver.test_rolling import retarget, until, version
from tests.driver.world import NEXT, VERSION
from tests.kit import conditions, objects


@pytest.fixture
def made() -> Rolling:
    """A node whose driver is being replaced by the next version."""
    cluster = Rolling()
    cluster.node()
    cluster.driver()
    cluster.settle()
    retarget(cluster, NEXT)
    cluster.begin()
    cluster.settle()
    cluster.take()
    return cluster


def says(made: Rolling, role: str, result: str, **told: str) -> None:
    """A validator's verdict of the driver that runs, as the node's report has it."""
    name = f"{names.NAMESPACE}/{names.agent_feature('n1')}"
    with made.edit("NodeFeature", name) as report:
        attributes = report["spec"]["features"]["attributes"]
        loaded = attributes.get(names.FEATURE_DRIVER, {"elements": {}})["elements"].get("version", "")
        elements = {validation.key(role, key): value for key, value in ({"version": loaded} | told).items()}
        attributes.setdefault(names.FEATURE_VALIDATION, {"elements": {}})["elements"] |= {role: result} | elements


def driver_tells(made: Rolling, **elements: str) -> None:
    """More of what the agent says of the driver."""
    with made.edit("NodeFeature", f"{names.NAMESPACE}/{names.agent_feature('n1')}") as report:
        report["spec"]["features"]["attributes"][names.FEATURE_DRIVER]["elements"] |= elements


def leaves_service(made: Rolling, stage: str) -> None:
    """Bootstrap takes the node out of service."""
    with made.edit("GPUNodeInventory", "n1") as inventory:
        conditions.put(inventory, objects.condition("ReadyForPooling", False))
        inventory["status"]["bootstrap"] = {"stage": stage, "lastRun": stamp(made.now)}


def finding(made: Rolling) -> tuple[str | None, str | None] | None:
    """What speaks against the node's driver now."""
    found = verdict(made.view().node("n1"), made.now)
    return (found.reason, found.fault) if found is not None else None


@pytest.mark.parametrize(
    ("role", "word", "reason"),
    [
        ("container", "CudaError802", "FabricMismatch"),
        ("container", "FabricIncomplete", "FabricMismatch"),
        ("container", "CudaError803", "CudaFailed"),
        ("container", "CardNotInCuda", "CudaFailed"),
        ("driver", "CardNotStarted", "CardsLost"),
        ("driver", "FirmwareMissing", "ModuleLoad"),
    ],
)
def test_what_a_validator_finds_for_good_undoes_the_driver_without_waiting_for_the_limit(
    made: Rolling, role: str, word: str, reason: str
) -> None:
    made.unfit.add(NEXT)
    until(made, "Validating")
    before = made.now
    says(made, role, validation.FAILED, reason=word, message=f"it says {word}")
    made.settle()

    work = made.work() or {}
    assert (work["phase"], work["reason"], work["fault"]) == ("RolledBack", reason, "Revision")
    assert word in work["message"]
    assert made.now == before
    assert version(made) == VERSION
    assert made.told("Halted") == ("True", reason)


@pytest.mark.parametrize("word", ["AwaitingFabric", "DeviceStale", "BusNotVisible", "CDIStale"])
def test_what_may_pass_is_waited_for(made: Rolling, word: str) -> None:
    made.unfit.add(NEXT)
    until(made, "Validating")
    says(made, "container", validation.FAILED, reason=word, message="m")

    assert finding(made) is None


@pytest.mark.parametrize("what", ["another version", "another boot", "another loading", "no failure"])
def test_a_verdict_that_is_not_of_this_driver_says_nothing(made: Rolling, what: str) -> None:
    made.unfit.add(NEXT)
    until(made, "Validating")
    driver_tells(made, load="7")
    told = {"reason": "CudaFailed", "message": "m", "load": "7"}
    says(made, "container", validation.FAILED, **told)
    assert finding(made) == ("CudaFailed", "revision")
    other = {
        "another version": {"version": VERSION},
        "another boot": {"boot_id": "x"},
        "another loading": {"load": "6"},
    }
    result = validation.OK if what == "no failure" else validation.FAILED
    says(made, "container", result, **told | other.get(what, {}))

    assert finding(made) is None


def test_a_first_driver_fails_by_its_validator_too() -> None:
    made = Rolling()
    made.unfit.add(VERSION)
    made.node()
    made.driver()
    until(made, "Validating")
    says(made, "container", validation.FAILED, reason="CudaError802", message="m")
    made.settle()

    assert (made.phase(), (made.work() or {})["reason"]) == ("Failed", "FabricMismatch")


def test_of_a_card_that_fails_alone_the_validator_tells_how(made: Rolling) -> None:
    made.settle()
    assert made.phase() == "Soaking"
    address = made.view().node("n1").devices[0].status.hardware.pci.address  # type: ignore[union-attr]
    made.card("n1", {"fault": "ValidationFailed"})
    assert finding(made) == ("CardFaulted", "revision")
    says(made, "container", validation.OK, reason="CudaError803", message="m", cards_failed=address)

    assert finding(made) == ("CudaFailed", "revision")


def test_a_node_whose_exporter_is_silent_for_five_minutes_fails(made: Rolling) -> None:
    made.settle()
    assert made.phase() == "Soaking"
    leaves_service(made, "Monitoring")
    seen = made.view().node("n1")
    assert (verdict(seen, made.now), verdict_in(seen, made.now)) == (None, 300.0)
    assert made.planned("GPUNodeInventory", "n1").requeue_after == 300.0
    made.now += 300

    assert finding(made) == ("MonitoringSilent", "revision")


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("Node", None),
        ("Agent", None),
        ("DriverWork", None),
        ("ContainerCheck", ("ValidationTimeout", "revision")),
        ("Component", ("ValidationTimeout", "node")),
    ],
)
def test_whose_doing_it_is_that_a_node_left_service(
    made: Rolling, stage: str, expected: tuple[str, str] | None
) -> None:
    made.settle()
    leaves_service(made, stage)
    made.now += 301

    assert finding(made) == expected


def test_a_node_that_restarts_while_it_soaks_has_its_time_to_load_the_driver_again(made: Rolling) -> None:
    made.settle()
    leaves_service(made, "Driver")
    made.reboot("n1", "boot-2")
    made.now += 1800

    assert finding(made) is None


def test_another_version_than_was_wanted_counts_once_the_agent_has_asked_anew(made: Rolling) -> None:
    made.unfit.add(NEXT)
    until(made, "Validating")
    driver_tells(made, version=VERSION)
    seen = made.view().node("n1")
    assert (verdict(seen, made.now), verdict_in(seen, made.now)) == (None, 120.0)
    made.now += 120

    assert finding(made) == ("OtherVersion", "revision")


def test_what_a_failed_driver_did_to_a_card_does_not_speak_against_the_former_one(made: Rolling) -> None:
    made.unfit.add(NEXT)
    until(made, "Validating")
    made.card("n1", {"fault": "CriticalXid"})
    made.settle()

    assert ((made.work() or {})["phase"], made.last()) == ("RolledBack", "RolledBack")
    assert version(made) == VERSION


def test_what_befell_a_card_before_the_driver_went_is_not_the_next_ones_doing(made: Rolling) -> None:
    until(made, "Clearing")
    made.card("n1", {"fault": "CriticalXid"})
    made.settle()

    assert made.phase() == "Soaking"


def test_a_node_that_serves_with_its_former_driver_is_rolled_back_whatever_befalls_a_card_then(made: Rolling) -> None:
    made.unfit.add(NEXT)
    until(made, "Validating")
    says(made, "container", validation.FAILED, reason="CudaFailed", message="m")
    until(made, "Removing")
    until(made, "Validating")
    made.card("n1", {"fault": "CriticalXid"})
    made.settle()

    assert (made.phase(), (made.work() or {})["reason"]) == ("RolledBack", "CudaFailed")
    assert made.in_service("n1")


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        ({}, True),
        ({"migApply": {"version": "1", "phase": "Done"}}, True),
        ({"migApply": {"version": "1", "phase": "Failed"}}, True),
        ({"migApply": {"version": "1", "phase": "Lost"}}, False),
        ({"migApply": {"version": "1", "phase": "Applying"}}, False),
        ({"offer": "AwaitingLayout"}, False),
        ({"migApply": {"version": "1", "phase": "Done", "driverLoad": "a"}, "mig": {"driverLoad": "b"}}, False),
        ({"migApply": {"version": "1", "phase": "Done", "driverLoad": "a"}, "mig": {"driverLoad": "a"}}, True),
        ({"poolRef": None, "migApply": {"version": "1", "phase": "Lost"}}, True),
    ],
)
def test_a_layout_is_waited_for_while_somebody_is_to_make_it(status: dict[str, Any], asked: bool) -> None:
    made = Rolling()
    made.node()
    if (mig := status.pop("mig", None)) is not None:
        status["hardware"] = {"mig": {"capable": True, "enabled": True, **mig}}
    for (kind, name), _ in list(made.objects.items()):
        if kind == "GPUDevice":
            made.merge(kind, name, {"status": status})

    assert is_as_asked(made.view().node("n1").devices) == asked
