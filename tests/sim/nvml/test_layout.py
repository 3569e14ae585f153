"""The interface is NVML's: layouts and names are those that clients have compiled in."""

import ctypes
import re
import subprocess
import tomllib
from pathlib import Path

import pynvml
import pytest

from nodeagent.host import cuda
from sim.nvml import build
from sim.nvml.build import CUDA_SONAME, SOURCES

STRUCTURES = {
    "nvmlPciInfo_t": pynvml.nvmlPciInfo_t,
    "nvmlMemory_t": pynvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
    "nvmlGpuFabricInfo_t": pynvml.c_nvmlGpuFabricInfo_t,
    "nvmlGpuFabricInfo_v2_t": pynvml.c_nvmlGpuFabricInfo_v2_t,
    "nvmlGpuFabricInfo_v3_t": pynvml.c_nvmlGpuFabricInfo_v3_t,
    "nvmlGpuInstancePlacement_t": pynvml.c_nvmlGpuInstancePlacement_t,
    "nvmlGpuInstanceProfileInfo_t": pynvml.c_nvmlGpuInstanceProfileInfo_t,
    "nvmlGpuInstanceProfileInfo_v2_t": pynvml.c_nvmlGpuInstanceProfileInfo_v2_t,
    "nvmlGpuInstanceInfo_t": pynvml.c_nvmlGpuInstanceInfo_t,
    "nvmlComputeInstanceProfileInfo_t": pynvml.c_nvmlComputeInstanceProfileInfo_t,
    "nvmlComputeInstanceInfo_t": pynvml.c_nvmlComputeInstanceInfo_t,
    "nvmlDeviceAttributes_t": pynvml.c_nvmlDeviceAttributes,
}
RESERVED = {"reserved0", "reserved1", "reserved2", "reserved3"}
VERSIONS = {
    "nvmlGpuFabricInfo_v2_t, 2": pynvml.nvmlGpuFabricInfo_v2,
    "nvmlGpuFabricInfo_v3_t, 3": pynvml.nvmlGpuFabricInfo_v3,
    "nvmlMemory_v2_t, 2": pynvml.nvmlMemory_v2,
    "nvmlGpuInstanceProfileInfo_v2_t, 2": pynvml.nvmlGpuInstanceProfileInfo_v2,
}
ROOT = Path(__file__).parents[3]
CALLERS = tomllib.loads((SOURCES.parent / "callers.toml").read_text())
IN_PYTHON = {"nodeagent": ROOT / "nodeagent", "make gpu": ROOT / "tests" / "gpu"}
"""Callers that use nvidia-ml-py, with their sources."""
RECORDS = {name for name in dir(pynvml) if name.startswith("nvml") and not callable(getattr(pynvml, name))}
BY_LIBRARY = {"nvmlErrorString"}
"""What nvidia-ml-py calls by itself."""
OTHER_NAMES = {"nvmlInit_v2"}
"""Exported by NVIDIA's library for other clients; pynvml asks for another version."""


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


@pytest.fixture(scope="module")
def exported():
    table = subprocess.run(["nm", "-D", "--defined-only", build()], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in table.splitlines()}


def test_exported_names_are_nvmls_and_nothing_else_is_visible(exported):
    asked = set(re.findall(r'"(nvml\w+)"', Path(pynvml.__file__).read_text()))
    assert exported - asked == OTHER_NAMES


def test_every_function_has_a_caller_and_every_caller_its_functions(exported):
    assert exported == {function for functions in CALLERS.values() for function in functions}


@pytest.mark.parametrize("caller", IN_PYTHON)
def test_what_a_caller_in_python_calls_is_listed_under_its_name(caller):
    sources = "".join(path.read_text() for path in IN_PYTHON[caller].rglob("*.py"))
    called = plain(set(re.findall(r"pynvml\.(nvml[A-Z]\w+)", sources)) - RECORDS)
    listed = plain(CALLERS[caller])
    assert listed - BY_LIBRARY <= called
    assert called <= listed | plain(CALLERS["nodeagent"])


def plain(names):
    """Without versions, of which pynvml chooses one."""
    return {re.sub(r"(_v\d|V|WithFlags)$", "", name) for name in names}


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
