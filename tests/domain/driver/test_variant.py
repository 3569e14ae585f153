"""A variant's label: what its value is made of, and what is read out of it."""

from __future__ import annotations

import itertools

import pytest

from controllers.domain.driver.variant import Variant, is_for_any_kernel, revision_of, serves

REVISION = "0123456789"
KERNEL, OTHER = "6.8.0-71-generic", "6.8.0-90-generic"
SYSTEMS = (
    "ubuntu24.04",
    "rhel9",
    "a-p",
    "any",
    "x-any",
    "with_underscores9",
    "a-system-whose-name-is-longer-than-a-label-may-be-1.0",
)
VALUES = [
    Variant(REVISION, system, kernel, modules)
    for system, kernel, modules in itertools.product(SYSTEMS, ("", KERNEL), ("Open", "Proprietary"))
]


@pytest.mark.parametrize("variant", VALUES, ids=lambda one: one.value)
def test_what_is_read_out_of_a_value_is_what_it_was_made_of(variant: Variant) -> None:
    value = variant.value

    assert revision_of(value) == REVISION
    assert is_for_any_kernel(value) is (variant.kernel == "")
    assert serves(value, KERNEL)
    assert serves(value, OTHER) is (variant.kernel == "")


@pytest.mark.parametrize(
    ("value", "any_kernel"),
    [
        ("0123456789-ubuntu24.04-any", True),
        ("0123456789-ubuntu24.04-any-p", True),
        ("0123456789-ubuntu24.04-0e4d3a4b", False),
        ("0123456789-ubuntu24.04-0e4d3a4b-p", False),
        ("0123456789-any-0e4d3a4b", False),
    ],
)
def test_the_last_part_says_whether_a_driver_is_for_any_kernel(value: str, *, any_kernel: bool) -> None:
    assert is_for_any_kernel(value) is any_kernel


def test_a_node_whose_kernel_nobody_tells_is_served_by_what_is_for_any_alone() -> None:
    assert serves(Variant(REVISION, "rhel9").value, "")
    assert not serves(Variant(REVISION, "rhel9", KERNEL).value, "")
