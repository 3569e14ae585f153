"""The pods and pools that people create in demonstrations, benchmarks, soaks and tests. Pure."""

from __future__ import annotations

from typing import Any

from controllers.api.names import GROUP, VERSION, resource_name

IMAGE = "registry.k8s.io/pause:3.10"
"""Does nothing, and is small."""


def pod_spec(pool: str | None, units: int = 1, **spec: Any) -> dict[str, Any]:
    """The spec of a pod that asks for cards of a pool, or slots of them; of none where `pool` is none."""
    container: dict[str, Any] = {"name": "main", "image": IMAGE}
    if pool is not None:
        container["resources"] = {"limits": {resource_name(pool): str(units)}}
    # On nodes without machines nothing answers a termination: do not wait for it.
    return {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}


def gpu_pod(name: str, pool: str | None, units: int = 1, **spec: Any) -> dict[str, Any]:
    """The pod; its namespace is the request's."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(pool, units, **spec)}


def gpupool(name: str, **spec: Any) -> dict[str, Any]:
    """A GPUPool with this spec, in JSON."""
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "GPUPool", "metadata": {"name": name}, "spec": spec}


def gpudriver(name: str, version: str, **spec: Any) -> dict[str, Any]:
    """A GPUDriver of that version."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "GPUDriver",
        "metadata": {"name": name},
        "spec": {"version": version, **spec},
    }
