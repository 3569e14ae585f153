"""A prepared selector answers as the selector itself, whatever cards came before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import DeviceSelector
from controllers.api.record import adapter
from controllers.domain.selectors import compiled
from controllers.domain.selectors.compiled import CompiledSelector, hardware_kind
from controllers.domain.selectors.match import CHECKS, selects
from tests.kit.objects import card

VALUES: dict[str, list[Any]] = {
    "inventoryIDs": [["n-0"], ["n-1", "n-2"]],
    "pciIDs": [["10de:2330"], ["10DE:20B0", "1002:740f"]],
    "indexes": [["0"], ["1-2"], ["0-3"], ["1-"], ["0", "2-1"]],
    "vendors": [["nvidia"], ["1002"]],
    "products": [["NVIDIA H100"], ["nvidia-a100"]],
    "precisions": [["fp8"], ["FP16"]],
    "minMemoryMiB": [40_000, 80_000],
    "minComputeCapability": ["8.0", "9"],
    "migProfiles": [["1g.10gb.me"], ["all-2g.20gb"]],
    "matchLabels": [{"rack": "7"}, {names.LABEL_NODE: "n"}],
}
MATCHES = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in VALUES.items()})
SELECTORS = st.fixed_dictionaries({}, optional={"include": MATCHES, "exclude": MATCHES})
HARDWARE = st.fixed_dictionaries(
    {
        "pci": st.sampled_from(
            [
                {"vendor": vendor, "device": device, "class": "0302", "address": "0000:01:00.0"}
                for vendor, device in (("10de", "2330"), ("10de", "20b0"), ("1002", "740f"))
            ]
        )
    },
    optional={
        "product": st.sampled_from(["NVIDIA H100", "NVIDIA A100"]),
        "memoryMiB": st.sampled_from([40_000, 81_559]),
        "computeCapability": st.sampled_from([{"major": 8, "minor": 0}, {"major": 9, "minor": 0}]),
        "precision": st.sampled_from([{"supported": ["fp16"]}, {"supported": ["fp16", "fp8"]}]),
        "mig": st.sampled_from([{"profilesSupported": ["1g.10gb+me"]}, {"profilesSupported": ["2g.20gb"]}]),
    },
)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "rack": st.sampled_from(["7", "8"]),
        names.LABEL_NODE: st.just("n"),
        names.LABEL_PRODUCT: st.just("nvidia-a100"),
    },
)
CARDS = st.builds(
    lambda number, labels, hardware: card(
        meta={"name": f"n-{number}", "labels": labels}, inventory_id=f"n-{number}", hardware=hardware
    ),
    st.integers(0, 3),
    LABELS,
    st.none() | HARDWARE,
)


def test_every_key_of_a_selector_is_tried() -> None:
    match = adapter(DeviceSelector).validate_python({"include": {key: values[0] for key, values in VALUES.items()}})

    assert match.include is not None
    assert all(getattr(match.include, key) for key in CHECKS)
    assert len(CHECKS) == len(VALUES)


@given(SELECTORS, st.lists(st.tuples(CARDS, st.integers(0, 3)), max_size=8))
def test_it_answers_as_the_selector(selector: dict[str, Any], cards: list[tuple[GPUDevice, int]]) -> None:
    made = adapter(DeviceSelector).validate_python(selector)
    chooser = CompiledSelector(made)

    for one, index in [*cards, *cards]:  # again: what is remembered must not differ
        assert chooser.matches(one, index, hardware_kind(one)) is selects(made, one, index)


def test_hardware_that_is_different_each_time_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "KINDS_MAX", 3)
    chooser = CompiledSelector(adapter(DeviceSelector).validate_python({"include": {"minMemoryMiB": 5}}))
    pci = {"vendor": "10de", "device": "2330", "class": "0302", "address": "0000:01:00.0"}

    for memory in range(10):
        card = adapter(GPUDevice).validate_python(
            {"metadata": {"name": "n"}, "status": {"hardware": {"pci": pci, "memoryMiB": memory}}}
        )
        assert chooser.matches(card, 0, hardware_kind(card)) is (memory >= 5)
        assert len(chooser._known) <= 3
