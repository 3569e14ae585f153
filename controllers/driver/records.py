"""Kubernetes objects as this process reads them: with the fields that it uses and no others. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from controllers.api.driver_look import CUT
from controllers.api.foreign import IsPrivileged, is_adopted
from controllers.api.gpupool import Disruption, PoolPhase
from controllers.api.kube import Pod as KubePod
from controllers.api.kube import PodSpec, PodStatus
from controllers.api.meta import KubeObject
from controllers.api.record import record
from controllers.domain.pool_lifecycle import BEHAVIOUR

Said = Annotated[str, AfterValidator(lambda text: text[:CUT])]
"""A termination message: kubelet cuts it at as many bytes, and no cache holds more of what a node says."""


@record
class Terminated:
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    """Kubelet's word, such as OOMKilled."""
    message: Said = ""


@record
class Waiting:
    """Why a container does not run."""

    reason: str = ""
    """Kubelet's word, such as ImagePullBackOff."""
    message: Said = ""


@record
class ContainerState:
    """What a container does; at most one is there."""

    terminated: Terminated | None = None
    waiting: Waiting | None = None


@record
class ContainerStatus:
    """One container of a pod."""

    name: str
    restart_count: int = 0
    state: ContainerState = Field(default_factory=ContainerState)
    last_state: ContainerState = Field(default_factory=ContainerState)


@record
class DriverPodStatus(PodStatus):
    """With what its containers say."""

    reason: str = ""
    """Why the pod ended as a whole, such as Evicted."""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


@record
class DriverPodSpec(PodSpec):
    """With what it may do on its node."""

    is_privileged: IsPrivileged = False
    """Whether one of its containers is privileged."""


@record
class Pod(KubePod):
    """A pod of a driver's DaemonSet, or a check pod."""

    spec: DriverPodSpec = Field(default_factory=DriverPodSpec)
    status: DriverPodStatus = Field(default_factory=DriverPodStatus)

    @property
    def is_adopted(self) -> bool:
        """Whether it is a driver that another program brought, which a person gave over, and that nothing keeps."""
        return is_adopted(self.metadata, privileged=self.spec.is_privileged)

    def container(self, name: str) -> ContainerStatus | None:
        """What one of its containers says, those of its start among them."""
        found = (*self.status.init_container_statuses, *self.status.container_statuses)
        return next((one for one in found if one.name == name), None)


@record
class PoolSpec:
    """What a pool's owner asks for."""

    disruption: Disruption | None = None


@record
class PoolStatus:
    """Where the pool is."""

    phase: PoolPhase | None = None


@record
class Pool(KubeObject):
    """A GPUPool, as far as drivers of its nodes are concerned."""

    spec: PoolSpec = Field(default_factory=PoolSpec)
    status: PoolStatus = Field(default_factory=PoolStatus)

    @property
    def is_closed(self) -> bool:
        """Whether it offers none of its cards now."""
        phase = self.status.phase
        return self.metadata.deletion_timestamp is not None or (phase is not None and not BEHAVIOUR[phase].offers)
