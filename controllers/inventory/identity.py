"""Names of GPUDevices: made of the node's name and the card's PCI address, and read back. Pure.

A name is made of the node's and the card's PCI address, so that it is the same after every
restart of everything, and can be read back: what stands before the address is the node.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from controllers.api.names import LABEL_VALUE_MAX, OBJECT_NAME_MAX

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice

_NAME = re.compile(r"(.+)-([0-9a-f]{4,8})-([0-9a-f]{2})-([01][0-9a-f])-([0-7])")
_HASH = 10


def device_name(node: str, address: str) -> str:
    """The name of a card's GPUDevice: `worker-01` and `0000:17:00.0` make `worker-01-0000-17-00-0`."""
    place = address.replace(":", "-").replace(".", "-")
    name = f"{node}-{place}"
    if len(name) <= OBJECT_NAME_MAX:
        return name
    room = OBJECT_NAME_MAX - len(place) - _HASH - 2
    return f"{node[:room].rstrip('.-')}-{_digest(node)}-{place}"


def inventory_id(node: str, address: str) -> str:
    """The card's name in lists and selectors: `worker-01-0000:17:00.0`."""
    return f"{node}-{address}"


def address_of(name: str) -> str | None:
    """The PCI address in a GPUDevice's name; None where nobody of us made that name."""
    found = _NAME.fullmatch(name)
    return f"{found[2]}:{found[3]}:{found[4]}.{found[5]}" if found else None


def node_of(device: GPUDevice) -> str:
    """The node of a card, also of one whose status was never written; empty where nothing tells."""
    if device.status.node_name:
        return device.status.node_name
    found = _NAME.fullmatch(device.name)
    return found[1] if found else ""


def label_value(text: str) -> str:
    """A text as a label value: other characters become dashes, and what is too long ends in a hash."""
    value = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")
    if len(value) <= LABEL_VALUE_MAX:
        return value
    return f"{value[: LABEL_VALUE_MAX - _HASH - 1].rstrip('-._')}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH]
