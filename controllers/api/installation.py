"""What the administrator decides about how the module is installed: values of the chart, which no process follows.

In Deckhouse a ModuleConfig can set nothing but settings, so that they stand among them. Names and shapes are those of
`values.yaml`, where a cluster with plain Helm sets them: there nobody renders a ModuleConfig.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from controllers.api.record import Atomic, record


def _network(value: str) -> str:
    """A range as a NetworkPolicy takes it: an address alone is none."""
    try:
        address, length = value.split("/")
        ipaddress.ip_network((address, int(length)), strict=False)
    except ValueError:
        msg = f"{value!r} is no range of addresses; write an address and a length, such as 10.0.0.1/32"
        raise ValueError(msg) from None
    return value


def _one_for_each_namespace(quotas: list[Quota]) -> list[Quota]:
    seen: set[str] = set()
    for quota in quotas:
        if quota.namespace in seen:
            msg = f"namespace {quota.namespace} stands there twice; name all its pools in one entry"
            raise ValueError(msg)
        seen.add(quota.namespace)
    return quotas


@record
class WebhookInstallation:
    """The admission webhook."""

    asked_from: Annotated[list[Annotated[str, AfterValidator(_network)]], Atomic] = Field(default_factory=list)
    """Addresses (CIDR) of the API server, which alone may ask it; empty: all. With plain Helm: a value of the chart."""


@record
class ControllersInstallation:
    """The four processes."""

    scraped_from: Annotated[list[Annotated[str, Field(min_length=1, max_length=63)]], Atomic] = Field(
        default_factory=list
    )
    """Namespaces whose pods may reach the port of metrics; empty: all. With plain Helm: a value of the chart."""


@record
class ConsoleInstallation:
    """The console in the browser (`gpu-console`)."""

    enabled: bool = False
    """Whether it runs, behind a proxy that passes users' tokens on. With plain Helm: a value of the chart."""
    reached_from: Annotated[list[Annotated[str, Field(min_length=1, max_length=63)]], Atomic] = Field(
        default_factory=list
    )
    """Namespaces whose pods may reach it, such as the proxy's; empty: all. With plain Helm: a value of the chart."""
    served_as: Annotated[list[Annotated[str, Field(min_length=1, max_length=253)]], Atomic] = Field(
        default_factory=list
    )
    """Names (header Host) under which it answers; empty: any. With plain Helm: a value of the chart."""


@record
class ApiServerAddress:
    """Address of the API server for node agents where the cluster's own Service is not routed."""

    host: str = ""
    """Name or address of the API server; empty: the cluster's Service. With plain Helm: a value of the chart."""
    port: Annotated[str, Field(pattern=r"^[0-9]{0,5}$")] = ""
    """Port of the API server; empty: 443. With plain Helm: a value of the chart."""


@record
class DiscoverInstallation:
    """The discovery agent."""

    driver_root: Annotated[str, Field(pattern=r"^(/.*)?$")] = ""
    """Root of a driver in a container, if not /run/nvidia/driver; /: none. With plain Helm: a value of the chart."""


@record
class NodeAgentInstallation:
    """The node agents."""

    api_server: ApiServerAddress = Field(default_factory=ApiServerAddress)
    """Address of the API server for node agents where the cluster's own Service is not routed."""
    discover: DiscoverInstallation = Field(default_factory=DiscoverInstallation)
    """The discovery agent."""


@record
class NFDCoverageInstallation:
    """The CronJob that compares nodes' labels and cards with what is expected."""

    schedule: Annotated[str, Field(min_length=1)] = "17 5 * * *"
    """When it runs, as cron writes it. With plain Helm: a value of the chart."""
    suspend: bool = True
    """It runs only by hand. With plain Helm: a value of the chart."""


@record
class PoliciesInstallation:
    """What the admission policies let through."""

    status_writers: Annotated[list[str], Atomic] = Field(default_factory=list)
    """Users beside the module's processes that may write every status field. With plain Helm: a value of the chart."""
    reserve_runtime_classes: bool = False
    """Pods elsewhere may name neither RuntimeClass nvidia nor nvidia-cdi. With plain Helm: a value of the chart."""


@record
class Quota:
    """How many cards of which pools a namespace has at most."""

    namespace: Annotated[str, Field(min_length=1, max_length=63)]
    """Namespace of the quota."""
    pools: dict[str, Annotated[int, Field(ge=0)]]
    """Name of a pool, and how many of it: slots where cards are divided."""


@record
class OperationPolicyPreset:
    """Deckhouse's OperationPolicy on pods that hold cards."""

    enabled: bool = False
    """Whether there is one. With plain Helm: a value of the chart."""
    enforcement_action: Literal["Deny", "Warn", "Dryrun"] = "Warn"
    """What is done with a pod that does not comply. With plain Helm: a value of the chart."""


@record
class Presets:
    """Objects for namespaces that use cards."""

    quotas: Annotated[list[Quota], Atomic, AfterValidator(_one_for_each_namespace)] = Field(default_factory=list)
    """ResourceQuotas that limit how many cards of a pool a namespace has. With plain Helm: a value of the chart."""
    operation_policy: OperationPolicyPreset = Field(default_factory=OperationPolicyPreset)
    """Deckhouse's OperationPolicy on pods that hold cards."""
