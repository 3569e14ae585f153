"""Pods as the simulation caches them: also what the containers' states are, which kubelet keeps."""

from __future__ import annotations

from pydantic import Field

from controllers.api import kube
from controllers.api import names as api
from controllers.api.record import record


@record
class Waiting:
    """Why a container does not run."""

    reason: str = ""


@record
class ContainerState:
    """A container's state, as far as it is read."""

    waiting: Waiting | None = None


@record
class ContainerStatus:
    """What kubelet says of a container."""

    name: str = ""
    ready: bool = False
    state: ContainerState = Field(default_factory=ContainerState)


@record
class Variable:
    """A variable of a container's environment; one whose value comes from elsewhere has none here."""

    name: str
    value: str = ""


@record
class Mount:
    """Where a container has a volume."""

    name: str
    mount_path: str


@record
class Container(kube.Container):
    """A container with its image, and what its program finds."""

    image: str = ""
    env: tuple[Variable, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()


@record
class HostPath:
    """A place on the host."""

    path: str = ""


@record
class Volume:
    """A volume, as far as it is of the host."""

    name: str
    host_path: HostPath | None = None


@record
class PodSpec(kube.PodSpec):
    """A pod's spec."""

    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


@record
class PodStatus(kube.PodStatus):
    """A pod's status."""

    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()


@record
class Pod(kube.Pod):
    """A pod."""

    spec: PodSpec = Field(default_factory=PodSpec)
    status: PodStatus = Field(default_factory=PodStatus)

    @property
    def component(self) -> str:
        """Which component of the module it is, and on probation here; empty where it is none."""
        ours = self.metadata.namespace == api.NAMESPACE
        return self.metadata.labels.get(api.LABEL_COMPONENT, "") if ours else ""

    @property
    def started(self) -> bool:
        """Whether kubelet, played by KWOK, has taken it, and nobody ends it."""
        return bool(self.status.container_statuses) and self.metadata.deletion_timestamp is None and not self.finished
