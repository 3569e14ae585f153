"""`nvidia-smi -q -x`, from DTD 10 to 13, whole or trimmed, gzipped or not."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from tests.data.generate.readers.one import node
from tests.data.generate.values import address, ids, mebibytes, mig_mode, value
from tests.data.told import Card

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> dict[str, Any]:
    """One node with its cards."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    root = ET.fromstring(re.sub("<!DOCTYPE[^>]*>", "", raw.decode()))  # noqa: S314 - known files
    cards = tuple(_card(gpu) for gpu in root.iter("gpu"))
    driver = value(root.findtext("driver_version")) or None
    return node(cards=cards, driver=driver, cuda=value(root.findtext("cuda_version")))


def _card(gpu: ET.Element) -> Card:
    def text(where: str) -> str:
        return value(gpu.findtext(where))

    vendor, device = ids(gpu.findtext("pci/pci_device_id"))
    of_board, board = ids(gpu.findtext("pci/pci_sub_system_id"))
    base, sub = text("pci/pci_base_class"), text("pci/pci_sub_class")
    capable, enabled = mig_mode(gpu.findtext("mig_mode/current_mig"))
    return Card(
        address=address(gpu.get("id", "")) or address(text("pci/pci_bus_id")),
        vendor=vendor,
        device=device,
        class_=f"{int(base, 16):02x}{int(sub, 16):02x}" if base and sub else "",
        subsystem_vendor=of_board,
        subsystem_device=board,
        by_driver=True,
        uuid=text("uuid"),
        product=text("product_name"),
        memory_mib=mebibytes(gpu.findtext("fb_memory_usage/total")),
        mig_capable=capable,
        mig_enabled=enabled,
    )
