"""What the webhook reads of an AdmissionReview: slots records of exactly the fields used. Pure.

The API server encodes these from typed objects, so a field of another type comes from
somebody else and makes the review unreadable. One null is legal: a pod's list of containers.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from controllers.api.kube import Container, Pod, PodSpec
from controllers.api.record import record


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
class Expression:
    """One expression about a node's labels or fields; an operator that we do not know never matches."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@record
class NodeTerm:
    """Expressions that must all hold; none at all matches no node."""

    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


@record
class RequiredNodes:
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


@record
class PreferredNodes:
    """Nodes that the pod would rather have; read to be kept, not to be judged."""

    weight: int = 0
    preference: NodeTerm = Field(default_factory=NodeTerm)


@record
class NodeAffinity:
    """Which nodes the pod must have, and would rather have."""

    required_during_scheduling_ignored_during_execution: RequiredNodes | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] | None = None


@record
class Affinity:
    """The part of a pod's affinity that decides which nodes are possible."""

    node_affinity: NodeAffinity | None = None


@record
class PodToleration:
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@record
class AskingSpec(PodSpec):
    """A pod's spec, with what decides where it can go."""

    containers: Annotated[tuple[Container, ...], BeforeValidator(lambda value: () if value is None else value)] = ()
    node_selector: dict[str, str] = Field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[PodToleration, ...] = ()
    runtime_class_name: str | None = None
    service_account_name: str = ""

    @property
    def required_terms(self) -> tuple[NodeTerm, ...] | None:
        """Terms of which a node must match one; None where the pod states none."""
        nodes = self.affinity.node_affinity if self.affinity else None
        required = nodes.required_during_scheduling_ignored_during_execution if nodes else None
        return required.node_selector_terms if required else None


@record
class AskingPod(Pod):
    """A pod that is being created."""

    spec: AskingSpec = Field(default_factory=AskingSpec)
