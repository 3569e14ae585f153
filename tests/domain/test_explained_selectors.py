"""What leaves a card out is said exactly where the pool controller leaves it out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.gpudevice import GPUDevice
from controllers.api.record import json_name
from controllers.domain.allocation import explain_mig_mismatch
from controllers.domain.selectors.explain import FOUND, explain_mismatch
from controllers.domain.selectors.match import CHECKS, matches, selects
from tests.domain.test_compiled_selectors import CARDS, SELECTORS
from tests.kit import objects
from tests.kit.objects import pool

ZONES = st.fixed_dictionaries({}, optional={"zone": st.sampled_from(["a", "b"]), "rack": st.sampled_from(["7", "8"])})
EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["zone", "rack"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": st.sampled_from([[], ["a"], ["a", "7"]]),
    }
)
NODES = st.fixed_dictionaries(
    {}, optional={"matchLabels": ZONES, "matchExpressions": st.lists(EXPRESSIONS, max_size=2)}
)
ALLOCATIONS = st.sampled_from([{}, {"mode": "MIG", "migProfile": "1g.10gb"}, {"mode": "MIG", "migProfile": "9g.9gb"}])


@given(CARDS, SELECTORS, NODES, ALLOCATIONS, ZONES, st.integers(0, 5))
def test_there_is_a_reason_exactly_where_the_card_is_not_meant(
    card: GPUDevice, selector: Any, node: Any, allocation: Any, labels: Any, position: int
) -> None:
    made = pool(deviceSelector=selector, nodeSelector=node, allocation=allocation)
    meant = (
        matches(made.spec.node_selector, labels)
        and selects(made.spec.device_selector, card, position)
        and explain_mig_mismatch(made, card) is None
    )
    found = explain_mismatch(made, card, labels, position)
    assert (found is None) == meant
    if found is not None:
        assert found.key.startswith("spec.")
        assert found.expected
        assert found.actual


def test_every_key_says_what_a_card_has() -> None:
    assert set(FOUND) == set(CHECKS)


def card(**hardware: Any) -> GPUDevice:
    return objects.card("n", hardware={"pci": {"device": "20b0"}, **hardware}, meta={"labels": {"rack": "7"}})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("pci_ids", ["10de:2330"], "expects 10de:2330, found 10de:20b0"),
        ("vendors", ["amd", "intel"], "expects one of amd, intel, found nvidia"),
        ("products", ["NVIDIA H100"], "expects NVIDIA H100, found NVIDIA A100"),
        ("precisions", ["fp8", "fp16"], "expects all of fp8, fp16, found fp16"),
        ("min_memory_mib", 80_000, "expects at least 80000, found 40960"),
        ("min_compute_capability", "9.0", "expects at least 9.0, found 8.0"),
        ("mig_profiles", ["1g.10gb"], "expects 1g.10gb, found 1g.5gb"),
        ("inventory_ids", ["other"], "expects other, found n-0000:17:00.0"),
        ("indexes", ["0-1"], "expects 0-1, found card 2 of its node, counted from 0 by address"),
        ("match_labels", {"rack": "8"}, "expects rack=8, found rack=7"),
    ],
)
def test_the_reason_names_the_key_what_it_asks_for_and_what_is_there(key: str, value: Any, says: str) -> None:
    found = explain_mismatch(
        pool(deviceSelector={"include": {json_name(key): value}}),
        card(
            product="NVIDIA A100",
            memoryMiB=40960,
            computeCapability={"major": 8, "minor": 0},
            precision={"supported": ["fp16"]},
            mig={"profilesSupported": ["1g.5gb"]},
        ),
        {},
        2,
    )
    assert str(found) == f"spec.deviceSelector.include.{json_name(key)} {says}"


def test_an_exclusion_says_by_what_the_card_is_excluded() -> None:
    found = explain_mismatch(pool(deviceSelector={"exclude": {"vendors": ["nvidia"]}}), card(), {}, 0)
    assert str(found) == "spec.deviceSelector.exclude expects a card that is not this, found one with vendors nvidia"


def test_what_a_card_does_not_tell_is_unknown() -> None:
    found = explain_mismatch(pool(deviceSelector={"include": {"minMemoryMiB": 1}}), card(), {}, 0)
    assert str(found) == "spec.deviceSelector.include.minMemoryMiB expects at least 1, found unknown"
