"""How many objects of each kind the API server has: leaks show there.

A page of one object tells how many more there are, so that counting costs a small answer for each kind.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson

from controllers.api import names, resources
from controllers.api.meta import KubeObject
from controllers.api.resources import Resource
from controllers.runtime.reflector import Scope
from reliability.kit.caches import listed

if TYPE_CHECKING:
    from controllers.runtime.client import Client

KINDS = (
    resources.NODE,
    resources.POD,
    resources.GPUDEVICE,
    resources.GPUNODEINVENTORY,
    resources.GPUPOOL,
    resources.NODEFEATURE,
    resources.NODEFEATURERULE,
    resources.CONFIGMAP,
    resources.SECRET,
    resources.DAEMONSET,
    resources.RUNTIMECLASS,
    resources.LEASE,
    resources.EVENT,
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision", namespaced=True),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True),
)
OWN = (
    (resources.GPUDEVICE, None),
    (resources.GPUNODEINVENTORY, None),
    (resources.GPUPOOL, None),
    (resources.NODEFEATURERULE, None),
    (resources.CONFIGMAP, names.NAMESPACE),
    (resources.DAEMONSET, names.NAMESPACE),
    (resources.SECRET, names.NAMESPACE),
    (resources.MODULECONFIG, None),
)
"""What the module writes, and where."""


async def counts(client: Client) -> dict[str, int]:
    """Objects by kind."""

    async def one(resource: Resource) -> int:
        answer = orjson.loads(await client.request("GET", resource.path(), query={"limit": "1"}))
        return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)

    found = await asyncio.gather(*map(one, KINDS))
    return {resource.kind: count for resource, count in zip(KINDS, found, strict=True)}


async def versions(client: Client) -> dict[str, str]:
    """The version of every object that the module writes, by kind and name."""
    found: dict[str, str] = {}
    for resource, namespace in OWN:
        items = await listed(client, resource, KubeObject, scope=Scope(namespace=namespace))
        found |= {f"{resource.kind} {item.name}": item.metadata.resource_version for item in items}
    return found
