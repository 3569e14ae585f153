"""Matches label selectors with labels, and a deviceSelector with a GPUDevice. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain import catalogue
from controllers.domain.catalogue.spelling import canonical_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice, Hardware
    from controllers.api.gpupool import DeviceMatch, DeviceSelector
    from controllers.api.selector import LabelSelector


def holds(operator: str, value: str | None, values: Collection[str]) -> bool:
    """Whether a label's value (None: no such label) satisfies an operator of selectors and affinity."""
    match operator:
        case "In":
            return value in values
        case "NotIn":
            # A missing label is not in any list: Kubernetes counts it as a match.
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a selector; no selector matches everything."""
    if selector is None:
        return True
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        holds(wanted.operator, labels.get(wanted.key), wanted.values) for wanted in selector.match_expressions
    )


def in_ranges(index: int, ranges: Iterable[str]) -> bool:
    """Whether a position is in a list such as ("0", "2-3"); what cannot be read matches nothing, and never raises.

    Who leaves cards out by positions goes by `cautious`.
    """
    return any(bounds[0] <= index <= bounds[1] for bounds in map(_bounds, ranges) if bounds is not None)


def cautious(exclude: DeviceMatch | None) -> DeviceMatch | None:
    """What is left out, with every position where one of its `indexes` cannot be read.

    An object that was stored before the API server refused such ranges may have one. Nobody knows which cards it was
    to spare, so none is taken by chance: a card in the pool stays, and no other comes in until the range is mended.
    """
    if exclude is None or all(_bounds(part) is not None for part in exclude.indexes):
        return exclude
    return replace(exclude, indexes=(f"0-{ENDLESS}",))


def _bounds(part: str) -> tuple[int, int] | None:
    """The first and the last position of a range; None where it is none."""
    first, dash, last = part.partition("-")
    low, high = _number(first), _number(last if dash else first)
    return (low, high) if low is not None and high is not None and low <= high else None


ENDLESS = 1_000_000_000
"""Stands for every number that is larger: Python refuses to read one of thousands of digits."""


def _number(text: str) -> int | None:
    """A plain decimal number; `isdigit` alone takes ² for one."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) if len(digits) < len(str(ENDLESS)) else ENDLESS


def _version(text: str) -> tuple[int, int]:
    """Major and minor; what cannot be read is a version that nothing reaches."""
    major, _, minor = text.partition(".")
    first, second = _number(major), _number(minor or "0")
    return (first, second) if first is not None and second is not None else (ENDLESS, 0)


def _reaches(hardware: Hardware, least: str) -> bool:
    capability = hardware.compute_capability
    return capability is not None and (capability.major, capability.minor) >= _version(least)


def _same_product(wanted: str, device: GPUDevice, hardware: Hardware) -> bool:
    """A product by the driver's spelling or by the label's, without regard to case."""
    spellings = {(hardware.product or "").lower(), device.metadata.labels.get(names.LABEL_PRODUCT, "").lower()} - {""}
    return wanted.lower() in spellings


def _profiles(spelled: Iterable[str]) -> set[str]:
    """MIG profiles in one spelling: `1g.10gb.me` and `all-1g.10gb+me` are the same."""
    return {canonical_profile(name) or name for name in spelled}


def _lower(words: Iterable[str]) -> set[str]:
    return {word.lower() for word in words}


CHECKS: dict[str, Callable[[DeviceMatch, GPUDevice, Hardware, int], bool]] = {
    "pci_ids": lambda m, _d, h, _i: f"{h.pci.vendor}:{h.pci.device}" in _lower(m.pci_ids),
    "vendors": lambda m, _d, h, _i: h.pci.vendor in {catalogue.vendor_id(v) or v.lower() for v in m.vendors},
    "products": lambda m, d, h, _i: any(_same_product(product, d, h) for product in m.products),
    "precisions": lambda m, _d, h, _i: _lower(m.precisions) <= _lower(h.precision.supported if h.precision else ()),
    "min_memory_mib": lambda m, _d, h, _i: (h.memory_mib or 0) >= (m.min_memory_mib or 0),
    "min_compute_capability": lambda m, _d, h, _i: _reaches(h, m.min_compute_capability or "0"),
    "mig_profiles": lambda m, _d, h, _i: (
        not _profiles(m.mig_profiles).isdisjoint(_profiles(h.mig.profiles_supported if h.mig else ()))
    ),
    "inventory_ids": lambda m, d, _h, _i: d.status.inventory_id in m.inventory_ids,
    "indexes": lambda m, _d, _h, i: in_ranges(i, m.indexes),
    "match_labels": lambda m, d, _h, _i: all(d.metadata.labels.get(k) == v for k, v in m.match_labels.items()),
}
"""How each key of a DeviceMatch is checked on a card and its position on its node."""
OWN = frozenset({"inventory_ids", "indexes", "match_labels"})
"""Keys that look at the single card; the others look at what kind of card it is."""


def given(match: DeviceMatch) -> tuple[str, ...]:
    """The keys that are given; an empty one is not."""
    return tuple(key for key in CHECKS if getattr(match, key) not in ((), None, {}))


def has_all(match: DeviceMatch, keys: Iterable[str], device: GPUDevice, index: int) -> bool:
    """Whether a card has what these keys ask for; one whose hardware is not known has nothing."""
    hardware = device.status.hardware
    return hardware is not None and all(CHECKS[key](match, device, hardware, index) for key in keys)


def matches_device(match: DeviceMatch, device: GPUDevice, index: int) -> bool:
    """Whether a card has everything that is asked for; `index` is its position on its node."""
    return has_all(match, given(match), device, index)


def selects(selector: DeviceSelector | None, device: GPUDevice, index: int) -> bool:
    """Whether a pool's deviceSelector takes a card. An empty `include` takes all, an empty `exclude` none."""
    include, exclude = (selector.include, cautious(selector.exclude)) if selector else (None, None)
    if include is not None and given(include) and not matches_device(include, device, index):
        return False
    return exclude is None or not given(exclude) or not matches_device(exclude, device, index)
