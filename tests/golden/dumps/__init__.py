"""Which reader reads which dump. A dump tells what it tells: see `told`."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from tests.golden.dumps import bus, hwloc, labels, mock, nodefeature, smi_text, smi_xml

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.golden.dumps.told import Told

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
SECTIONS = ("nodefeature", "nodefeature_derived", "node_labels", "nvidia_smi", "topo", "pci")
PROFILES = ("profiles/nvml-mock-profile-*.yaml", "profiles/mock-nvml-config-*.yaml")
# The first pattern that matches.
READERS: tuple[tuple[str, Callable[[Path, str], list[Told]]], ...] = (
    ("nodefeature*/*.yaml", nodefeature.read),
    ("node_labels/aicr-*", labels.aicr),
    ("node_labels/aks-*", labels.blocks),
    ("node_labels/alibaba-*", labels.table),
    ("node_labels/fgo-*", labels.node),
    ("node_labels/gpustack-*", labels.worker),
    ("node_labels/knavigator-*", labels.knavigator),
    ("node_labels/*", labels.lines),
    ("nvidia_smi/*.xml*", smi_xml.read),
    ("nvidia_smi/*-capture-*", smi_text.capture),
    ("nvidia_smi/docs-smi-mig-lgi-*", smi_text.instances),
    ("nvidia_smi/*-smi-csv-*", smi_text.csv),
    ("nvidia_smi/*-smi-L-*", smi_text.listed),
    ("nvidia_smi/*.txt", smi_text.query),
    ("topo/*nvlink_status*", smi_text.listed),
    ("topo/*", smi_text.topology),
    ("pci/hwloc-*", hwloc.read),
    ("pci/*.umockdev", bus.umockdev),
    ("pci/ghw-*", bus.listing),
    ("pci/*-vvv-*", bus.words),
    ("pci/*lspci*", bus.numbers),
    ("profiles/*", mock.read),
)


def all_dumps() -> list[str]:
    """Every file that may say something of a node's cards."""
    files = [path for section in SECTIONS for path in DATA.glob(f"{section}/*")]
    files += [path for pattern in PROFILES for path in DATA.glob(pattern)]
    return sorted(str(path.relative_to(DATA)) for path in files)


def read(dump: str) -> list[Told]:
    """The nodes of which a dump speaks."""
    reader = next(reader for pattern, reader in READERS if fnmatch(dump, pattern))
    return reader(DATA / dump, dump)
