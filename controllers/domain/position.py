"""A card's place among its node's, which `indexes` of a deviceSelector go by. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controllers.api.gpudevice import GPUDevice


def is_lost(device: GPUDevice) -> bool:
    """Whether a fresh report says that the card is gone from its node: it stays on record while a pool has it."""
    return any(
        c.type == INVENTORY_INCOMPLETE and c.status == "True" and c.reason == names.REASON_CARD_LOST
        for c in device.status.conditions
    )


def positions(devices: Iterable[GPUDevice]) -> Iterator[int]:
    """The places of a node's cards, which come by address: a lost one counts for nobody, as if its record were gone.

    It has itself the place that it would have if it came back.
    """
    at = 0
    for device in devices:
        yield at
        at += not is_lost(device)
