"""Pods that may use cards, whoever gives these, and the ResourceClaims of some: records of the fields used.

Of a stored pod no more is kept than is needed: of its containers what they ask for of cards, of its labels and
annotations those by which it protects itself or belongs to a job, and of its volumes whether one loses data on disk.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from controllers.api import gangs, names
from controllers.api.kube import Pod, PodSpec, PodStatus, asking
from controllers.api.meta import KubeObject, ObjectMeta, keeping
from controllers.api.record import record

NVIDIA: Final = "nvidia.com/"
"""Before the resources of NVIDIA's device plugin, by every name that its settings give them."""
MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of pods that kubelet runs from files of the node, and that no API server can end."""
PROTECTIONS: Final = {
    names.DO_NOT_DISRUPT: "true",
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "nvidia.com/gpu-driver-upgrade-drain.skip": "true",
}
"""Annotations or labels with the value by which a pod's author says that it is not to be evicted."""
JOBS: Final = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "scheduling.x-k8s.io/pod-group",
    "scheduling.k8s.io/group-name",
)
"""Labels or annotations that name a job within its namespace: of JobSet, of the training operator, of a PodGroup as the
coscheduling plugin has them, and as Volcano has them. The first that a pod has counts."""
_KEPT: Final = frozenset({names.REQUEST_ID, MIRROR, *PROTECTIONS, *JOBS}) | gangs.KEYS


def asks_for_cards(resource: str) -> bool:
    """Whether an extended resource may stand for cards: of a pool of ours, or of NVIDIA's device plugin."""
    return resource.startswith((names.PREFIX, NVIDIA))


@record
class PodClaim:
    """A ResourceClaim that the pod names, or a template of one."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


@record
class PodClaimStatus:
    """The ResourceClaim that was made for the pod from a template."""

    name: str
    resource_claim_name: str | None = None


def _on_disk(volumes: Any) -> bool:
    """Whether one of the volumes is an emptyDir that is not memory: what is in it ends with the pod."""
    if isinstance(volumes, bool):
        return volumes  # a record that is made from another one
    found = (volume.get("emptyDir") for volume in volumes or () if isinstance(volume, dict))
    return any(isinstance(made, dict) and made.get("medium") != "Memory" for made in found)


@record
class UserSpec(PodSpec):
    """A pod's spec, with what decides whether it uses cards and how it may leave."""

    priority: int | None = None
    resource_claims: tuple[PodClaim, ...] = ()
    has_local_data: Annotated[bool, BeforeValidator(_on_disk), Field(alias="volumes")] = False
    """Whether it has an emptyDir on disk."""


def _kept(spec: UserSpec) -> UserSpec:
    return replace(
        spec,
        containers=asking(spec.containers, asks_for_cards),
        init_containers=asking(spec.init_containers, asks_for_cards),
    )


@record
class UserStatus(PodStatus):
    """A pod's status, with the claims that were made for it."""

    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()


@record
class UserPod(Pod):
    """A pod that may use cards: it asks for some, or for what a DRA driver gives."""

    metadata: Annotated[ObjectMeta, keeping(_KEPT, _KEPT)] = Field(default_factory=ObjectMeta)
    spec: Annotated[UserSpec, AfterValidator(_kept)] = Field(default_factory=UserSpec)
    status: UserStatus = Field(default_factory=UserStatus)

    @property
    def claims(self) -> frozenset[str]:
        """The ResourceClaims that it has (`namespace/name`)."""
        named = [one.resource_claim_name for one in self.spec.resource_claims]
        named += [one.resource_claim_name for one in self.status.resource_claim_statuses]
        return frozenset(f"{self.metadata.namespace}/{name}" for name in named if name)


def may_use_cards(pod: UserPod) -> bool:
    """Whether a pod is one of which anything is kept."""
    return bool(pod.spec.containers or pod.spec.init_containers or pod.spec.resource_claims)


@record
class Allocated:
    """One device that was allocated for a claim."""

    driver: str = ""
    admin_access: bool | None = None
    """Whether it is for looking after the device, and leaves that to others: such a pod holds no card."""


@record
class AllocatedDevices:
    """The devices that were allocated for a claim."""

    results: tuple[Allocated, ...] = ()


@record
class ClaimAllocation:
    """What a claim has got."""

    devices: AllocatedDevices = Field(default_factory=AllocatedDevices)


@record
class ClaimStatus:
    """The part of a claim's status that the module reads."""

    allocation: ClaimAllocation | None = None


@record
class ResourceClaim(KubeObject):
    """A claim of devices, which DRA drivers give."""

    metadata: Annotated[ObjectMeta, keeping(frozenset(), frozenset())] = Field(default_factory=ObjectMeta)
    status: ClaimStatus = Field(default_factory=ClaimStatus)
