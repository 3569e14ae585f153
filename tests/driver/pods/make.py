"""GPUDrivers and choices for the tests of drivers' pods."""

from __future__ import annotations

from typing import Any, Final

from controllers.api.gpudriver import GPUDriver, Proxy
from controllers.api.record import adapter
from controllers.domain.driver.choice import Install
from controllers.domain.driver.variant import Variant
from controllers.driver.pods.inputs import Files

AGENT: Final = "registry.local/gpu-control-plane/nodeagent:dev"
REVISION: Final = "0123456789"
KERNEL: Final = "6.8.0-71-generic"
COMPILED: Final = Install(
    Variant(REVISION, "ubuntu24.04"), "Compiled", "nvcr.io/nvidia/driver:580.178.04-ubuntu24.04", "580.178.04"
)
PRECOMPILED: Final = Install(
    Variant(REVISION, "ubuntu24.04", KERNEL), "Precompiled", f"nvcr.io/nvidia/driver:580-{KERNEL}-ubuntu24.04", "580"
)
RHEL: Final = Install(
    Variant(REVISION, "rhel9", modules="Proprietary"),
    "Compiled",
    "nvcr.io/nvidia/driver:580.178.04-rhel9",
    "580.178.04",
)
CLUSTER_PROXY: Final = Proxy(http="http://proxy:3128", https="http://proxy:3128", no="10.0.0.0/8")


def driver(name: str = "all", **spec: Any) -> GPUDriver:
    """A GPUDriver; `spec` in the API's spelling."""
    made: GPUDriver = adapter(GPUDriver).validate_python(
        {
            "metadata": {"name": name, "uid": "5f0d1c5e-0000-4000-8000-000000000001"},
            "spec": {"version": "580.178.04", **spec},
        }
    )
    return made


EVERYTHING: Final = driver(
    "everything",
    image={"pullPolicy": "Always", "pullSecrets": ["registry"]},
    build={
        "repositories": {"configMap": "packages"},
        "certificates": {"configMap": "authorities"},
        "secretEnv": "pro-token",
    },
    kernelModules={
        "nvidia": {"NVreg_RestrictProfilingToAdminUsers": "0", "NVreg_EnableStreamMemOPs": "1"},
        "nvidia-peermem": {"persistent_api_support": "0"},
        "nvidia-uvm": {},
    },
    rdma={"enabled": True, "hostMofed": True},
    gds={"enabled": True, "image": "nvcr.io/nvidia/cloud-native/nvidia-fs", "version": "2.27.3"},
    gdrcopy={"enabled": True, "image": "nvcr.io/nvidia/cloud-native/gdrdrv", "version": "v2.5.1"},
    fabricManager={"config": {"FABRIC_MODE": "1"}},
    licensing={"secretName": "licence"},
    resources={"requests": {"memory": "2Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}},
)
FILES: Final = Files(
    {"internal.list": "deb http://mirror noble main\n"}, {"house.crt": "-----BEGIN CERTIFICATE-----\n"}
)
