"""`nvidia-smi -q -x`, from DTD 10 to 13, whole or trimmed, gzipped or not."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tests.golden.dumps.told import Card, Told, address, ids, mebibytes, mig_mode, value

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path, name: str) -> list[Told]:
    """One node with its cards."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    root = ET.fromstring(re.sub("<!DOCTYPE[^>]*>", "", raw.decode()))  # noqa: S314 - files of ours
    cards = tuple(_card(gpu) for gpu in root.iter("gpu"))
    lacks = ["compute capability", "NUMA node", "NVLink peers", "names of MIG profiles"]
    lacks += [] if all(card.class_ for card in cards) else ["PCI class"]
    lacks += [] if all(card.device for card in cards) else ["PCI ids"]
    driver = value(root.findtext("driver_version")) or None
    return [Told(name, cards=cards, driver=driver, cuda=value(root.findtext("cuda_version")), lacks=tuple(lacks))]


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
