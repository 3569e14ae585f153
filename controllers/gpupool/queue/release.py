"""The release of a pod that waited: one conditional patch, which takes our gate off and says which cards are its. Pure.

A gate cannot come back, so the patch is sent only when all cards of the pod are reserved. It changes nothing that the
pod's author wrote; policy `gpu-control-plane-pod-gate` holds gpupool-controller to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.record import to_json
from controllers.api.resources import POD
from controllers.domain.json_pointer import pointer
from controllers.runtime.plan import JSONPatch, ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpupool import Toleration
    from controllers.api.tenant import PodToleration, TenantPod

PREFERRED = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
WEIGHT_MAX = 100


def release_without_cards(pod: TenantPod, tolerated: Iterable[Toleration]) -> JSONPatch:
    """Let a pod with our gate alone go on to the scheduler, which finds no place for it: autoscalers see that."""
    without_gate = {"op": "remove", "path": pointer("spec", "schedulingGates")}
    operations = (without_gate, *_tolerate(pod, tolerated))
    return JSONPatch(ref(POD, pod), pod.metadata.resource_version, operations, parallel_safe=True)


def release(pod: TenantPod, node: str, devices: str, tolerated: Iterable[Toleration]) -> JSONPatch:
    """Let a pod with our gate alone go on to a node. `devices`: its cards' inventoryIDs, parted by commas."""
    return JSONPatch(
        ref(POD, pod),
        pod.metadata.resource_version,
        (
            {"op": "remove", "path": pointer("spec", "schedulingGates")},
            {"op": "add", "path": pointer("metadata", "annotations", names.DEVICES), "value": devices},
            *_prefer(pod, node),
            *_tolerate(pod, tolerated),
        ),
        parallel_safe=True,
    )


def _prefer(pod: TenantPod, node: str) -> Iterable[dict[str, Any]]:
    """The node of the cards before others. The webhook has required the pool's nodes, so there is node affinity."""
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    term = {"weight": WEIGHT_MAX, "preference": here}
    nodes = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if nodes is None:
        return
    if nodes.has_preference:
        yield {"op": "add", "path": pointer(*PREFERRED, "-"), "value": term}
    else:
        yield {"op": "add", "path": pointer(*PREFERRED), "value": [term]}


def _tolerate(pod: TenantPod, tolerated: Iterable[Toleration]) -> Iterable[dict[str, Any]]:
    """What the pool's pods tolerate now, and this one does not yet: it may have waited for days."""
    missing = [to_json(one) for one in tolerated if not any(_same(one, there) for there in pod.spec.tolerations)]
    if missing and not pod.spec.tolerations:
        yield {"op": "add", "path": pointer("spec", "tolerations"), "value": missing}
        return
    for one in missing:
        yield {"op": "add", "path": pointer("spec", "tolerations", "-"), "value": one}


def _same(one: Toleration, there: PodToleration) -> bool:
    wanted = (one.key or "", one.operator or "", one.value or "", one.effect or "")
    return wanted == (there.key, there.operator, there.value, there.effect)
