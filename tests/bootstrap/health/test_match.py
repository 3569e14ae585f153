"""Samples find their cards."""

from __future__ import annotations

from controllers.api.gpudevice import GPUDevice
from controllers.api.meta import ObjectMeta
from controllers.bootstrap.health.dcgm_parser import CardSample
from controllers.bootstrap.health.match import match
from tests.kit.objects import card


def device(name: str, address: str, uuid: str | None = None) -> GPUDevice:
    return card("n", address, meta={"name": name}, hardware={"uuid": uuid})


def test_by_uuid_else_by_address():
    devices = [
        device("a", "0000:17:00.0", "GPU-A"),
        device("b", "0000:65:00.0"),
        device("c", "0000:98:00.0", "GPU-c"),
        GPUDevice(metadata=ObjectMeta(name="bare")),
    ]
    samples = [
        CardSample("GPU-a", None, temperature=1),
        CardSample("GPU-b", "0000:65:00.0", temperature=2),
        CardSample(None, "0000:98:00.0", temperature=3),
        CardSample("GPU-z", "0000:ff:00.0", temperature=4),
    ]
    assert {name: one.temperature for name, one in match(devices, samples).items()} == {"a": 1, "b": 2, "c": 3}


def test_another_card_in_the_slot_is_not_this_one():
    assert match([device("a", "0000:17:00.0", "GPU-a")], [CardSample("GPU-b", "0000:17:00.0")]) == {}
