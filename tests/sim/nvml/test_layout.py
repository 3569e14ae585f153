"""The interface is NVML's: layouts and names are those that clients have compiled in."""

import ctypes
import re
import subprocess
from pathlib import Path

import pynvml
import pytest

from nodeagent.host import cuda
from sim.nvml import build
from sim.nvml.build import CUDA_SONAME, SOURCES

STRUCTURES = {
    "nvmlPciInfo_v2_t": pynvml.nvmlPciInfo_v2_t,
    "nvmlPciInfo_t": pynvml.nvmlPciInfo_t,
    "nvmlPciInfoExt_v1_t": pynvml.nvmlPciInfoExt_v1_t,
    "nvmlMemory_t": pynvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
    "nvmlBAR1Memory_t": pynvml.c_nvmlBAR1Memory_t,
    "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
    "nvmlEccErrorCounts_t": pynvml.c_nvmlEccErrorCounts_t,
    "nvmlRowRemapperHistogramValues_t": pynvml.c_nvmlRowRemapperHistogramValues,
    "nvmlTemperature_v1_t": pynvml.c_nvmlTemperature_v1_t,
    "nvmlGpuFabricInfo_t": pynvml.c_nvmlGpuFabricInfo_t,
    "nvmlGpuFabricInfo_v2_t": pynvml.c_nvmlGpuFabricInfo_v2_t,
    "nvmlGpuFabricInfo_v3_t": pynvml.c_nvmlGpuFabricInfo_v3_t,
    "nvmlEventData_t": pynvml.c_nvmlEventData_t,
    "nvmlFieldValue_t": pynvml.c_nvmlFieldValue_t,
    "nvmlGpuInstancePlacement_t": pynvml.c_nvmlGpuInstancePlacement_t,
    "nvmlGpuInstanceProfileInfo_t": pynvml.c_nvmlGpuInstanceProfileInfo_t,
    "nvmlGpuInstanceProfileInfo_v2_t": pynvml.c_nvmlGpuInstanceProfileInfo_v2_t,
    "nvmlGpuInstanceInfo_t": pynvml.c_nvmlGpuInstanceInfo_t,
    "nvmlComputeInstanceProfileInfo_t": pynvml.c_nvmlComputeInstanceProfileInfo_t,
    "nvmlComputeInstanceProfileInfo_v2_t": pynvml.c_nvmlComputeInstanceProfileInfo_v2_t,
    "nvmlComputeInstanceInfo_t": pynvml.c_nvmlComputeInstanceInfo_t,
    "nvmlDeviceAttributes_t": pynvml.c_nvmlDeviceAttributes,
}
RESERVED = {"reserved0", "reserved1", "reserved2", "reserved3"}
VERSIONS = {
    "nvmlGpuFabricInfo_v2_t, 2": pynvml.nvmlGpuFabricInfo_v2,
    "nvmlGpuFabricInfo_v3_t, 3": pynvml.nvmlGpuFabricInfo_v3,
    "nvmlMemory_v2_t, 2": pynvml.nvmlMemory_v2,
    "nvmlPciInfoExt_v1_t, 1": pynvml.nvmlPciInfoExt_v1,
    "nvmlTemperature_v1_t, 1": pynvml.nvmlTemperature_v1,
    "nvmlGpuInstanceProfileInfo_v2_t, 2": pynvml.nvmlGpuInstanceProfileInfo_v2,
    "nvmlComputeInstanceProfileInfo_v2_t, 2": pynvml.nvmlComputeInstanceProfileInfo_v2,
    "nvmlGpuInstanceProfileInfo_v3_t, 3": 0x03000098,
}
# Exported by NVIDIA's library for clients built long ago; pynvml asks for later versions only.
OLD = {
    "nvmlInit", "nvmlInit_v2", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo", "nvmlEventSetWait",
    "nvmlDeviceGetGpuInstancePossiblePlacements", "nvmlDeviceGetAttributes", "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses",
}  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Sizes and offsets as the C compiler lays the structures out."""
    folder = tmp_path_factory.mktemp("layout")
    lines = []
    for name, structure in STRUCTURES.items():
        lines.append(f'printf("{name} sizeof %zu\\n", sizeof({name}));')
        lines += [
            f'printf("{name} {field} %zu\\n", offsetof({name}, {field}));'
            for field, *_ in structure._fields_
            if field not in RESERVED
        ]
    lines += [f'printf("version {text.replace(", ", "/")} %u\\n", VERSIONED({text}));' for text in VERSIONS]
    source = folder / "layout.c"
    source.write_text(
        "#include <stdio.h>\n#include <stddef.h>\n" + '#include "api.h"\nint main(void) {' + "\n".join(lines) + "}\n"
    )
    subprocess.run(["cc", "-std=c11", f"-I{SOURCES}", "-o", folder / "layout", source], check=True)
    text = subprocess.run([folder / "layout"], capture_output=True, text=True, check=True).stdout
    return {(a, b): int(c) for a, b, c in (line.split() for line in text.splitlines())}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_lie_as_pynvml_has_them(measured, name):
    structure = STRUCTURES[name]
    assert measured[name, "sizeof"] == ctypes.sizeof(structure)
    ours = {field: at for (owner, field), at in measured.items() if owner == name and field != "sizeof"}
    assert ours == {field: getattr(structure, field).offset for field in ours}
    assert len(ours) >= len([f for f, *_ in structure._fields_ if f not in RESERVED])


def test_versions_of_structures_are_nvmls(measured):
    assert {text: measured["version", text.replace(", ", "/")] for text in VERSIONS} == VERSIONS


def test_exported_names_are_nvmls_and_nothing_else_is_visible():
    table = subprocess.run(["nm", "-D", "--defined-only", build()], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in table.splitlines()}
    asked = set(re.findall(r'"(nvml\w+)"', Path(pynvml.__file__).read_text()))
    assert exported - asked == OLD
    assert len(exported) > 90


def test_the_library_has_the_drivers_name():
    dynamic = subprocess.run(["readelf", "-d", build()], capture_output=True, text=True, check=True).stdout
    assert "[libnvidia-ml.so.1]" in dynamic
    assert {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "NEEDED" in line} <= {
        "libc.so.6",
        "libm.so.6",
        "libpthread.so.0",
    }


def test_libcuda_exports_what_a_try_of_a_card_takes_and_nothing_of_nvml():
    """Its names are those of the driver interface, with the version that a program asks the loader for."""
    library = build().with_name(CUDA_SONAME)
    table = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in table.splitlines()}
    assert exported - {"cuDriverGetVersion"} == set(cuda._CALLS)
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "[libcuda.so.1]" in dynamic
