"""What controllers decide by are fields; a status of the version before, which has reasons alone, is understood."""

from __future__ import annotations

import pytest

from controllers.api import formerly
from controllers.api.gpudevice import GPUDevice, GPUDeviceStatus
from controllers.api.gpupool import AllocationSpec, GPUPool, GPUPoolSpec, GPUPoolStatus
from controllers.api.meta import Condition
from controllers.bootstrap.preparation.phases import PHASES
from controllers.domain.issuing import offer_of
from controllers.domain.mig import Division
from controllers.domain.pool_lifecycle import last_phase
from controllers.domain.position import is_lost
from controllers.gpupool.mig.layout import desired_division


def said(kind: str, status: str, reason: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message="found")  # type: ignore[arg-type]


def pool(maintenance: Condition, *, phase: str | None) -> GPUPool:
    asked = AllocationSpec(mode="MIG", mig_profile="2g.20gb")
    applied = AllocationSpec(mode="MIG", mig_profile="1g.10gb")
    told = (maintenance, said("Misconfigured", "False", "AsExpected"))
    status = GPUPoolStatus(applied_allocation=applied, phase=phase, conditions=told)  # type: ignore[arg-type]
    return GPUPool(spec=GPUPoolSpec(allocation=asked), status=status)


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        ("Rebuilding", "Rebuilding"),
        ("LayoutFailed", "Halted"),
        ("ModuleDisabled", "Disabled"),
        ("Applying", "Applying"),
        ("WaitingForPods", "Draining"),
        ("PluginsOverdue", "Draining"),
    ],
)
def test_a_pool_of_the_version_before_is_where_its_maintenance_says(reason: str, phase: str) -> None:
    assert last_phase(pool(said("Maintenance", "True", reason), phase=None)) == phase
    assert last_phase(GPUPool()) is None


def test_the_layout_goes_by_the_phase_and_not_by_its_reason() -> None:
    assert desired_division(pool(said("Maintenance", "True", "WaitingForPods"), phase="Rebuilding")) == Division(
        "2g.20gb"
    )
    assert desired_division(pool(said("Maintenance", "True", "Rebuilding"), phase="Draining")) == Division("1g.10gb")


@pytest.mark.parametrize(
    ("reason", "offer"),
    [
        ("Published", "Offered"),
        ("LayoutDrifted", "Drifted"),
        ("AwaitingPlugin", "AwaitingPlugin"),
        ("AwaitingWithdrawal", "AwaitingWithdrawal"),
        ("NodeFull", "KeptOut"),
    ],
)
def test_a_card_of_the_version_before_is_offered_as_its_reason_says(reason: str, offer: str) -> None:
    told = (said("Configured", "False", reason),)
    assert offer_of(GPUDevice(status=GPUDeviceStatus(conditions=told))) == offer
    assert offer_of(GPUDevice(status=GPUDeviceStatus(conditions=told, offer="Withdrawn"))) == "Withdrawn"


def test_a_card_is_lost_by_its_field_or_as_the_version_before_said_it() -> None:
    told = (said("InventoryIncomplete", "True", "CardLost"),)
    assert is_lost(GPUDeviceStatus(conditions=told))
    assert is_lost(GPUDeviceStatus(lost_since="2026-01-01T00:00:00Z"))
    assert not is_lost(GPUDeviceStatus(conditions=(said("InventoryIncomplete", "True", "AwaitingReport"),)))


@pytest.mark.parametrize(
    ("status", "reason", "fault"),
    [
        ("True", "Lost", "CardLost"),
        ("True", "RowRemapFailure", "RowRemapFailure"),
        ("Unknown", "CriticalXidHeld", "CriticalXid"),
        ("Unknown", "NoTelemetry", None),
        ("False", "Recovered", None),
    ],
)
def test_a_fault_of_the_version_before_is_a_fault(status: str, reason: str, fault: str | None) -> None:
    found = formerly.fault(said("Faulted", status, reason))
    assert (found[0] if found is not None else None) == fault


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_components_are_known_by_their_reasons(phase: object) -> None:
    for reason in (phase.not_ready, phase.overdue):  # type: ignore[attr-defined]
        assert formerly.stage(said("ReadyForPooling", "False", reason)) == ("Component", phase.name)  # type: ignore[attr-defined]
