"""Which cards, nodes and namespaces a selector means."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import DeviceSelector
from controllers.api.record import adapter
from controllers.api.selector import LabelSelector
from controllers.domain.selectors import in_ranges, matches, selects

CARD = adapter(GPUDevice).validate_python(
    {
        "metadata": {"name": "n-0", "labels": {"gpu.deckhouse.io/product": "nvidia-h100-80gb-hbm3", "rack": "7"}},
        "status": {
            "inventoryID": "n-0000:1a:00.0",
            "hardware": {
                "product": "NVIDIA H100 80GB HBM3",
                "memoryMiB": 81559,
                "pci": {"vendor": "10de", "device": "2330", "class": "0302", "address": "0000:1a:00.0"},
                "computeCapability": {"major": 9, "minor": 0},
                "precision": {"supported": ["fp16", "bf16", "fp8"]},
                "mig": {"capable": True, "profilesSupported": ["1g.10gb", "2g.20gb"]},
            },
        },
    }
)
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
    ("ranges", "expected"), [(["2"], True), (["0-1"], False), (["x", "-", "2-"], True), ([], False)]
)
def test_ranges(ranges: list[str], expected: bool) -> None:
    assert in_ranges(2, tuple(ranges)) is expected


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
