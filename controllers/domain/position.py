"""A card's index among its node's cards (`indexes` of a deviceSelector), and whether it is counted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from controllers.api import formerly
from controllers.domain.catalogue import vendor_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controllers.api.gpudevice import GPUDevice, Pci
    from controllers.api.meta import Condition


_NVIDIA: Final = vendor_id("nvidia")


class PlaceStatus(Protocol):
    """What of a card's status tells whether it is there, however much of it a process keeps."""

    @property
    def lost_since(self) -> str | None:
        """See GPUDeviceStatus."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """See GPUDeviceStatus."""


def is_lost(status: PlaceStatus) -> bool:
    """Whether a fresh report says that the card is gone from its node: it stays on record while a pool has it."""
    return status.lost_since is not None or formerly.is_lost(status.conditions)


def is_set_aside(pci: Pci, *, incomplete: bool) -> bool:
    """Whether nobody can be asked for what is missing of a card: it is not NVIDIA's, and no node is prepared for it."""
    return incomplete and pci.vendor != _NVIDIA


def positions(devices: Iterable[GPUDevice]) -> Iterator[int]:
    """The places of a node's cards, which come by address: a lost one counts for nobody, as if its record were gone.

    It has itself the place that it would have if it came back.
    """
    at = 0
    for device in devices:
        yield at
        at += not is_lost(device.status)
