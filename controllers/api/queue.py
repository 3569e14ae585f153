"""The queue of a GPUPool: in which order pods wait for its cards, and what its status says of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controllers.api import names
from controllers.api.duration import Duration, duration
from controllers.api.record import Timestamp, map_list, record, rules, schema_extra

OnShortage = Literal["Queue", "Refuse"]
Order = Literal["FIFO", "Priority", "Fair"]
EVERY_NAMESPACE = "*"
"""The entry of `queue.namespaces` for each namespace that has none of its own."""
SHARE_RULES = rules(
    (
        "!has(self.limit) || !has(self.guaranteed) || self.guaranteed <= self.limit",
        "guaranteed is at most limit: what is guaranteed to a namespace must be within what it may have",
    ),
    (
        "self.name == '*' || self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "name is a namespace, or * for each namespace that has no entry of its own",
    ),
)


@record
class QueueHold:
    """For whom free cards are kept until there are enough: pods that fit nowhere, at the head of the queue."""

    pods: Annotated[int, Field(ge=0, le=16)] = 1
    """For how many such pods; 0 lets whoever fits go first."""
    after: Duration = duration("10m")
    """How long such a pod has waited before cards are kept for it."""


@record
class NamespaceShare:
    """What one namespace gets of the pool."""

    name: Annotated[str, schema_extra(maxLength=63, minLength=1)]
    """The namespace; * for each that has no entry of its own."""
    weight: Annotated[int, Field(ge=1, le=1000)] = 1
    """Its share of the pool beside the other namespaces that wait, in order Fair."""
    guaranteed: Annotated[int, Field(ge=0)] = 0
    """Slots below which its pods come before those of others, in order Fair."""
    limit: Annotated[int | None, Field(ge=1)] = None
    """Slots that its pods may have at once; beyond them they wait, whatever is free."""


@record
class QueueScaleUp:
    """Pods are let go on without cards, so that an autoscaler sees what is lacking."""

    after: Duration = duration("30s")
    """How long a pod has waited before."""
    max_units: Annotated[int, Field(ge=1, le=1000)] = 16
    """Slots of such pods at once."""


@record
class Queue:
    """How pods wait for cards."""

    on_shortage: OnShortage | None = None
    """Whether a pod waits when the pool has no cards for it, or is refused; unset follows the module's settings."""
    order: Order = "Fair"
    """FIFO: by age. Priority: by priority, then age. Fair: by priority, guarantee, weighted share, age."""
    hold: QueueHold = Field(default_factory=QueueHold)
    """For whom free cards are kept until there are enough."""
    namespaces: Annotated[
        tuple[Annotated[NamespaceShare, schema_extra(x_kubernetes_validations=SHARE_RULES)], ...],
        Field(max_length=names.LIST_MAX),
        map_list("name"),
    ] = ()
    """What namespaces get; one without an entry has weight 1, no guarantee and no limit."""
    scale_up: QueueScaleUp | None = None
    """For clusters whose nodes an autoscaler adds; unset: no pod is let go on without cards."""
    max_waiting: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Pods of one namespace that may wait; further ones are refused."""


@record
class QueueStatus:
    """How many wait for cards of the pool. It names nobody: whoever may use a pool may read it."""

    waiting: int
    """Pods that wait."""
    waiting_units: int
    """Slots that they wait for."""
    oldest: Timestamp | None = None
    """Since when the one exists that has waited longest."""
