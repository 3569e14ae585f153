"""What of an allocation matters to nodes."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import AllocationSpec, GPUPool
from controllers.api.record import adapter
from controllers.domain.allocation import applied, is_applied, layout, slots_under, wanted
from tests.kit import objects
from tests.kit.objects import card

H100 = card(hardware={"mig": {"capable": True, "profiles_supported": ["1g.10gb", "3g.40gb"]}})
BARE = card("n2", hardware=None)


def spec(**fields: Any) -> AllocationSpec:
    return adapter(AllocationSpec).validate_python(fields)


def pool(asked: dict[str, Any], told: dict[str, Any] | None) -> GPUPool:
    return objects.pool(allocation=asked, status={"applied_allocation": told})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {"mode": "Exclusive"}, True),
        ({}, {"maxDevicesPerNode": 3}, True),
        ({}, {"timeSlice": {"maxSlicesPerDevice": 2}, "migProfile": "1g.10gb"}, True),
        ({"mode": "TimeSlice"}, {"mode": "TimeSlice", "timeSlice": {}}, True),
        ({"mode": "TimeSlice"}, {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 8}}, True),
        ({"mode": "TimeSlice"}, {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 7}}, False),
        ({"mode": "TimeSlice"}, {"mode": "TimeSlice", "migProfile": "1g.10gb"}, True),
        ({}, {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 1}}, False),
        ({"mode": "MIG", "migProfile": "1g.10gb"}, {"mode": "MIG", "migProfile": "3g.40gb"}, False),
        ({"mode": "MIG", "migProfile": "1g.10gb"}, {"mode": "MIG", "migProfile": "1g.10gb", "timeSlice": {}}, True),
    ],
)
def test_only_the_mode_and_its_block_matter(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert (layout(spec(**one)) == layout(spec(**other))) is same
    assert is_applied(pool(one, other)) is same


def test_everything_goes_by_what_is_applied() -> None:
    changing = pool({"mode": "TimeSlice"}, {"mode": "Exclusive"})

    assert (applied(changing).mode, wanted(changing).mode) == ("Exclusive", "TimeSlice")


def test_a_new_pool_goes_by_its_spec_but_is_not_applied() -> None:
    new = pool({"mode": "TimeSlice"}, None)

    assert applied(new).mode == "TimeSlice"
    assert not is_applied(new)


@pytest.mark.parametrize(
    ("device", "allocation", "slots"),
    [
        (H100, {}, 1),
        (H100, {"mode": "TimeSlice"}, 8),
        (H100, {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 3}}, 3),
        (H100, {"mode": "MIG", "migProfile": "1g.10gb"}, 7),
        (H100, {"mode": "MIG", "migProfile": "3g.40gb"}, 2),
        (H100, {"mode": "MIG", "migProfile": "1g.5gb"}, 0),
        (BARE, {"mode": "MIG", "migProfile": "1g.10gb"}, 0),
        (None, {"mode": "MIG", "migProfile": "1g.10gb"}, 0),
        (None, {}, 1),
    ],
)
def test_slots_of_a_card(device: GPUDevice | None, allocation: dict[str, Any], slots: int) -> None:
    assert slots_under(device, spec(**allocation)) == slots
