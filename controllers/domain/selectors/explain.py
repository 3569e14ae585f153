"""Explains why a GPUPool's selectors do not match a card: the first key that fails, expected and found value.

The answer is None exactly where the pool controller counts the card as matched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.record import json_name
from controllers.domain.allocation import division_of, explain_mig_mismatch, mig_key
from controllers.domain.catalogue import VENDORS
from controllers.domain.selectors.match import CHECKS, cautious, given, holds, matches_device
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.api.gpudevice import GPUDevice, Hardware
    from controllers.api.gpupool import DeviceMatch, DeviceSelector, GPUPool
    from controllers.api.selector import LabelSelector

UNKNOWN = "unknown"
UNSET = "no such label"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One key of a pool that leaves a card out."""

    key: str
    """Its place in the pool, such as `spec.deviceSelector.include.products`."""
    expected: str
    """What it asks for."""
    actual: str
    """What the card or its node has."""

    def __str__(self) -> str:
        """As a part of a sentence."""
        return f"{self.key} expects {self.expected}, found {self.actual}"


def explain_mismatch(pool: GPUPool, device: GPUDevice, labels: Mapping[str, str], position: int) -> Mismatch | None:
    """Why the pool does not match the card; None where it does.

    `labels` are those of the card's node, `position` is the card's place among the node's by address.
    """
    found = explain_node_mismatch(pool, labels) or explain_card_mismatch(pool.spec.device_selector, device, position)
    if found is not None:
        return found
    why = explain_mig_mismatch(pool, device)
    return Mismatch(mig_key(pool.spec.allocation), f"{division_of(pool.spec.allocation)}", why) if why else None


def explain_node_mismatch(pool: GPUPool, labels: Mapping[str, str]) -> Mismatch | None:
    """Why the pool matches no card of a node with these labels."""
    return _of_labels(pool.spec.node_selector, labels, "spec.nodeSelector")


def _of_labels(selector: LabelSelector | None, labels: Mapping[str, str], where: str) -> Mismatch | None:
    if selector is None:
        return None
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return Mismatch(f"{where}.matchLabels", f"{key}={value}", labels.get(key, UNSET))
    for wanted in selector.match_expressions:
        if not holds(wanted.operator, labels.get(wanted.key), wanted.values):
            expected = " ".join((wanted.key, wanted.operator, listed(wanted.values))).rstrip()
            return Mismatch(f"{where}.matchExpressions", expected, labels.get(wanted.key, UNSET))
    return None


def explain_card_mismatch(selector: DeviceSelector | None, device: GPUDevice, position: int) -> Mismatch | None:
    """Why a deviceSelector does not match a card."""
    include, exclude = (selector.include, selector.exclude) if selector else (None, None)
    hardware = device.status.hardware
    for key in given(include) if include is not None else ():
        if include is not None and (hardware is None or not CHECKS[key](include, device, hardware, position)):
            has = FOUND[key](device, hardware, position) if hardware is not None else "hardware that is not known yet"
            return Mismatch(f"spec.deviceSelector.include.{json_name(key)}", _asked(include, key), has)
    left_out = cautious(exclude)
    if exclude is not None and left_out and (keys := given(exclude)) and matches_device(left_out, device, position):
        asked = ", ".join(f"{json_name(key)} {_asked(exclude, key)}" for key in keys)
        return Mismatch("spec.deviceSelector.exclude", "a card that is not this", f"one with {asked}")
    return None


def _asked(match: DeviceMatch, key: str) -> str:
    value = getattr(match, key)
    match value:
        case tuple():
            one = {"precisions": "all of "}.get(key, "one of ")
            return (one if len(value) > 1 else "") + listed(value)
        case dict():
            return listed(f"{name}={wanted}" for name, wanted in sorted(value.items()))
    return f"at least {value}"


def _vendor(hardware: Hardware) -> str:
    vendor = VENDORS.get(hardware.pci.vendor)
    return vendor.name if vendor else hardware.pci.vendor


def _capability(hardware: Hardware) -> str:
    found = hardware.compute_capability
    return f"{found.major}.{found.minor}" if found else UNKNOWN


FOUND: dict[str, Callable[[GPUDevice, Hardware, int], str]] = {
    "pci_ids": lambda _d, h, _i: f"{h.pci.vendor}:{h.pci.device}",
    "vendors": lambda _d, h, _i: _vendor(h),
    "products": lambda d, h, _i: h.product or d.metadata.labels.get(names.LABEL_PRODUCT) or UNKNOWN,
    "precisions": lambda _d, h, _i: listed(h.precision.supported if h.precision else ()) or UNKNOWN,
    "min_memory_mib": lambda _d, h, _i: UNKNOWN if h.memory_mib is None else str(h.memory_mib),
    "min_compute_capability": lambda _d, h, _i: _capability(h),
    "mig_profiles": lambda _d, h, _i: listed(h.mig.profiles_supported if h.mig else ()) or "none",
    "inventory_ids": lambda d, _h, _i: d.status.inventory_id or UNKNOWN,
    "indexes": lambda _d, _h, i: f"card {i} of its node, counted from 0 by address",
    "match_labels": lambda d, _h, _i: listed(f"{k}={v}" for k, v in sorted(d.metadata.labels.items())) or "no labels",
}
"""What a card has where a key of a DeviceMatch asks."""
