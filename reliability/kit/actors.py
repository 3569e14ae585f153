"""What administrators and users do through the API: settings, namespaces, nodes, pools, deletions, retries."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from controllers.api.conversions import LATEST
from controllers.runtime.errors import AlreadyExists, ApiError, NotFound, RuntimeFault
from sim.nodes import kubelet
from sim.nodes.manifests import node_manifests
from sim.workload import gpupool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from controllers.runtime.client import Client

UNASKED = "failed calling webhook"
"""What the API server says where a webhook could not be asked."""
AGAIN = 10.0
"""Seconds for which a pod is created again then."""


async def configure(client: Client, settings: Mapping[str, Any], *, manager: str, enabled: bool = True) -> None:
    """Apply the module's ModuleConfig with these settings."""
    kind = {"apiVersion": resources.MODULECONFIG.api_version, "kind": resources.MODULECONFIG.kind}
    spec = {"enabled": enabled, "version": LATEST, "settings": settings}
    body = {**kind, "metadata": {"name": names.MODULE}, "spec": spec}
    await client.apply(resources.MODULECONFIG, names.MODULE, body, manager=manager)


async def create_namespace(client: Client, name: str, *, manager: str) -> None:
    """Create a namespace where it is not there."""
    with suppress(AlreadyExists):
        await client.create(resources.NAMESPACE, {"metadata": {"name": name}}, manager=manager)


async def create_node(
    client: Client,
    name: str,
    shape: str,
    *,
    manager: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> None:
    """Create a simulated node of a shape of sim/hardware; raises AlreadyExists."""
    (node,) = node_manifests([shape], prefix=name, annotations=annotations or {})
    meta = node["metadata"]
    meta |= {"name": name, "labels": meta["labels"] | kubelet.labels(name) | dict(labels or {})}
    await client.create(resources.NODE, node, manager=manager)


async def create_pool(client: Client, name: str, *, manager: str, **spec: Any) -> None:
    """Create a GPUPool; raises AlreadyExists."""
    await client.create(resources.GPUPOOL, gpupool(name, **spec), manager=manager)


async def create_pod(client: Client, pod: Mapping[str, Any], namespace: str, *, manager: str) -> None:
    """Create a pod as a workload's controller does: again, where the webhook could not be asked.

    A replica that ends does so just as the API server may write to it.
    """

    def was_not_asked(error: RuntimeFault) -> bool:
        return isinstance(error, ApiError) and UNASKED in error.message

    await retry(
        lambda: client.create(resources.POD, dict(pod), namespace, manager=manager), AGAIN, is_tried_again=was_not_asked
    )


async def delete(client: Client, resource: resources.Resource, name: str, namespace: str | None = None) -> None:
    """Delete an object without a grace period; one that is not there is fine."""
    with suppress(NotFound):
        await client.request("DELETE", resource.path(namespace, name), body={"gracePeriodSeconds": 0})


async def retry(
    call: Callable[[], Awaitable[Any]],
    seconds: float,
    every: float = 0.1,
    *,
    is_tried_again: Callable[[RuntimeFault], bool] = lambda _: True,
) -> Any:
    """Repeat a request until it succeeds, for so many seconds; returns its answer, raises the last refusal.

    `is_tried_again`: after which refusals; any other is raised at once.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await call()
        except RuntimeFault as error:
            if time.monotonic() > deadline or not is_tried_again(error):
                raise
        await asyncio.sleep(every)
