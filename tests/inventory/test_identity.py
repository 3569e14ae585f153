"""Names of cards: stable, readable back, never too long, never shared."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.gpudevice import GPUDevice, GPUDeviceStatus
from controllers.api.meta import ObjectMeta
from controllers.domain.pci import canonical
from controllers.inventory.identity import address_of, device_name, inventory_id, label_value, node_of

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
nodes = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?){0,4}", fullmatch=True)
addresses = st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:17:00.0", "0000:17:00.0"),
        ("00000000:17:00.0", "0000:17:00.0"),  # as NVML writes it
        (" 0000:CA:00.0\n", "0000:ca:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("17:00.0", None),
        ("0000:17:20.0", None),  # 32 slots
        ("0000:17:00.8", None),
        ("0000:17:00.0x", None),
        ("", None),
        ("GPU is lost", None),
        ("\u0660000:17:00.0", None),  # a digit, but not one of ours
    ],
)
def test_an_address_has_one_spelling(text: str, address: str | None) -> None:
    assert canonical(text) == address


def test_names_are_as_the_design_says() -> None:
    assert device_name("worker-01", "0000:17:00.0") == "worker-01-0000-17-00-0"
    assert inventory_id("worker-01", "0000:17:00.0") == "worker-01-0000:17:00.0"
    assert device_name("a.b", "0000:17:00.0") != device_name("a-b", "0000:17:00.0")


@given(nodes, addresses)
def test_a_name_can_be_read_back(node: str, address: str) -> None:
    name = device_name(node, address)

    assert SUBDOMAIN.fullmatch(name)
    assert len(name) <= 253
    assert address_of(name) == address
    if len(f"{node}-{address}") <= 253:
        assert node_of(GPUDevice(metadata=ObjectMeta(name=name))) == node


@given(st.lists(st.tuples(nodes, addresses), unique=True, min_size=2, max_size=20))
def test_no_two_cards_share_a_name(cards: list[tuple[str, str]]) -> None:
    assert len({device_name(node, address) for node, address in cards}) == len(cards)


def test_a_node_with_the_longest_name_has_cards() -> None:
    node = ".".join(["a" * 62] * 3 + ["b" * 64])[:253]
    one, other = device_name(node, "0000:17:00.0"), device_name(node[:-1] + "c", "0000:17:00.0")

    assert len(one) <= 253
    assert one != other
    assert address_of(one) == "0000:17:00.0"


def test_the_status_tells_the_node_before_the_name_does() -> None:
    device = GPUDevice(metadata=ObjectMeta(name="x-0000-17-00-0"), status=GPUDeviceStatus(node_name="y"))

    assert node_of(device) == "y"
    assert node_of(GPUDevice(metadata=ObjectMeta(name="made-by-hand"))) == ""


@given(st.text(max_size=200))
def test_every_text_makes_a_label_value(text: str) -> None:
    assert LABEL.fullmatch(label_value(text))
    assert len(label_value(text)) <= 63


def test_label_values_read_as_feature_discovery_writes_them() -> None:
    assert label_value("NVIDIA A100-SXM4-40GB") == "NVIDIA-A100-SXM4-40GB"
    assert label_value("x" * 70) != label_value("x" * 71)
