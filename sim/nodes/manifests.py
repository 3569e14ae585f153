"""Simulated nodes as manifests, and their creation. Building is pure; creating needs a client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import cycle, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from controllers.api.resources import NODE
from controllers.runtime.errors import AlreadyExists
from sim.hardware import Catalogue, load
from sim.nodes import kubelet, names
from tools.errors import UserError

if TYPE_CHECKING:
    from controllers.runtime.client import Client

DEFAULT = ("h100-sxm-8", "a100-sxm-8", "l40s-4", "l40s-4")
"""Shapes of nodes where nobody says which, over and over."""
ZONES = ("zone-a", "zone-b", "zone-c")
PODS = "110"
MANAGER = "sim"
_AT_ONCE = 16


def parse_profile(text: str, nodes: int) -> list[str]:
    """The shape of each node.

    `h100-sxm-8=2,no-gpu=5` says how many of each; without numbers (`h100-sxm-8,t4-4`) the
    shapes take turns over `nodes`; nothing means the default. Raises UserError.

    A shape may be followed by its system and by words about its host (`sim.nodes.host`): `l40s-4@ubuntu24.04+bare`.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    pairs = [word.partition("=") for word in words]
    counted = [count for _, equals, count in pairs if equals]
    if (counted and len(counted) != len(words)) or not all(count.isdigit() for count in counted):
        raise UserError(
            f"cannot read the profile {text!r}",
            expected="shapes with numbers (h100-sxm-8=2,no-gpu=5), or shapes alone (h100-sxm-8,t4-4)",
        )
    if counted:
        return [shape for shape, _, count in pairs for _ in range(int(count))]
    return list(islice(cycle([shape for shape, _, _ in pairs] or DEFAULT), nodes))


def node_manifests(
    shapes: Iterable[str],
    *,
    prefix: str = "gpu",
    catalogue: Catalogue | None = None,
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> list[Any]:
    """Nodes `<prefix>-1`, `<prefix>-2`, … of these shapes; raises UserError for an unknown shape or system.

    `annotations`: of each, beside those that say what it is.
    """
    catalogue = catalogue or load()
    return [_node(f"{prefix}-{n}", n - 1, shape, catalogue, annotations) for n, shape in enumerate(shapes, 1)]


async def create_nodes(client: Client, manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Create nodes that are not there yet; returns the names of those that were not."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def create(manifest: Mapping[str, Any]) -> str | None:
        async with limit:
            try:
                await client.create(NODE, manifest, manager=MANAGER)
            except AlreadyExists:
                return None
            return str(manifest["metadata"]["name"])

    return [name for name in await asyncio.gather(*map(create, manifests)) if name is not None]


def _node(name: str, index: int, text: str, catalogue: Catalogue, annotations: Mapping[str, str]) -> dict[str, Any]:
    shape_name, *words = text.split("+")
    shape_name, _, system_name = shape_name.partition("@")
    shape, system = catalogue.shape(shape_name), catalogue.system_named(system_name)
    marks = {names.SYSTEM: system_name, names.HOST: ",".join(words)}
    amounts = {"cpu": str(shape.cpu), "memory": shape.memory, "pods": PODS, "ephemeral-storage": "1Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {
                names.FAKE: "fake",
                names.SHAPE: shape.name,
                **{key: value for key, value in marks.items() if value},
                **annotations,
            },
            "labels": {
                **kubelet.labels(name),
                "node.kubernetes.io/instance-type": shape.name,
                "topology.kubernetes.io/zone": ZONES[index % len(ZONES)],
            },
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kernelVersion": system.kernel,
                "osImage": system.os_image,
                "containerRuntimeVersion": "containerd://2.0.5",
                "kubeletVersion": "v1.34.4",
                "bootID": "",
                "kubeProxyVersion": "",
                "machineID": "",
                "systemUUID": "",
            },
        },
    }
