"""Which nodes, cards and namespaces a selector means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

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


def in_ranges(index: int, ranges: tuple[str, ...]) -> bool:
    """Whether a position is in a list such as ("0", "2-3"); what cannot be read matches nothing."""
    for part in ranges:
        low, _, high = part.partition("-")
        if low.isdigit() and (high or low).isdigit() and int(low) <= index <= int(high or low):
            return True
    return False


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)


def _same_product(wanted: str, device: GPUDevice) -> bool:
    """A product by the driver's spelling or by the label's, without regard to case."""
    product = (device.status.hardware.product if device.status.hardware else None) or ""
    spellings = {product.lower(), device.metadata.labels.get(names.LABEL_PRODUCT, "").lower()} - {""}
    return wanted.lower() in spellings


def _checks(match: DeviceMatch, device: GPUDevice, hardware: Hardware, index: int) -> list[Callable[[], bool]]:
    """One check for each key that is given."""
    pci = hardware.pci
    capability = hardware.compute_capability
    profiles = hardware.mig.profiles_supported if hardware.mig else ()
    precisions = hardware.precision.supported if hardware.precision else ()
    checks: dict[str, Callable[[], bool]] = {
        "inventory_ids": lambda: device.status.inventory_id in match.inventory_ids,
        "pci_ids": lambda: f"{pci.vendor}:{pci.device}" in [value.lower() for value in match.pci_ids],
        "indexes": lambda: in_ranges(index, match.indexes),
        "vendors": lambda: pci.vendor in [catalogue.vendor_id(v) or v.lower() for v in match.vendors],
        "products": lambda: any(_same_product(product, device) for product in match.products),
        "precisions": lambda: set(match.precisions) <= set(precisions),
        "min_memory_mib": lambda: (hardware.memory_mib or 0) >= (match.min_memory_mib or 0),
        "min_compute_capability": lambda: (
            capability is not None
            and (capability.major, capability.minor) >= _version(match.min_compute_capability or "0")
        ),
        "mig_profiles": lambda: bool(set(match.mig_profiles) & set(profiles)),
        "match_labels": lambda: all(device.metadata.labels.get(k) == v for k, v in match.match_labels.items()),
    }
    return [check for key, check in checks.items() if getattr(match, key) not in ((), None, {})]


def matches_device(match: DeviceMatch, device: GPUDevice, index: int) -> bool:
    """Whether a card has everything that is asked for; `index` is its position on its node."""
    hardware = device.status.hardware
    return hardware is not None and all(check() for check in _checks(match, device, hardware, index))


def selects(selector: DeviceSelector | None, device: GPUDevice, index: int) -> bool:
    """Whether a pool's deviceSelector takes a card. An empty `exclude` excludes nothing."""
    if selector is None:
        return True
    if selector.include is not None and not matches_device(selector.include, device, index):
        return False
    exclude = selector.exclude
    if exclude is None or exclude == type(exclude)():
        return True
    return not matches_device(exclude, device, index)
