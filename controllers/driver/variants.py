"""The writes of one variant: DaemonSet and ConfigMap are kept as they were built, and go once no node needs them. Pure.

A variant's template never changes, but for the image of our own init container and the cluster's proxies: with update
strategy OnDelete that restarts nothing. An edit by hand is undone where the variant can still be built as it was. On
which nodes its pods run, and that no change ends them, is put right in any case. A ConfigMap that another version of
the module builds otherwise stays as it is: it goes with the template that mounts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.resources import CONFIGMAP, DAEMONSET, NODE
from controllers.components.daemonset import ON_DELETE
from controllers.components.reconcile import is_leaving, reconcile_configmap, reconcile_daemonset
from controllers.domain.driver.variant import object_name
from controllers.driver.pods.container_names import PREPARE
from controllers.runtime.plan import Delete, JSONPatch, Plan, PlanBuilder, Precondition, ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.kube import ConfigMap, DaemonSet
    from controllers.driver.views import Json, ObservedVariant


def plan_variant(seen: ObservedVariant, now: float) -> Plan:
    """The next writes of a variant."""
    draft = PlanBuilder()
    if not seen.enabled:
        return draft.build()  # drivers under pods are no operands to be removed
    if seen.used:
        _keep(draft, seen, now)
    elif not seen.remembered:
        _remove(draft, seen)
    return draft.build()


def _keep(draft: PlanBuilder, seen: ObservedVariant, now: float) -> None:
    name, wanted, found = object_name(seen.value), seen.wanted, seen.daemonset
    if wanted.configmap is not None and (seen.configmap is None or _is_of(seen.configmap, wanted.configmap)):
        reconcile_configmap(draft, name, seen.configmap, wanted.configmap)
    if found is None:
        if wanted.daemonset is not None and seen.labelled:
            reconcile_daemonset(draft, name, None, wanted.daemonset, deleted_at=seen.deleted_at, now=now)
    elif wanted.daemonset is not None and _is_of(found, wanted.daemonset):
        reconcile_daemonset(draft, name, found, wanted.daemonset, deleted_at=seen.deleted_at, now=now)
    elif not is_leaving(found):
        _put_right(draft, found, seen.value, seen.agent_image)


def _is_of(found: DaemonSet | ConfigMap, wanted: Json) -> bool:
    """Whether an object was built as it is today, whatever somebody has made of it since.

    Each version notes what it built: an object without the note has been edited.
    """
    made: str = wanted["metadata"]["annotations"][names.SPEC_HASH]
    return found.metadata.annotations.get(names.SPEC_HASH, made) == made


def _put_right(draft: PlanBuilder, found: DaemonSet, value: str, agent_image: str) -> None:
    """Of a DaemonSet that nobody can build any more: on which nodes its pods run, and that no change ends them."""
    changes = tuple(
        {"op": "add", "path": path, "value": right}
        for path, there, right in _always(found.spec, value, agent_image)
        if there != right
    )
    if changes:
        draft.add(JSONPatch(ref(DAEMONSET, found), found.metadata.resource_version, changes))


def _always(spec: Json, value: str, agent_image: str) -> Iterator[tuple[str, Any, Any]]:
    """What is right of a DaemonSet that nobody can build any more: where it stands, what is there, what has to be."""
    pod: Json = spec.get("template", {}).get("spec", {})
    yield "/spec/template/spec/nodeSelector", pod.get("nodeSelector"), {names.DRIVER_VARIANT: value}
    strategy = spec.get("updateStrategy", {})
    if strategy.get("type") != ON_DELETE["type"]:
        yield "/spec/updateStrategy", strategy, ON_DELETE
    for number, one in enumerate(pod.get("initContainers") or ()):
        if one.get("name") == PREPARE and agent_image:
            yield f"/spec/template/spec/initContainers/{number}/image", one.get("image"), agent_image


def _remove(draft: PlanBuilder, seen: ObservedVariant) -> None:
    """Delete what nobody needs: a DaemonSet that goes takes drivers with it, so the API server is asked first."""
    nobody = Precondition(NODE, frozenset(), labels=f"{names.DRIVER_VARIANT}={seen.value}")
    for kind, found in ((DAEMONSET, seen.daemonset), (CONFIGMAP, seen.configmap)):
        if found is not None and not is_leaving(found):
            draft.add(nobody, Delete(ref(kind, found), found.metadata.resource_version))
