"""Settings of the module: `ModuleConfig` gpu-control-plane (deckhouse.io/v1alpha1).

`openapi/config-values.yaml` is generated from `Settings`, and the controllers validate with
it. Durations are Go's (`30s`, `2m`, `1h30m`, `500ms`), held here as seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError, model_validator

from controllers.api import names
from controllers.api.component_settings import ComponentSettings, ToolkitSettings
from controllers.api.components import COMPONENTS, TOOLKIT
from controllers.api.conversions import LATEST, convert
from controllers.api.duration import Duration, duration
from controllers.api.gpupool import LABEL_KEY, LABEL_KEY_MAX
from controllers.api.installation import (
    ConsoleInstallation,
    ControllersInstallation,
    NFDCoverageInstallation,
    NodeAgentInstallation,
    PoliciesInstallation,
    Presets,
    WebhookInstallation,
)
from controllers.api.meta import KubeObject
from controllers.api.queue import OnShortage
from controllers.api.record import Atomic, adapter, record
from controllers.api.selector import LabelSelector

if TYPE_CHECKING:
    from controllers.api.component import Component

T = TypeVar("T")
_SETTINGS: Final = {one.name: one.setting for one in COMPONENTS}
FOUND_MAX = 80
"""Characters of a wrong value that a message repeats."""
XID = Annotated[int, Field(ge=1, le=65_535)]
"""Number of an error that NVIDIA's driver reports."""


@record
class ManagedNodes:
    """Which nodes the module manages."""

    label_key: Annotated[str, Field(min_length=1, max_length=317)] = names.LABEL_ENABLED
    """Node label that says whether a node is managed (`true` or `false`)."""
    enabled_by_default: bool = True
    """Whether a GPU node without that label is managed."""


@record
class DeviceApproval:
    """Whether a person confirms each card, where the pool does not say."""

    mode: Literal["Manual", "Automatic", "Selector"] = "Manual"
    """A person confirms; cards are taken by themselves; cards that match the selector are."""
    selector: LabelSelector | None = None
    """Cards (by GPUDevice labels) that are taken by themselves, in mode Selector."""


@record
class SchedulingSettings:
    """Where pods go, where the pool does not say."""

    default_strategy: Literal["Spread", "BinPack"] = "Spread"
    """Spread over nodes, or fill a node first."""
    topology_key: str = "topology.kubernetes.io/zone"
    """Node label over which Spread spreads."""


@record
class InventorySettings:
    """How cards are recorded."""

    resync_period: Duration = duration("30s")
    """How often every node is looked at again although nothing changed."""
    remember_for: Duration = duration("72h")
    """How long a deleted Node's cards keep their assignments for its return; less than a second forgets at once."""


@record
class MonitoringSettings:
    """When a node's telemetry counts as there."""

    scrape_period: Duration = duration("15s")
    """How often the exporter of each node is asked; it measures twice as often, so that a change restarts it."""
    ready_after: Annotated[int, Field(ge=1, le=100)] = 3
    """Answers with fresh values, one after the other, until monitoring is ready."""
    missing_after: Duration = duration("2m")
    """How long without such an answer until monitoring is missing; at least two scrape periods."""
    compatibility: bool = False
    """Export metrics of nodes under the names of NVIDIA's GPU Operator, too (`gpu_operator_node_…`)."""

    @model_validator(mode="after")
    def _outlasts_a_scrape(self) -> MonitoringSettings:
        if self.missing_after < 2 * self.scrape_period:
            msg = (
                f"missingAfter ({self.missing_after:g}s) is less than two scrape periods of {self.scrape_period:g}s:"
                " one late answer would count as missing"
            )
            raise ValueError(msg)
        return self


DeviceStrategy = Literal["Auto", "CDI", "DeviceSpecs"]


def component_fields(cls: type[T]) -> type[T]:
    """Give the class a field for the settings of each component, before its own fields."""
    own = cls.__annotations__
    cls.__annotations__ = {one.setting: _component_settings(one) for one in COMPONENTS} | own
    for one in COMPONENTS:
        setattr(cls, one.setting, Field(default_factory=_settings_of(one), description=one.description))
    return cls


def _settings_of(component: Component) -> type[ComponentSettings]:
    return ToolkitSettings if component.name == TOOLKIT else ComponentSettings


def _component_settings(component: Component) -> Any:
    settings = _settings_of(component)
    if component.minimum is None:
        return settings
    return Annotated[settings, AfterValidator(component.minimum.suffices)]


@record
@component_fields
class BootstrapSettings:
    """How nodes are prepared."""

    monitoring: MonitoringSettings = Field(default_factory=MonitoringSettings)
    """When a node's telemetry counts as there."""
    phase_deadline: Duration = duration("10m")
    """How long a component may take on a node before it is called missing."""
    restart_grace: Duration = duration("1m")
    """How long a pod of a component, or of the node's agent, may be away on a node that is ready (a roll-out)."""

    def component(self, name: str) -> ComponentSettings:
        """What the administrator set for the component of that name; raises KeyError where there is none."""
        chosen: ComponentSettings = getattr(self, _SETTINGS[name])
        return chosen

    @property
    def container_toolkit(self) -> ToolkitSettings:
        """What the administrator set for the container toolkit, and the node's runtime."""
        chosen: ToolkitSettings = getattr(self, _SETTINGS[TOOLKIT])
        return chosen

    def enabled(self, name: str) -> bool:
        """Whether the component of that name is to run."""
        return self.component(name).enabled


@record
class AdmissionSettings:
    """How pods get cards."""

    reservation_ttl: Duration = duration("2m")
    """How long a card is held for a pod that is not bound yet."""
    unseen_ttl: Duration = duration("15s")
    """How long a card is held for a pod that has not appeared (something after us refused it)."""
    max_unseen: Annotated[int, Field(ge=1)] = 32
    """Most reservations of a namespace whose pods have not appeared after 3 s."""
    runtime_class_name: str | None = None
    """RuntimeClass for pods that name none."""
    on_shortage: OnShortage = "Queue"
    """What becomes of a pod for which a pool has no cards now, where the pool does not say."""
    reservations_in_flight: Annotated[int, Field(ge=1, le=256)] = 8
    """Reservations that a replica of the webhook writes at once; a pod beyond them waits in the queue instead."""
    queue_labels: Annotated[
        list[Annotated[str, Field(pattern=f"^{LABEL_KEY}$", max_length=LABEL_KEY_MAX)]], Field(max_length=32), Atomic
    ] = Field(default_factory=lambda: ["kueue.x-k8s.io/queue-name", "kai.scheduler/queue"])
    """Labels of pods that another queue manager admits: they get cards only after all gates of others are gone."""


@record
class MaintenanceSettings:
    """How pools are reconfigured."""

    deadline: Duration = duration("1h")
    """How long pods may keep a pool in Maintenance until its condition calls them overdue; nothing is killed."""


@record
class PoolSettings:
    """How cards come into pools."""

    dangling_after: Duration = duration("10m")
    """How long a pool, or a card that its pool took by itself, has to be missing until the card's annotation goes."""
    plugin_patience: Duration = duration("30s")
    """How long a device plugin has to offer a card before the card says that it does not: the first has to start."""


@record
class DriverSettings:
    """Whether and how the module brings drivers onto nodes."""

    enabled: bool = False
    """Whether gpu-driver-controller runs, which follows objects GPUDriver; without any it does nothing."""
    install_parallel: Annotated[int, Field(ge=1, le=1000)] = 50
    """Nodes without a driver that get one at the same time."""
    prefetch_parallel: Annotated[int, Field(ge=1, le=1000)] = 10
    """Nodes that are looked at, and pull the driver's image for that, at the same time."""
    reboot_sentinel: bool = False
    """Whether a node that needs a reboot gets the file /var/run/reboot-required, which kured and others read."""


@record
class HealthSettings:
    """When cards and nodes are taken out of service."""

    max_unavailable_percent: Annotated[int, Field(ge=1, le=100)] = 20
    """Share of the nodes, in percent, that may be out when one is taken out for its silence; a fault is no silence."""
    temperature_fault_c: Annotated[int, Field(ge=30, le=150)] = 95
    """Temperature of a card, in degrees Celsius, from which it is faulted."""
    temperature_clear_c: Annotated[int, Field(ge=20, le=150)] = 85
    """Temperature, in degrees Celsius, below which a card that was too hot counts as clean; under the other one."""
    recovery_scrapes: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Clean answers of the exporter, one after the other, until a faulted card may return by itself."""
    critical_xids: Annotated[list[XID], Atomic] = Field(default_factory=list)
    """XIDs that fault a card beside those of the module's table."""
    ignored_xids: Annotated[list[XID], Atomic] = Field(default_factory=list)
    """XIDs of the module's table that fault no card."""

    @model_validator(mode="after")
    def _thresholds(self) -> HealthSettings:
        if self.temperature_clear_c >= self.temperature_fault_c:
            msg = (
                f"temperatureClearC ({self.temperature_clear_c}) is not below temperatureFaultC"
                f" ({self.temperature_fault_c}): a card at that temperature would come and go"
            )
            raise ValueError(msg)
        if both := sorted({*self.critical_xids} & {*self.ignored_xids}):
            msg = f"XID {', '.join(map(str, both))} stands in criticalXids and in ignoredXids; which is meant?"
            raise ValueError(msg)
        return self


@record
class Settings:
    """Settings of the module gpu-control-plane."""

    high_availability: bool | None = None
    """Two replicas of every process; Deckhouse decides when left out. With plain Helm: a value of the chart."""
    managed_nodes: ManagedNodes = Field(default_factory=ManagedNodes)
    """Which nodes the module manages."""
    device_approval: DeviceApproval = Field(default_factory=DeviceApproval)
    """Whether a person confirms each card."""
    scheduling: SchedulingSettings = Field(default_factory=SchedulingSettings)
    """Where pods go."""
    inventory: InventorySettings = Field(default_factory=InventorySettings)
    """How cards are recorded."""
    bootstrap: BootstrapSettings = Field(default_factory=BootstrapSettings)
    """How nodes are prepared."""
    admission: AdmissionSettings = Field(default_factory=AdmissionSettings)
    """How pods get cards."""
    maintenance: MaintenanceSettings = Field(default_factory=MaintenanceSettings)
    """How pools are reconfigured."""
    pools: PoolSettings = Field(default_factory=PoolSettings)
    """How cards come into pools."""
    device_strategy: DeviceStrategy = "Auto"
    """How containers get their cards: by CDI, by device nodes, or (Auto) by CDI where the node's runtime applies it."""
    health: HealthSettings = Field(default_factory=HealthSettings)
    """When cards and nodes are taken out of service."""
    driver: DriverSettings = Field(default_factory=DriverSettings)
    """Whether and how the module brings drivers onto nodes."""
    log_level: Literal["Debug", "Info", "Warn", "Error"] = "Info"
    """Least severe messages that are logged."""
    # From here on values of the chart, which no process follows.
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the nodes that the four processes may run on; empty: any. With plain Helm: a value of the chart."""
    webhook: WebhookInstallation = Field(default_factory=WebhookInstallation)
    """The admission webhook."""
    controllers: ControllersInstallation = Field(default_factory=ControllersInstallation)
    """The four processes."""
    console: ConsoleInstallation = Field(default_factory=ConsoleInstallation)
    """The console in the browser (`gpu-console`)."""
    nfd_coverage: NFDCoverageInstallation = Field(default_factory=NFDCoverageInstallation)
    """The CronJob that compares nodes' labels and cards with what is expected."""
    node_agent: NodeAgentInstallation = Field(default_factory=NodeAgentInstallation)
    """The node agents."""
    policies: PoliciesInstallation = Field(default_factory=PoliciesInstallation)
    """What the admission policies let through."""
    presets: Presets = Field(default_factory=Presets)
    """Objects for namespaces that use cards."""


@record
class ModuleConfigSpec:
    """What the administrator sets; `settings` is validated apart, so that a bad value can be told."""

    enabled: bool | None = None
    version: int = 1
    settings: dict[str, Any] = Field(default_factory=dict)


@record
class ModuleConfig(KubeObject):
    """The module's configuration object."""

    spec: ModuleConfigSpec = Field(default_factory=ModuleConfigSpec)


def parse_settings(values: dict[str, Any], version: int = LATEST) -> Settings:
    """Validate settings of a version; raises ValueError with one line for each mistake, naming its place."""
    try:
        settings: Settings = adapter(Settings).validate_python(convert(values, version), extra="forbid")
    except ValidationError as error:
        raise ValueError("; ".join(map(_mistake, error.errors(include_url=False)))) from error
    return settings


def _mistake(error: Any) -> str:
    """One of pydantic's errors: the place, what is expected, what was found."""
    found, what = repr(error["input"]), error["msg"].removeprefix("Value error, ")
    if error["type"] == "unexpected_keyword_argument":
        what = "there is no such setting"
    elif error["type"] == "dataclass_type":
        what = "Input should be a group of settings"  # not the name of a class of ours
    shown = found if len(found) <= FOUND_MAX else f"{found[:FOUND_MAX]}…"
    return f"{'.'.join(map(str, error['loc']))}: {what} (found {shown})"
