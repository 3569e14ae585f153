"""Kubelet's word on a pod of the simulation: its status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api.record import adapter
from controllers.api.resources import POD
from controllers.runtime.errors import NotFound
from sim.nodes import names
from sim.nodes.pods import Pod

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from sim.nodes.cluster import Cluster


async def say(cluster: Cluster, admin: Client, pod: Pod, status: dict[str, Any]) -> None:
    """Write a pod's status as kubelet, and into the cache at once; one that is gone meanwhile has none."""
    meta = {"name": pod.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status}
    try:
        answer = await admin.apply(
            POD, pod.name, body, manager=names.KUBELET, namespace=pod.metadata.namespace, subresource="status"
        )
    except NotFound:
        return
    cluster.pods.on_own_write(adapter(Pod).validate_json(answer))
