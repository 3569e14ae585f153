"""What the clean-up looks at: which objects, and how each is read. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, Field

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node, Pod, PodSpec
from controllers.api.meta import Condition, KubeObject, ObjectMeta
from controllers.api.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.resources import Resource

CONTROLLERS: Final = (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER, names.DRIVER_CONTROLLER, names.WEBHOOK)
"""Deployments of the module; each has a Lease of its name."""
WRITERS: Final = (*CONTROLLERS, names.DISCOVER_DAEMONSET)
"""Programs that make anew what is cleaned up; their pods carry label `app` with that name."""
OURS: Final = tuple(
    f"{kind.plural}.{kind.group}"
    for kind in (resources.GPUDEVICE, resources.GPUNODEINVENTORY, resources.GPUPOOL, resources.GPUDRIVER)
)
MODULE_CONFIGS: Final = f"{resources.MODULECONFIG.plural}.{resources.MODULECONFIG.group}"


@record
class ManagedField:
    """Who wrote fields of an object."""

    manager: str = ""


@record
class ReportMeta(ObjectMeta):
    """With the object's writers."""

    managed_fields: tuple[ManagedField, ...] = ()


@record
class Report(KubeObject):
    """A NodeFeature, as far as it tells who wrote it."""

    metadata: ReportMeta = Field(default_factory=ReportMeta)


@record
class GatedSpec(PodSpec):
    """A pod's spec, with its scheduling gates as they are: they are written as a whole."""

    scheduling_gates: tuple[dict[str, Any], ...] = ()


@record
class GatedPod(Pod):
    """A pod that asks for cards and is bound to no node, as far as it waits for somebody."""

    spec: GatedSpec = Field(default_factory=GatedSpec)


@record
class DefinitionStatus:
    """Which versions objects are stored in, and whether the kind is served."""

    # The API server writes null into both where it has just made one.
    stored_versions: Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())] = ()
    conditions: Annotated[tuple[Condition, ...], BeforeValidator(lambda value: value or ())] = ()


@record
class Definition(KubeObject):
    """A CustomResourceDefinition."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: DefinitionStatus = Field(default_factory=DefinitionStatus)


@dataclass(frozen=True, slots=True)
class Kind:
    """How the objects of one kind are read."""

    resource: Resource
    record: type[Any] = KubeObject
    named: tuple[str, ...] = ()
    """Read one by one, by these names; else all of them are listed."""
    selectors: Mapping[str, str] | None = None
    """Listed in every namespace, those that these select."""


KINDS: Final = (
    Kind(resources.MUTATING_WEBHOOK, named=(names.WEBHOOK_CONFIGURATION,)),
    Kind(resources.VALIDATING_WEBHOOK, named=(names.WEBHOOK_CONFIGURATION,)),
    Kind(resources.DEPLOYMENT, named=CONTROLLERS),
    Kind(resources.LEASE, named=CONTROLLERS),
    Kind(resources.SECRET, named=(names.WEBHOOK_SECRET,)),
    Kind(resources.DAEMONSET),
    Kind(resources.POD, Pod),
    Kind(resources.CONFIGMAP),
    Kind(resources.NODE, Node),
    Kind(resources.RUNTIMECLASS),
    Kind(resources.NODEFEATURE, Report),
    Kind(resources.NODEFEATURERULE, named=(names.NODE_FEATURE_RULE,)),
    Kind(resources.GPUPOOL),
    Kind(resources.GPUDRIVER),
    Kind(resources.GPUDEVICE, GPUDevice),
    Kind(resources.GPUNODEINVENTORY),
    Kind(resources.MODULECONFIG),
    Kind(resources.CRD, Definition, named=(*OURS, MODULE_CONFIGS)),
)
"""What is namespaced is read in the module's namespace only."""
UNBOUND: Final = Kind(
    resources.POD, GatedPod, selectors={"labelSelector": names.LABEL_POOL, "fieldSelector": "spec.nodeName="}
)
"""Pods that ask for cards and are bound to no node: those in a pool's queue, and those that the scheduler has."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The cluster, as far as the clean-up goes."""

    objects: Mapping[str, tuple[Any, ...]]
    """By kind; none where the kind is not served."""
    leading: frozenset[str] = frozenset()
    """Leases that somebody holds and renews."""
    unbound: tuple[GatedPod, ...] = ()
    """Pods of every namespace that ask for cards and are bound to no node."""

    def of(self, resource: Resource) -> tuple[Any, ...]:
        """The objects of a kind."""
        return self.objects.get(resource.kind, ())


def is_ours(obj: KubeObject) -> bool:
    """Whether an object carries the module's label."""
    return obj.metadata.labels.get(names.LABEL_MODULE) == names.MODULE
