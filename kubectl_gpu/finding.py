"""Objects by the names that people type."""

from __future__ import annotations

from typing import Any

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.explain import choice
from controllers.explain.faults import UsageError
from controllers.explain.records import Unreadable
from controllers.explain.words import meant
from controllers.runtime.errors import NotFound
from kubectl_gpu.cluster import Cluster, attempt


async def card(cluster: Cluster, given: str) -> GPUDevice:
    """The card of that name or inventoryID; raises UsageError."""
    try:
        return (await cluster.get(resources.GPUDEVICE, GPUDevice, choice.object_name(given))).obj
    except NotFound as error:
        if not error.about:
            raise  # the kind itself is not there
        return choice.find(given, [each.obj for each in await cluster.list(resources.GPUDEVICE, GPUDevice)])


async def get_or_fail(
    cluster: Cluster,
    resource: resources.Resource,
    cls: type[Any],
    name: str,
    noun: str,
    *,
    namespace: str | None = None,
) -> Any:
    """The object; raises UsageError with a guess at what was meant."""
    try:
        return (await cluster.get(resource, cls, name, namespace)).obj
    except NotFound as error:
        if not error.about:
            raise
        known = await attempt(cluster.list(resource, cls, namespace=namespace))
        guess = "" if isinstance(known, Unreadable) else meant(name, [found.obj.name for found in known])
        where = f" in namespace {namespace}" if namespace else ""
        raise UsageError(f"There is no {noun} {name!r}{where}.{guess}") from error


async def maybe(
    cluster: Cluster, resource: resources.Resource, cls: type[Any], name: str | None, namespace: str | None = None
) -> Any:
    """The object; None where it is not there, Unread where this person may not see it."""
    if name is None:
        return None
    return await attempt(_get(cluster, resource, cls, name, namespace))


async def _get(cluster: Cluster, resource: resources.Resource, cls: type[Any], name: str, namespace: str | None) -> Any:
    try:
        return (await cluster.get(resource, cls, name, namespace)).obj
    except NotFound:
        return None
