"""Readers of buses and profiles: each on a small dump of ours, with what is odd in real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.data.generate.readers import bus, hwloc, mock
from tests.data.small import found, nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NN = """\
00:01.0 VGA compatible controller [0300]: Somebody Display [1af4:1050] (rev 01)
06:00.0 3D controller [0302]: NVIDIA Corporation A Card [10de:2236] (rev a1)
\tSubsystem: NVIDIA Corporation A Board [10de:1482]
\tKernel driver in use: vfio-pci"""
VVV = """\
19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
\tSubsystem: NVIDIA Corporation Device 16c1
\tNUMA node: 1
\t\tInitial VFs: 32, Total VFs: 32
\tKernel driver in use: nvidia

03:00.0 VGA compatible controller: Matrox Electronics Systems Ltd. Something (rev 04)
\tSubsystem: Somebody's Something
"""
UMOCKDEV = r"""P: /devices/pci0000:00/0000:01:00.1
E: ANY=thing
A: class=0x030000\n
A: device=0x0533\n
A: numa_node=-1\n
A: vendor=0x102b\n
L: driver=../../drivers/mgag200
"""
LISTING = """\
0000:06:00.0/vendor: 0x10de
0000:06:00.0/device: 0x15f8
0000:06:00.0/class: 0x030200
0000:06:00.0/numa_node: -1
0000:06:00.0/driver -> ../../../bus/pci/drivers/nvidia"""
P100 = {"address": "0000:06:00.0", "vendor": "10de", "device": "15f8", "class": "030200", "bound": "nvidia"}
HWLOC = """\
<!DOCTYPE topology SYSTEM "x.dtd">
<topology><object type="Machine">
 <object type="Package"><object type="NUMANode" os_index="1"/><object type="Bridge">
  <object type="PCIDev" gp_index="1" pci_busid="0000:34:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1">
   <object type="OSDev" gp_index="2"><info name="Backend" value="NVML"/><info name="GPUModel" value="V"/>
    <info name="NVIDIAUUID" value="GPU-1"/></object></object>
  <object type="PCIDev" gp_index="3" pci_busid="0000:36:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1">
   <object type="OSDev" gp_index="4"/></object>
  <object type="PCIDev" gp_index="5" pci_busid="0000:40:00.0" pci_type="0680 [10de:1ac2] [0000:0000] a1"/>
 </object></object></object>
 <distances2hetero name="NVLinkBandwidth"><indexes>OSDev:2 OSDev:4 PCIDev:5</indexes>
  <u64values>9 0 5 0 9 5 5 5 9</u64values></distances2hetero></topology>"""
V100 = {"vendor": "10de", "device": "1db8", "class": "0302", "subsystem_vendor": "10de", "subsystem_device": "131d"}
MOCK = """
system: {driver_version: "550.1", cuda_version: "12.4"}
device_defaults:
  name: A card
  compute_capability: {major: 8, minor: 0}
  memory: {total_bytes: 42949672960}
  pci: {device_id: 0x20B010DE, subsystem_id: 0x134F10DE}
  mig: {mode_current: disabled, max_gpu_instances: 7}
pcie_topology: {root_complexes: [{numa_node: 1, devices: ["0000:0F:00.0"]}]}
nvlink: {switches: [{bdf: "0000:0A:00.0"}]}
devices: [{uuid: GPU-1, pci: {bus_id: "00000000:0F:00.0"}}]
"""
MOCKED = {
    "address": "0000:0f:00.0", "vendor": "10de", "device": "20b0", "subsystem_vendor": "10de",
    "subsystem_device": "134f", "numa_node": 1, "by_driver": True, "uuid": "GPU-1", "product": "A card",
    "memory_mib": 40960, "compute": [8, 0], "mig_capable": True, "mig_enabled": False,
}  # fmt: skip

CASES: dict[str, tuple[Callable[[Path], dict[str, Any]], str, dict[str, Any]]] = {
    "lspci -nn": (bus.numbers, NN, nodes(
        {"address": "0000:00:01.0", "vendor": "1af4", "device": "1050", "class": "0300"},
        {"address": "0000:06:00.0", "vendor": "10de", "device": "2236", "class": "0302", "subsystem_vendor": "10de",
         "subsystem_device": "1482", "bound": "vfio-pci"},
    )),
    "lspci -vvv": (bus.words, VVV, nodes(
        {"address": "0000:19:00.0", "vendor": "10de", "device": "2330", "class": "0302", "subsystem_vendor": "10de",
         "subsystem_device": "16c1", "numa_node": 1, "bound": "nvidia", "virtual_functions": 32},
        {"address": "0000:03:00.0", "vendor": "102b", "class": "0300"},
    )),
    "umockdev": (bus.umockdev, UMOCKDEV, nodes(
        {"address": "0000:01:00.1", "vendor": "102b", "device": "0533", "class": "030000", "bound": "mgag200"},
    )),
    "sysfs": (bus.listing, LISTING, {**nodes(P100), "sysfs": {"0000:06:00.0": {
        "vendor": "0x10de", "device": "0x15f8", "class": "0x030200", "numa_node": "-1", "driver": "nvidia",
    }}}),
    "hwloc": (hwloc.read, HWLOC, nodes(
        {"address": "0000:34:00.0", **V100, "numa_node": 1, "by_driver": True, "uuid": "GPU-1", "product": "V",
         "nvlink_peers": ["0000:36:00.0"]},
        {"address": "0000:36:00.0", **V100, "numa_node": 1, "nvlink_peers": ["0000:34:00.0"]},
        {"address": "0000:40:00.0", "vendor": "10de", "device": "1ac2", "class": "0680", "subsystem_vendor": "0000",
         "subsystem_device": "0000", "numa_node": 1},
    )),
    "hwloc without I/O": (hwloc.read, "<topology><object type='Machine'/></topology>", {"nodes": []}),
    "a mock's profile": (mock.read, MOCK, {
        **nodes(MOCKED, driver="550.1", cuda="12.4"), "switches": ["0000:0a:00.0"],
    }),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_reader_finds_what_is_told_and_no_more(tmp_path: Path, case: str) -> None:
    read, text, told = CASES[case]
    assert found(tmp_path / "dump", read, text) == told
