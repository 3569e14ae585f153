"""What the webhook reads of an AdmissionReview: slots records of exactly the fields used. Pure.

The API server encodes these from typed objects, so a field of another type comes from
somebody else and makes the review unreadable. One null is legal: a pod's list of containers.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from controllers.api.kube import Container
from controllers.api.record import record
from controllers.api.tenant import Affinity, NodeAffinity, NodeTerm, TenantPod, TenantSpec


@record
class UserInfo:
    """Who creates the pod: a person, or a controller in somebody's name."""

    username: str = ""
    groups: tuple[str, ...] = ()


@record
class ResourceName:
    """The resource that the request is about."""

    group: str = ""
    version: str = ""
    resource: str = ""


@record
class ReviewRequest:
    """The `request` of an AdmissionReview; the object comes apart, as it was sent."""

    operation: str = ""
    resource: ResourceName = Field(default_factory=ResourceName)
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    user_info: UserInfo = Field(default_factory=UserInfo)
    object: Any = None


@record
class PreferredNodes:
    """Nodes that the pod would rather have; read to be kept, not to be judged."""

    weight: int = 0
    preference: NodeTerm = Field(default_factory=NodeTerm)


@record
class AdmissionNodeAffinity(NodeAffinity):
    """Which nodes the pod must have, and would rather have."""

    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] | None = None


@record
class PodTerms:
    """Pods that the pod must, or would rather, be near to or away from; read to be kept."""

    required_during_scheduling_ignored_during_execution: tuple[Any, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[Any, ...] | None = None


@record
class AdmissionAffinity(Affinity):
    """A pod's affinity."""

    node_affinity: AdmissionNodeAffinity | None = None
    pod_affinity: PodTerms | None = None
    pod_anti_affinity: PodTerms | None = None


@record
class PoolAffinity(AdmissionAffinity):
    """The affinity that a pool adds."""


@record
class AdmissionPodSpec(TenantSpec):
    """A pod's spec, with what decides where it can go."""

    containers: Annotated[tuple[Container, ...], BeforeValidator(lambda value: () if value is None else value)] = ()
    affinity: AdmissionAffinity | None = None
    runtime_class_name: str | None = None
    service_account_name: str = ""


@record
class AdmissionPod(TenantPod):
    """A pod that is being created."""

    spec: AdmissionPodSpec = Field(default_factory=AdmissionPodSpec)
