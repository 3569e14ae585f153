"""A deviceSelector compiled for thousands of cards. Pure.

Most keys of a selector (vendor, product, memory, …) look at what kind of card it is, and a
cluster has few kinds: they are judged once for each. Only `inventoryIDs`, `indexes` and
`matchLabels` are judged on each card. The answer is that of `selectors.selects`, always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.selectors.match import OWN, cautious, given, has_all

if TYPE_CHECKING:
    from collections.abc import Hashable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import DeviceMatch, DeviceSelector

KINDS_MAX = 1000
"""Kinds remembered; hardware that reports itself differently each time must not fill the memory."""


def hardware_kind(device: GPUDevice) -> Hashable:
    """Everything that the keys which are not the card's OWN look at."""
    hardware = device.status.hardware
    if hardware is None:
        return None
    return (
        hardware.pci.vendor,
        hardware.pci.device,
        hardware.product,
        device.metadata.labels.get(names.LABEL_PRODUCT),
        hardware.memory_mib,
        hardware.compute_capability,
        hardware.precision,
        hardware.mig.profiles_supported if hardware.mig else None,
    )


class CompiledSelector:
    """One deviceSelector, with the answer for each kind of hardware cached."""

    __slots__ = ("_exclude", "_exclude_own", "_include", "_include_own", "_known")

    def __init__(self, selector: DeviceSelector | None) -> None:
        """Sort the keys; nothing is judged yet."""
        self._include, self._include_own = _split(selector.include if selector else None)
        self._exclude, self._exclude_own = _split(cautious(selector.exclude) if selector else None)
        self._known: dict[Hashable, bool | None] = {}

    def matches(self, device: GPUDevice, index: int, kind: Hashable) -> bool:
        """Whether it takes the card, of that kind (`hardware_kind`), at that position on its node."""
        try:
            answer = self._known[kind]
        except KeyError:
            if len(self._known) >= KINDS_MAX:
                self._known.clear()
            answer = self._known[kind] = self._evaluate_kind(device)
        return self._evaluate(device, index) if answer is None else answer

    def _evaluate_kind(self, device: GPUDevice) -> bool | None:
        """Yes or no to every card of the kind; None where it depends on the card."""
        if self._include is not None and not has_all(*self._include, device, 0):
            return False
        if self._exclude is None or not has_all(*self._exclude, device, 0):
            return None if self._include_own else True
        if not self._exclude_own:
            return False
        return None

    def _evaluate(self, device: GPUDevice, index: int) -> bool:
        if self._include is not None and not has_all(self._include[0], self._include_own, device, index):
            return False
        if self._exclude is None or not has_all(*self._exclude, device, 0):
            return True
        return not has_all(self._exclude[0], self._exclude_own, device, index)


def _split(match: DeviceMatch | None) -> tuple[tuple[DeviceMatch, tuple[str, ...]] | None, tuple[str, ...]]:
    """The match with the keys that look at the kind, and those that look at the card; an empty match is none."""
    keys = given(match) if match is not None else ()
    if match is None or not keys:
        return None, ()
    return (match, tuple(key for key in keys if key not in OWN)), tuple(key for key in keys if key in OWN)
