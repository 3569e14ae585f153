"""The environment of the driver's container, by which NVIDIA's program is told what to do. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components.podspec import env, from_field

if TYPE_CHECKING:
    from controllers.api.gpudriver import Proxy
    from controllers.components.podspec import Json
    from controllers.driver.pods.inputs import Inputs

MODE: Final = "DRIVER_MODE"
"""The variable that tells the scripts beside NVIDIA's program how the modules come about."""


def of_driver(given: Inputs) -> list[Json]:
    """Of the driver's container."""
    spec = given.driver.spec
    told = {
        # No runtime may put cards into the container that brings their driver.
        names.VISIBLE_DEVICES: names.NO_DEVICES,
        "DRIVER_CONFIG_DIGEST": given.choice.variant.value,
        # For the scripts beside NVIDIA's program.
        MODE: given.choice.mode,
        "KERNEL_MODULE_TYPE": given.choice.modules.lower(),
    }
    if given.choice.modules == "Open":
        told["OPEN_KERNEL_MODULES_ENABLED"] = "true"  # older images know this alone
    switches = {"GDS_ENABLED": spec.gds.enabled, "GDRCOPY_ENABLED": spec.gdrcopy.enabled}
    told |= {name: "true" for name, on in switches.items() if on}
    told |= rdma(given)
    told |= {f"NVFM_CONFIG_{key}": spec.fabric_manager.config[key] for key in sorted(spec.fabric_manager.config)}
    told |= proxies(given.proxy)
    return [*env(told), from_field("NODE_NAME", "spec.nodeName"), from_field("NODE_IP", "status.hostIP")]


def rdma(given: Inputs) -> dict[str, str]:
    """What tells a container of GPUDirect RDMA."""
    spec = given.driver.spec.rdma
    if not spec.enabled:
        return {}
    return {"GPU_DIRECT_RDMA_ENABLED": "true"} | ({"USE_HOST_MOFED": "true"} if spec.host_mofed else {})


def proxies(proxy: Proxy | None) -> dict[str, str]:
    """Programs differ in which spelling they read."""
    if proxy is None:
        return {}
    values = {"HTTP_PROXY": proxy.http, "HTTPS_PROXY": proxy.https, "NO_PROXY": proxy.no}
    return {name: value for key, value in values.items() if value for name in (key, key.lower())}


def secret(given: Inputs) -> Json:
    """Variables from a Secret that the module does not read."""
    name = given.driver.spec.build.secret_env
    return {"envFrom": [{"secretRef": {"name": name}}]} if name else {}
