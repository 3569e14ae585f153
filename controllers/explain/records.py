"""What is read beside the module's own objects: pods with what kubelet says, what makes them, and events. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from controllers.api.meta import KubeObject
from controllers.api.record import record
from controllers.api.resources import Resource
from controllers.api.tenant import TenantPod, TenantStatus

REPLICASET = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFULSET = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
JOB = Resource("batch", "v1", "jobs", "Job", namespaced=True)
CORE_EVENT = Resource("", "v1", "events", "Event", namespaced=True)
"""Events under the group in which Kubernetes' own role `view` lets people read them."""


@record
class DetailedCondition:
    """A condition with what it says."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@record
class ContainerStateWaiting:
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


@record
class ContainerState:
    """The state of a container, as far as it waits."""

    waiting: ContainerStateWaiting | None = None


@record
class ContainerStatus:
    """What kubelet says of a container."""

    name: str
    state: ContainerState = Field(default_factory=ContainerState)


@record
class DetailedPodStatus(TenantStatus):
    """A pod's status with the reasons."""

    reason: str = ""
    message: str = ""
    start_time: str | None = None
    """When kubelet took the pod, RFC 3339."""
    detailed_conditions: tuple[DetailedCondition, ...] = Field(default=(), alias="conditions")
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


@record
class SeenPod(TenantPod):
    """A pod, as far as an explanation goes."""

    status: DetailedPodStatus = Field(default_factory=DetailedPodStatus)


@record
class WorkloadSpec:
    """How many pods something makes: replicas, or of a Job the others."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


@record
class WorkloadStatus:
    """How many pods it has made; which field says so depends on the kind."""

    replicas: int = 0
    active: int = 0
    succeeded: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    conditions: tuple[DetailedCondition, ...] = ()


@record
class Workload(KubeObject):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)
    status: WorkloadStatus = Field(default_factory=WorkloadStatus)


@record
class Involved:
    """The object that an event is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


@record
class EventSeries:
    """An event that came more than once."""

    last_observed_time: str | None = None


@record
class SeenEvent(KubeObject):
    """An event, from whichever API it was written."""

    involved_object: Involved = Field(default_factory=Involved)
    reason: str | None = None
    message: str | None = None
    type: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None

    @property
    def when(self) -> str:
        """When it was last seen, RFC 3339; empty where it does not say."""
        again = self.series.last_observed_time if self.series else None
        return again or self.last_timestamp or self.event_time or self.first_timestamp or ""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that could not be read, with the sentence that says why."""

    reason: str
