"""What Kueue is to be told of a pool: a ResourceFlavor and a ClusterQueue, for people to apply. Pure.

Both are people's: quotas are theirs to set, and the module writes none. What is made here is a first draft from the
pool as it is now (Kueue's API: apis/kueue/v1beta2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.domain.allocation import applied, profiles_of
from controllers.domain.request import suffix_for
from controllers.domain.taints import wanted
from controllers.explain.faults import UsageError

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool, Taint

API_VERSION: Final = "kueue.x-k8s.io/v1beta2"
TOLERATIONS_MAX: Final = 8
"""Entries that Kueue allows a flavor. Pods tolerate all taints of their pool anyway: the module sees to it."""
REMARK: Final = (
    "These are printed, not written. Kueue admits no pod that requests a resource without a quota: add cpu and memory"
    " to the ClusterQueue, or have Kueue leave them out (resources.excludeResourcePrefixes of its configuration)."
    " A namespace needs a LocalQueue that names this ClusterQueue."
)


def kueue_objects(pool: GPUPool) -> list[dict[str, Any]]:
    """The pool's ResourceFlavor and ClusterQueue; raises UsageError where it has no figures yet."""
    capacity = pool.status.capacity
    if capacity is None:
        raise UsageError(
            f"GPUPool {pool.name} has no figures yet, so there is no quota to tell: try again in a moment."
        )
    name = f"gpu-{pool.name}"
    flavor: dict[str, Any] = {"nodeLabels": {names.pool_node_label(pool.name): "true"}}
    if tolerations := [_toleration(taint) for taint in wanted(pool)][:TOLERATIONS_MAX]:
        flavor["tolerations"] = tolerations
    quotas = [
        {"name": names.resource_name(suffix), "nominalQuota": slots}
        for suffix, slots in _slots(pool, max(0, capacity.total - capacity.unavailable)).items()
    ]
    group = {"coveredResources": [quota["name"] for quota in quotas], "flavors": [{"name": name, "resources": quotas}]}
    queue = {"namespaceSelector": _namespaces(pool), "resourceGroups": [group]}
    return [_object("ResourceFlavor", name, flavor), _object("ClusterQueue", name, queue)]


def _slots(pool: GPUPool, slots: int) -> dict[str, int]:
    """The pool's slots by the suffix of their resource; each card of a mixed layout has as many of each profile."""
    layout = profiles_of(applied(pool))
    if not layout:
        return {pool.name: slots}
    cards = slots // sum(layout.values())
    return {suffix_for(pool.name, profile): count * cards for profile, count in layout.items()}


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _toleration(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "operator": "Equal", "value": taint.value or "", "effect": taint.effect}


def _namespaces(pool: GPUPool) -> dict[str, Any]:
    """Namespaces that may use the queue: those of the pool where it goes by names alone, else all.

    The webhook decides about each pod in any case.
    """
    access = pool.spec.access
    if access is None or not access.namespaces:
        return {}
    if access.namespace_selector is not None or access.service_accounts or access.dex_groups:
        return {}
    values = sorted(access.namespaces)
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": values}]}
