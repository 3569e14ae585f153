"""The node labels that our NodeFeatureRule must produce for a given NodeFeature. Pure.

`controllers.inventory.rule.node_feature_rule` has the same in NFD's language; a test compares the two.
A value that Kubernetes would not take as a label's gives no label: a kernel's name of more
than 63 characters, a `VERSION_ID` with a space. What is then missing is only that label.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.catalogue import VENDORS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.domain.catalogue import Vendor

VALUE: Final = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
"""What may be a label's value and says something; read alike by Python and by Go."""
DEVICE_ID: Final = "^[0-9a-f]{4}$"
SEATS: Final = 100
"""Cards with labels of their own: their numbers have two digits. `device-count` counts all."""
KERNEL: Final = ("full", "major", "minor")
OS: Final = ("ID", "VERSION_ID")


def labels(
    elements: Iterable[Mapping[str, str]],
    modules: Collection[str],
    kernel: Mapping[str, str],
    os: Mapping[str, str],
    vendors: Mapping[str, Vendor] = VENDORS,
) -> dict[str, str]:
    """The labels of one node, with their prefix.

    `elements`: NFD's `pci.device`, in its order; `modules`: `kernel.loadedmodule`; `kernel`:
    `kernel.version`; `os`: `system.osrelease`; all reports of the node together.
    """
    cards = [element for element in elements if matches(element, vendors)]
    made = {"present": "true", "device-count": str(len(cards))} if cards else {}
    for number, card in enumerate(cards[:SEATS]):
        made |= {f"device.{number:02d}.{key}": card[key] for key in ("vendor", "device", "class")}
    seen = {card["vendor"] for card in cards}
    for vendor in by_weight(vendors):
        if vendor.id in seen or not vendor.has_displays:
            made |= _driver(vendor, modules)
    made |= {f"kernel.version.{key}": kernel[key] for key in KERNEL if _fits(kernel.get(key, ""))}
    made |= {f"os.{key.lower()}": os[key] for key in OS if _fits(os.get(key, ""))}
    return {names.PREFIX + key: value for key, value in made.items()}


def matches(element: Mapping[str, str], vendors: Mapping[str, Vendor] = VENDORS) -> bool:
    """Whether an element of `pci.device` is a card to NFD: it compares texts, and reads no other spelling of an id."""
    vendor, device = vendors.get(element.get("vendor", "")), element.get("device", "")
    return (
        vendor is not None
        and element.get("class") in vendor.classes
        and vendor.makes(device)
        and re.fullmatch(DEVICE_ID, device) is not None
    )


def by_weight(vendors: Mapping[str, Vendor]) -> list[Vendor]:
    """Vendors in the order in which a later one's `driver.name` replaces an earlier one's."""
    return list(vendors.values())[::-1]


def drivers(vendor: Vendor) -> list[str]:
    """The modules that are drivers; `nvidia_uvm` is a part of `nvidia`."""
    return sorted(m for m in vendor.modules if not any(m.startswith(f"{other}_") for other in vendor.modules))


def _driver(vendor: Vendor, modules: Collection[str]) -> dict[str, str]:
    """A driver's labels. Where two serve one vendor, the later name of the alphabet: xe is newer than i915."""
    made = {f"driver.module.{name}": "true" for name in vendor.modules if name in modules}
    loaded = [name for name in drivers(vendor) if name in modules]
    return made | ({"driver.name": loaded[-1]} if loaded else {})


def _fits(value: str) -> bool:
    return re.fullmatch(VALUE, value) is not None
