"""Pods as the simulation caches them: also what the containers' states are, which kubelet keeps."""

from __future__ import annotations

from pydantic import Field

from controllers.api import kube
from controllers.api import names as api
from controllers.api.foreign import part_of
from controllers.api.record import record


@record
class Waiting:
    """Why a container does not run."""

    reason: str = ""


@record
class Running:
    """Since when a container runs."""

    started_at: str | None = None


@record
class Terminated:
    """How a container ended."""

    exit_code: int = 0
    started_at: str | None = None
    finished_at: str | None = None
    message: str = ""


@record
class ContainerState:
    """A container's state, as far as it is read."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


@record
class ContainerStatus:
    """What kubelet says of a container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = Field(default_factory=ContainerState)
    last_state: ContainerState = Field(default_factory=ContainerState)


@record
class SecretKey:
    """A key of a Secret."""

    name: str = ""
    key: str = ""


@record
class Source:
    """Where a value comes from, as far as it is a Secret."""

    secret_key_ref: SecretKey | None = None


@record
class Variable:
    """A variable of a container's environment; one whose value comes from elsewhere has none here."""

    name: str
    value: str = ""
    value_from: Source | None = None


@record
class Variables:
    """Variables that come from all keys of a Secret."""

    secret_ref: SecretKey | None = None


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
    env_from: tuple[Variables, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()

    @property
    def secrets(self) -> tuple[SecretKey, ...]:
        """Secrets that it needs to be started; of those without a key it takes every one."""
        whole = (one.secret_ref for one in self.env_from)
        single = (one.value_from.secret_key_ref for one in self.env if one.value_from is not None)
        return tuple(found for found in (*whole, *single) if found is not None)


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
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


@record
class PodCondition(kube.PodCondition):
    """A condition of a pod."""

    last_transition_time: str | None = None


@record
class PodStatus(kube.PodStatus):
    """A pod's status."""

    conditions: tuple[PodCondition, ...] = ()

    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


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
    def driver(self) -> str:
        """The GPUDriver of which it brings the driver, or looks for it; empty where it is no such pod."""
        ours = self.metadata.namespace == api.NAMESPACE
        return self.metadata.labels.get(api.LABEL_DRIVER, "") if ours else ""

    @property
    def drives_for_others(self) -> bool:
        """Whether it brings a driver for another program than the module."""
        return self.metadata.namespace != api.NAMESPACE and part_of(self.metadata.labels) == "driver"

    @property
    def kept(self) -> bool:
        """Whether a DaemonSet keeps it: of the pods of a driver, one that installs it rather than looks."""
        return self.metadata.daemonset is not None

    @property
    def started(self) -> bool:
        """Whether kubelet, played by KWOK, has taken it, and nobody ends it."""
        return bool(self.status.container_statuses) and self.metadata.deletion_timestamp is None and not self.finished
