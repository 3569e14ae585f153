"""Readers of what nvidia-smi prints: each on a small dump of ours, with what is odd in real ones."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

from tests.data.generate import values
from tests.data.generate.readers import smi_text, smi_xml
from tests.data.small import found, nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

XML = """<!DOCTYPE nvidia_smi_log SYSTEM "x.dtd"><nvidia_smi_log>
<driver_version>535.1</driver_version><cuda_version>N/A</cuda_version>
<gpu id="00000001:1A:00.0"><product_name>A card</product_name><uuid>GPU-1</uuid>
<mig_mode><current_mig>Enabled</current_mig></mig_mode>
<fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
<pci><pci_base_class>3</pci_base_class><pci_sub_class>2</pci_sub_class><pci_device_id>233010DE</pci_device_id>
<pci_sub_system_id>[REDACTED]</pci_sub_system_id></pci></gpu>
<gpu id="00000002:1A:00.0"><uuid>GPU is lost</uuid></gpu></nvidia_smi_log>"""
OF_XML = {
    "address": "0001:1a:00.0", "vendor": "10de", "device": "2330", "class": "0302", "by_driver": True,
    "uuid": "GPU-1", "product": "A card", "memory_mib": 81559, "mig_capable": True, "mig_enabled": True,
}  # fmt: skip
LOGS = """\
$ k get po
$ k logs one
GPU 0: Tesla T4 (UUID: GPU-1a)
$ k logs other
GPU 0: A card (UUID: GPU-2b)
  MIG 1g.10gb     Device  0: (UUID: MIG-3)
  MIG 1g.10gb     Device  1: (UUID: MIG-GPU-4/7/0)"""
DIVIDED = {"mig_capable": True, "mig_enabled": True}
QUERY = """\
Driver Version                            : 510.73.08
Attached GPUs                             : 8
GPU 00000000:10:1C.0
    Product Name                          : A card
    [...]"""
CSV = "$ nvidia-smi --query-gpu=…\nname, pci.bus_id, vbios_version\nA card, 00000000:04:00.0, 9\n[...]"
LGI = """\
|   0  MIG 2g.10gb       19        3          4:2    |
|   0  MIG 2g.10gb       19        5          0:2    |"""
TOPOLOGY = """\
\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV2\t0-23\t1
GPU1\tNV2\t X \t0-23\tN/A"""
RULE = "#" * 80
CAPTURE = "\n".join(
    f"{RULE}\n# {title}\n# $ nvidia-smi …\n{RULE}\n{text}"
    for title, text in {
        "capabilities :: list (-L)": "GPU 0: A card (UUID: GPU-1)\n  MIG 3g.40gb     Device  0: (UUID: MIG-1)",
        "capabilities :: version": "CUDA Version           : 13.0",
        "capabilities :: topo -m": "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0",
        "idle :: query-gpu (csv, what the exporter parses)": (
            "uuid, name, driver_version, pci.bus_id, pci.device_id, pci.sub_device_id, pci.baseClass, pci.subClass, "
            "memory.total [MiB], compute_cap, mig.mode.current\n"
            "GPU-1, A card, 590.1, 00000000:00:09.0, 0x233010DE, 0x16C110DE, 0x3, 0x2, 81559 MiB, 9.0, [Enabled]\n"
        ),
    }.items()
)
CAPTURED = {
    **OF_XML, "address": "0000:00:09.0", "subsystem_vendor": "10de", "subsystem_device": "16c1", "numa_node": 0,
    "compute": [9, 0], "mig_instances": {"3g.40gb": 1},
}  # fmt: skip


CASES: dict[str, tuple[Callable[[Path], dict[str, Any]], str, dict[str, Any]]] = {
    "-q -x": (smi_xml.read, XML, nodes(OF_XML, {"address": "0002:1a:00.0", "by_driver": True}, driver="535.1")),
    "-L": (smi_text.listed, "GPU 7: A card (UUID: GPU-1)\n\t Link 0: 25 GB/s", nodes(
        {"by_driver": True, "product": "A card", "uuid": "GPU-1"},
    )),
    "-L of several pods": (smi_text.listed, LOGS, {"nodes": [
        {"name": "pod-1", "cards": [{"by_driver": True, "product": "Tesla T4", "uuid": "GPU-1a"}]},
        {"name": "pod-2", "cards": [
            {"by_driver": True, "product": "A card", "uuid": "GPU-2b", **DIVIDED, "mig_instances": {"1g.10gb": 2}},
        ]},
    ]}),
    "-q": (smi_text.query, QUERY, nodes(
        {"address": "0000:10:1c.0", "by_driver": True, "product": "A card"}, driver="510.73.08",
    )),
    "--query-gpu": (smi_text.csv, CSV, nodes({"address": "0000:04:00.0", "by_driver": True, "product": "A card"})),
    "mig -lgi": (smi_text.instances, LGI, {
        **nodes({"by_driver": True, **DIVIDED, "mig_instances": {"2g.10gb": 2}}),
        "instances": [
            {"card": 0, "id": 3, "profile": "2g.10gb", "size": 2, "start": 4},
            {"card": 0, "id": 5, "profile": "2g.10gb", "size": 2, "start": 0},
        ],
    }),
    "topo -m": (smi_text.topology, TOPOLOGY, nodes({"by_driver": True, "numa_node": 1}, {"by_driver": True})),
    "many commands": (smi_text.capture, CAPTURE, nodes(CAPTURED, driver="590.1", cuda="13.0")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_reader_finds_what_is_told_and_no_more(tmp_path: Path, case: str) -> None:
    read, text, told = CASES[case]
    assert found(tmp_path / "dump", read, text) == told


def test_what_is_gzipped_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "dump.xml").write_text(XML)
    (tmp_path / "dump.xml.gz").write_bytes(gzip.compress(XML.encode()))
    assert smi_xml.read(tmp_path / "dump.xml.gz") == smi_xml.read(tmp_path / "dump.xml")


def test_values_as_tools_print_them() -> None:
    spelled = ("00000000:1A:00.0", "1a:00.0", "0000:1a:00.0", "00010000:1A:00.0", "[N/A]", "1a:20.0")
    assert [values.address(text) for text in spelled] == [*["0000:1a:00.0"] * 3, "10000:1a:00.0", "", "0000:1a:20.0"]
    assert [values.mebibytes(text) for text in ("81559 MiB", "N/A", "81920M", None)] == [81559, None, None, None]
    assert [values.ids(text) for text in ("20B010DE", "0x20b010de", "[REDACTED]")] == [("10de", "20b0")] * 2 + [
        ("", "")
    ]
    modes = (None, "Enabled", "[Disabled]", "N/A", "[N/A]")
    assert [values.mig_mode(text) for text in modes] == [
        (None, None), (True, True), (True, False), (False, None), (False, None),
    ]  # fmt: skip
    assert [values.value(text) for text in (" GPU is lost ", "Insufficient Permissions", " 7 ", None)] == [
        "",
        "",
        "7",
        "",
    ]
