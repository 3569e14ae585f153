"""A planner's result: an ordered list of writes to the API server, of which any prefix is safe. Pure data.

The executor carries a plan out; see `controllers.runtime.executor` for what each part does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from controllers.api.meta import KubeObject
    from controllers.api.resources import Resource


@dataclass(frozen=True, slots=True)
class Ref:
    """Names one object."""

    resource: Resource
    name: str
    namespace: str | None = None
    uid: str | None = None


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of exactly the fields that the process owns.

    `body` without apiVersion, kind, metadata.name and namespace: they come from `ref`. Where
    `ref.uid` is set it goes along, so that an object deleted meanwhile is not made anew.
    """

    ref: Ref
    body: dict[str, Any]
    subresource: Literal["status"] | None = None
    parallel_safe: bool = False
    """Whether it may run concurrently with neighbours that are `parallel_safe` too: of them any subset is safe."""


@dataclass(frozen=True, slots=True)
class Merge:
    """JSON merge patch that succeeds only on the version that the plan was made from."""

    ref: Ref
    resource_version: str
    body: dict[str, Any]
    subresource: Literal["status"] | None = None
    parallel_safe: bool = False
    """As of `Apply`."""


@dataclass(frozen=True, slots=True)
class JSONPatch:
    """JSON patch (RFC 6902) that succeeds only on the version that the plan was made from.

    For lists whose other entries the process does not keep, and which a merge patch would replace.
    """

    ref: Ref
    resource_version: str
    operations: tuple[dict[str, Any], ...]
    parallel_safe: bool = False
    """As of `Apply`."""
    subresource: Literal["status"] | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly the object of that uid.

    `absent`: objects whose absence justifies it. A cache may lag, so each is read from the
    quorum first, and if one is there the plan ends and is made anew.
    """

    ref: Ref
    resource_version: str | None = None
    absent: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask for the eviction of exactly the pod of that uid, which its budgets (PodDisruptionBudget) may refuse.

    A refusal is remembered (`Refusal`) and ends the plan without a word: it is made anew after a while. A pod that is
    gone is no error.
    """

    ref: Ref
    dry_run: bool = False
    """Whether it is only asked whether the pod may be evicted now."""
    parallel_safe: bool = False
    """As of `Apply`."""


REFUSED_FIRST: Final = 5.0
REFUSED_MAX: Final = 60.0
"""Seconds after which a pod is asked for again whose eviction was refused: doubled each time, up to this."""


def refused_for(times: int) -> float:
    """Seconds after which a pod is asked for again whose eviction was refused so often in a row."""
    return float(min(REFUSED_MAX, REFUSED_FIRST * 2 ** min(times - 1, 10)))


@dataclass(frozen=True, slots=True)
class Refusal:
    """An eviction that the API server has refused."""

    at: float
    """When it last did, in epoch seconds."""
    times: int
    """How often in a row."""
    message: str
    """What it said."""

    def left(self, now: float) -> float:
        """Seconds until the pod is asked for again; 0 where that is now."""
        return max(0.0, self.at + refused_for(self.times) - now)


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """A Kubernetes Event about an object, for people; sent after the writes before it."""

    about: Ref
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    parallel_safe: bool = False
    """Whether it runs after the write before it, which is `parallel_safe` itself."""


@dataclass(frozen=True, slots=True)
class Precondition:
    """Go on only if a quorum list holds nothing but what the cache has (keys in `known`).

    Needed before a card is given away: a pod that the lagging cache lacks may use it.
    """

    resource: Resource
    known: frozenset[str]
    namespace: str | None = None
    labels: str | None = None
    fields: str | None = None


Action = Apply | Merge | JSONPatch | Delete | Evict | EmitEvent | Precondition


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes that bring the world to what the planner wants, and when to look again."""

    actions: tuple[Action, ...] = ()
    requeue_after: float | None = None
    """Seconds after which time alone can change the decision."""

    @property
    def writes(self) -> tuple[Action, ...]:
        """The actions that change something; none means that all is as wanted."""
        return tuple(action for action in self.actions if not isinstance(action, (EmitEvent, Precondition)))


@dataclass(slots=True)
class PlanBuilder:
    """Collects the actions of a plan."""

    actions: list[Action] = field(default_factory=list)
    requeue_after: float | None = None

    def add(self, *actions: Action) -> None:
        """Append actions."""
        self.actions.extend(actions)

    def requeue_within(self, after: float) -> None:
        """Reconcile the key again after so many seconds, or earlier."""
        self.requeue_after = after if self.requeue_after is None else min(after, self.requeue_after)

    def build(self) -> Plan:
        """The plan."""
        return Plan(tuple(self.actions), self.requeue_after)


def ref(resource: Resource, obj: KubeObject) -> Ref:
    """Names exactly this object, with its uid."""
    meta = obj.metadata
    return Ref(resource, meta.name, meta.namespace, meta.uid or None)
