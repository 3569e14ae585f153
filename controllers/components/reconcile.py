"""DaemonSets and ConfigMaps kept as they are built: compared field by field, written, deleted. Pure.

What is wanted is compared with what is there, field by field (`controllers.runtime.drift`), so that an edit by hand is
found whenever it was made. A field that somebody added beside ours stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from controllers.api import names
from controllers.api.resources import CONFIGMAP, DAEMONSET
from controllers.components.cooldown import cooldown_left
from controllers.runtime.drift import is_as_built, is_as_written
from controllers.runtime.plan import Action, Apply, Delete, Ref, ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.kube import ConfigMap
    from controllers.api.meta import KubeObject, ObjectMeta
    from controllers.components.podspec import Json
    from controllers.runtime.plan import PlanBuilder


class HasMetadata(Protocol):
    """An object of Kubernetes, in whichever record a process reads it."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""


class Workload(HasMetadata, Protocol):
    """A DaemonSet with its whole spec."""

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec."""


def reconcile_daemonset(
    draft: PlanBuilder, name: str, found: Workload | None, wanted: Json, *, deleted_at: Mapping[str, float], now: float
) -> None:
    """Write a DaemonSet that is not as it is wanted; one that is being deleted is waited for.

    `deleted_at` says when names of DaemonSets became free, in epoch seconds: one that somebody deleted comes back after
    its name has been free for a while (`controllers.components.cooldown`).
    """
    if found is None and (left := cooldown_left(deleted_at, name, now)) > 0:
        draft.requeue_within(left)
        return
    if found is None or not (is_leaving(found) or _is_good(found, wanted)):
        draft.add(Apply(Ref(DAEMONSET, name, names.NAMESPACE), wanted))


def reconcile_configmap(draft: PlanBuilder, name: str, found: ConfigMap | None, wanted: Json) -> None:
    """Write a ConfigMap that is not as it is wanted."""
    if found is None or not (is_as_written(found, wanted) and has_owners(found.metadata, wanted)):
        draft.add(Apply(Ref(CONFIGMAP, name, names.NAMESPACE), wanted))


def deletions(configs: Iterable[KubeObject], daemonsets: Iterable[KubeObject]) -> list[Action]:
    """Deletions of what is not being deleted already: the programs first, then what they read."""
    there = [(DAEMONSET, each) for each in daemonsets] + [(CONFIGMAP, each) for each in configs]
    return [Delete(ref(kind, one), one.metadata.resource_version) for kind, one in there if not is_leaving(one)]


def has_owners(meta: ObjectMeta, wanted: Json) -> bool:
    """Whether an object has the owners that are wanted, and no other, where some are.

    One that belongs to a deleted owner of the same name is about to be collected.
    """
    owners = wanted["metadata"].get("ownerReferences")
    return owners is None or [each.uid for each in meta.owner_references] == [each["uid"] for each in owners]


def is_leaving(obj: HasMetadata) -> bool:
    """Whether somebody has deleted an object that is still there."""
    return obj.metadata.deletion_timestamp is not None


def _is_good(found: Workload, wanted: Json) -> bool:
    return is_as_built(found.metadata, found.spec, wanted) and has_owners(found.metadata, wanted)
