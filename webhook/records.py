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
class AskingNodeAffinity(NodeAffinity):
    """Which nodes the pod must have, and would rather have."""

    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] | None = None


@record
class AskingAffinity(Affinity):
    """The part of a pod's affinity that is about nodes."""

    node_affinity: AskingNodeAffinity | None = None


@record
class AskingSpec(TenantSpec):
    """A pod's spec, with what decides where it can go."""

    containers: Annotated[tuple[Container, ...], BeforeValidator(lambda value: () if value is None else value)] = ()
    affinity: AskingAffinity | None = None
    runtime_class_name: str | None = None
    service_account_name: str = ""


@record
class AskingPod(TenantPod):
    """A pod that is being created."""

    spec: AskingSpec = Field(default_factory=AskingSpec)
