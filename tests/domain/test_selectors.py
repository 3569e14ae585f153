"""Which cards, nodes and namespaces a selector means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import DeviceSelector
from controllers.api.record import adapter
from controllers.api.selector import LabelSelector
from controllers.domain.selectors.compiled import CompiledSelector, hardware_kind
from controllers.domain.selectors.explain import explain_card_mismatch
from controllers.domain.selectors.match import in_ranges, matches, selects
from tests.kit.objects import card

CARD = card(
    "n",
    0x1A,
    meta={"labels": {"gpu.deckhouse.io/product": "nvidia-h100-80gb-hbm3", "rack": "7"}},
    hardware={
        "product": "NVIDIA H100 80GB HBM3",
        "memory_mib": 81559,
        "compute_capability": {"major": 9, "minor": 0},
        "precision": {"supported": ["fp16", "bf16", "fp8"]},
        "mig": {"capable": True, "profiles_supported": ["1g.10gb", "2g.20gb"]},
    },
)
ODD = ["2-", "-2", "-", "", "1,2", "3-1", "0-2-4", "two", "\u00b2"]
"""Ranges that are none."""
BARE = adapter(GPUDevice).validate_python({"metadata": {"name": "x"}})


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ({}, True),
        ({"inventoryIDs": ["n-0000:1a:00.0"]}, True),
        ({"inventoryIDs": ["other"]}, False),
        ({"pciIDs": ["10DE:2330"]}, True),
        ({"indexes": ["0-1", "3"]}, True),
        ({"indexes": ["4-7"]}, False),
        ({"vendors": ["NVIDIA"]}, True),
        ({"vendors": ["1002"]}, False),
        ({"products": ["nvidia h100 80gb hbm3"]}, True),
        ({"products": ["nvidia-h100-80gb-hbm3"]}, True),
        ({"products": ["A100"]}, False),
        ({"precisions": ["fp8", "bf16"]}, True),
        ({"precisions": ["fp4"]}, False),
        ({"minMemoryMiB": 81559}, True),
        ({"minMemoryMiB": 81560}, False),
        ({"minComputeCapability": "8.9"}, True),
        ({"minComputeCapability": "10"}, False),
        ({"migProfiles": ["2g.20gb", "7g.80gb"]}, True),
        ({"migProfiles": ["7g.80gb"]}, False),
        ({"migProfiles": ["all-2g.20gb"]}, True),
        ({"migProfiles": ["2g.20gb.me"]}, False),
        ({"migProfiles": ["no profile"]}, False),
        ({"precisions": ["FP8"]}, True),
        ({"indexes": [" 0 - 1 "]}, True),
        ({"indexes": ["2-0"]}, False),
        ({"indexes": ["\u00b9"]}, False),
        ({"matchLabels": {"rack": "7"}}, True),
        ({"vendors": ["nvidia"], "matchLabels": {"rack": "8"}}, False),
    ],
)
def test_every_key_selects(include: dict[str, Any], expected: bool) -> None:
    selector = adapter(DeviceSelector).validate_python({"include": include})

    assert selects(selector, CARD, 1) is expected


def test_exclude_wins_and_an_empty_one_excludes_nothing() -> None:
    def excluding(match: dict[str, Any]) -> DeviceSelector:
        return adapter(DeviceSelector).validate_python({"exclude": match})

    assert not selects(excluding({"products": ["NVIDIA H100 80GB HBM3"]}), CARD, 0)
    assert selects(excluding({"products": ["other"]}), CARD, 0)
    assert selects(excluding({}), CARD, 0)
    assert selects(None, CARD, 0)


def test_exclude_leaves_out_only_what_has_everything_that_it_says() -> None:
    both = {"products": ["NVIDIA H100 80GB HBM3"], "indexes": ["2-3"]}
    selector = adapter(DeviceSelector).validate_python({"include": {"vendors": ["nvidia"]}, "exclude": both})

    assert [selects(selector, CARD, index) for index in range(5)] == [True, True, False, False, True]


def test_a_card_without_hardware_matches_no_include() -> None:
    assert not selects(adapter(DeviceSelector).validate_python({"include": {"vendors": ["nvidia"]}}), BARE, 0)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (["2"], True),
        (["0-1"], False),
        (["x", "2"], True),
        ([], False),
        (["0-" + "9" * 5000], True),
        (["9" * 5000], False),
        *(([odd], False) for odd in ODD),
    ],
)
def test_ranges(ranges: list[str], expected: bool) -> None:
    assert in_ranges(2, tuple(ranges)) is expected


@pytest.mark.parametrize("odd", ODD)
def test_a_range_that_nobody_can_read_takes_no_card_neither_way(odd: str) -> None:
    """As it may be stored from before the API server refused it."""

    def selector(**match: Any) -> DeviceSelector:
        return adapter(DeviceSelector).validate_python(match)

    for index in range(6):
        assert not selects(selector(include={"indexes": [odd]}), CARD, index)
        assert not selects(selector(exclude={"indexes": ["0", odd]}), CARD, index)
        assert selects(selector(exclude={"indexes": [odd], "vendors": ["amd"]}), CARD, index)
        for match in (selector(include={"indexes": [odd]}), selector(exclude={"indexes": [odd]})):
            assert not CompiledSelector(match).matches(CARD, index, hardware_kind(CARD))
            assert explain_card_mismatch(match, CARD, index) is not None


@pytest.mark.parametrize("version", ["9" * 5000, "9." + "9" * 5000, "nine", "9.x"])
def test_a_capability_that_cannot_be_read_is_reached_by_no_card(version: str) -> None:
    match = {"minComputeCapability": version}

    assert not selects(adapter(DeviceSelector).validate_python({"include": match}), CARD, 0)
    assert selects(adapter(DeviceSelector).validate_python({"exclude": match}), CARD, 0)


@given(st.text(alphabet="0123456789-, \u00b2x", max_size=12), st.integers(0, 20))
def test_no_text_of_a_range_raises(text: str, index: int) -> None:
    in_ranges(index, (text,))
    selects(adapter(DeviceSelector).validate_python({"exclude": {"indexes": [text]}}), CARD, index)


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ["a", "b"], {"k": "a"}, True),
        ("In", ["a"], {}, False),
        ("NotIn", ["a"], {"k": "a"}, False),
        ("NotIn", ["a"], {}, True),
        ("Exists", [], {"k": ""}, True),
        ("DoesNotExist", [], {"k": ""}, False),
    ],
)
def test_label_operators(operator: str, values: list[str], labels: dict[str, str], expected: bool) -> None:
    expression = {"key": "k", "operator": operator, "values": values}
    selector = adapter(LabelSelector).validate_python({"matchExpressions": [expression]})

    assert matches(selector, labels) is expected
