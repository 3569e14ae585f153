"""Which reader reads which dump: the dumps that tests use, and no others."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from tests.data.generate.readers import (
    bus,
    collectors,
    exporter,
    hwloc,
    labels,
    layouts,
    mock,
    nodefeature,
    schema,
    smi_text,
    smi_xml,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Facts = dict[str, Any]


# The first pattern that matches.
READERS: tuple[tuple[str, Callable[[Path], Facts]], ...] = (
    ("nodefeature/nfd-api-crds.yaml", schema.read),
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
    ("profiles/nvml-mock-profile-*.yaml", mock.read),
    ("profiles/mock-nvml-config-*.yaml", mock.read),
    ("profiles/mig-parted-config-default.yaml", layouts.read),
    ("dcgm/netdata-all_fields_nonlabel.txt", collectors.names),
    ("dcgm/dcgm-exporter-default-counters.csv", collectors.types),
    ("dcgm/dcgm-exporter-dcp-metrics-included.csv", collectors.types),
    ("dcgm/docs-dcgm-old-format.txt", exporter.read),
    ("dcgm/gpu-monitoring-tools-readme.txt", exporter.read),
    ("dcgm/fgo-*", exporter.read),
    ("dcgm/nvidia_gpu_exporter-*", exporter.read),
)


def reader(dump: str) -> Callable[[Path], Facts] | None:
    """What reads that dump; None where no test uses it."""
    return next((read for pattern, read in READERS if fnmatch(dump, pattern)), None)
