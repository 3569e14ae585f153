"""How a new revision of a driver comes onto nodes that have one already: part of a GPUDriver's spec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controllers.api.duration import Duration, duration
from controllers.api.gpudriver_rules import WAVE_RULES, WINDOW_RULES
from controllers.api.record import Atomic, record, schema_extra

Strategy = Literal["WhenIdle", "Drain"]
Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


@record
class Canary:
    """The first nodes of a new revision."""

    per_stratum: Annotated[int, Field(ge=1, le=100)] = 1
    """Nodes of each kind of node."""
    percent: Annotated[int, Field(ge=1, le=100)] = 5
    """Most of all nodes, in percent; at least one."""
    soak: Duration = duration("1h")
    """How long they have to serve."""
    evidence: Literal["Use", "Probe", "None"] = "Use"
    """What proves a revision: a pod that used a card, the module's own CUDA call, or the time alone."""


@record
class MaxUnavailable:
    """How much may be out of service for the driver's sake at once; all of it holds."""

    nodes: Annotated[str, Field(pattern="^([1-9][0-9]{0,4}|[1-9][0-9]?%|100%)$")] = "10%"
    """Nodes, as a number or a share; at least one."""
    per_pool: Annotated[str, Field(pattern="^([1-9][0-9]{0,4}|[1-9][0-9]?%|100%)$")] = "10%"
    """Nodes of each pool; at least one."""
    cards: Annotated[int, Field(ge=0)] = 64
    """Cards; 0 for no limit."""
    gpu_hours_per_day: Annotated[int, Field(ge=0)] = 0
    """Cards out of service times hours, in 24 hours; 0 for no limit."""


@record
class Window:
    """When nodes may be started, in UTC."""

    days: Annotated[tuple[Day, ...], Field(max_length=7), Atomic] = ()
    """Days of the week; every day, when left out."""
    from_: Annotated[str, Field(max_length=5, pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$", alias="from")]
    """When it begins, as 06:00."""
    to: Annotated[str, Field(max_length=5, pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    """When it ends; later than its beginning."""


@record
class Drain:
    """How pods leave a node, in strategy Drain."""

    wait_for: Duration = duration("1h")
    """How long pods may end by themselves first."""
    timeout: Duration = duration("30m")
    """How long evictions are tried."""
    local_data: Literal["Wait", "Evict"] = "Wait"
    """Pods with an emptyDir on disk."""
    bare: Literal["Wait", "Evict"] = "Wait"
    """Pods that nothing makes anew."""


@record
class MaxFailures:
    """Failed nodes, beyond the canaries, after which a rollout halts."""

    nodes: Annotated[int, Field(ge=0)] = 2
    """Nodes."""
    percent: Annotated[int, Field(ge=0, le=100)] = 2
    """Share of the nodes that were begun."""


@record
class Rollout:
    """How a new revision comes onto nodes that have a driver already."""

    paused: bool = False
    """Whether no node is started."""
    strategy: Strategy = "WhenIdle"
    """Wait until a node's cards are free, or evict pods."""
    canary: Canary = Field(default_factory=Canary)
    """The first nodes."""
    waves: Annotated[
        tuple[Annotated[int, Field(ge=1, le=100)], ...],
        Field(max_length=16),
        schema_extra(x_kubernetes_list_type="atomic", x_kubernetes_validations=WAVE_RULES),
    ] = (10, 30, 100)
    """Shares of the nodes, in percent, that have the revision after each wave; growing, the last is 100."""
    wave_soak: Duration = duration("15m")
    """How long a wave has to serve before the next one."""
    max_unavailable: MaxUnavailable = Field(default_factory=MaxUnavailable)
    """How much may be out of service at once."""
    windows: Annotated[
        tuple[Annotated[Window, schema_extra(x_kubernetes_validations=WINDOW_RULES)], ...],
        Field(max_length=32),
        Atomic,
    ] = ()
    """When nodes may be started; always, when left out."""
    drain: Drain = Field(default_factory=Drain)
    """How pods leave a node, in strategy Drain."""
    max_failures: MaxFailures = Field(default_factory=MaxFailures)
    """When it halts."""
    rollback: Literal["None", "FailedNodes", "Wave", "All"] = "FailedNodes"
    """Which nodes get the former revision back by themselves once it halts."""
    history_limit: Annotated[int, Field(ge=1, le=10)] = 3
    """Revisions that are remembered."""
