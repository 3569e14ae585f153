"""The writes of one variant: its DaemonSet kept as it was built, and taken away once no node needs it. Pure.

A variant's template never changes, but for the image of our own init container and the cluster's proxies: with update
strategy OnDelete that restarts nothing. An edit by hand is undone where the variant can still be built as it was. On
which nodes its pods run, and that no change ends them, is put right in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.resources import CONFIGMAP, DAEMONSET, NODE
from controllers.components.cooldown import cooldown_left
from controllers.components.daemonset import ON_DELETE
from controllers.components.reconcile import is_leaving
from controllers.domain.driver.variant import object_name
from controllers.driver.pods.container_names import PREPARE
from controllers.runtime.drift import is_as_built
from controllers.runtime.plan import Apply, Delete, JSONPatch, Plan, PlanBuilder, Precondition, Ref, ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.kube import DaemonSet
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
    name, wanted = object_name(seen.value), seen.wanted
    if seen.configmap is None and wanted.configmap is not None:
        draft.add(Apply(Ref(CONFIGMAP, name, names.NAMESPACE), wanted.configmap))
    if seen.daemonset is None:
        left = cooldown_left(seen.deleted_at, name, now)
        if left > 0:
            draft.requeue_within(left)
        elif wanted.daemonset is not None and seen.labelled:
            draft.add(Apply(Ref(DAEMONSET, name, names.NAMESPACE), wanted.daemonset))
    elif not is_leaving(seen.daemonset):
        _mend(draft, seen.daemonset, seen.value, wanted.daemonset, seen.agent_image)


def _mend(draft: PlanBuilder, found: DaemonSet, value: str, wanted: Json | None, agent_image: str) -> None:
    made = found.metadata.annotations.get(names.SPEC_HASH)
    if wanted is not None and made == wanted["metadata"]["annotations"][names.SPEC_HASH]:
        if not is_as_built(found.metadata, found.spec, wanted):
            draft.add(Apply(Ref(DAEMONSET, found.name, names.NAMESPACE), wanted))
        return
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
