"""Patterns of kernels."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.driver.overrides import matches_kernel, override_for
from tests.domain.driver.make import spec


@pytest.mark.parametrize(
    ("pattern", "kernel", "expected"),
    [
        ("*", "6.8.0-71-generic", True),
        ("6.8.0-*-generic", "6.8.0-71-generic", True),
        ("6.8.0-*-generic", "6.8.0-71-aws", False),
        ("6.8.0-71-generic", "6.8.0-71-generic", True),
        ("6.8.0-71", "6.8.0-71-generic", False),
        # One text cannot stand for the end of the first piece and the start of the last.
        ("6.8.0-71*71-generic", "6.8.0-71-generic", False),
        ("5.*", "6.5.0", False),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, kernel: str, expected: bool) -> None:
    assert matches_kernel(pattern, kernel) is expected


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_it_is_the_same_as_a_regular_expression(pattern: str, kernel: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), kernel) is not None

    assert matches_kernel(pattern, kernel) is expected


def test_no_pattern_is_slow() -> None:
    assert not matches_kernel("*a" * 126, "a" * 125 + "b" * 128)


def test_the_first_that_fits_is_taken() -> None:
    overrides = [
        {"system": "rhel9", "kernel": "*", "image": "r/a:1"},
        {"system": "ubuntu24.04", "kernel": "6.8.0-7*", "image": "r/b:1"},
        {"system": "ubuntu24.04", "kernel": "*", "image": "r/c:1"},
    ]
    found = [override_for(spec(image={"overrides": overrides}), "ubuntu24.04", kernel) for kernel in ("6.8.0-71", "5")]

    assert [one and one.image for one in found] == ["r/b:1", "r/c:1"]
