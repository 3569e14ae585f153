"""Pods that ask for cards, with what decides on which nodes they can run: records of the fields used.

Of a stored pod no more is kept than is needed: of its containers those that ask for cards, and what they ask for; of
what it says about nodes nothing but its tolerations where it is bound, and nothing at all where it is more than
`bounds.KEPT`, which is refused at its creation. Such a pod counts as one that fits no node.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from controllers.api import bounds, gangs, names
from controllers.api.kube import Pod, PodSpec, PodStatus, asking
from controllers.api.meta import Condition, ObjectMeta, keeping
from controllers.api.record import adapter, record


@record
class Expression:
    """One expression about a node's labels or fields; an operator that we do not know never matches."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@record
class NodeTerm:
    """Expressions that must all hold; none at all matches no node."""

    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


@record
class RequiredNodes:
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


@record
class NodeAffinity:
    """Which nodes the pod must have."""

    has_preference: Annotated[
        bool, BeforeValidator(bool), Field(alias="preferredDuringSchedulingIgnoredDuringExecution")
    ] = False
    """Whether it says which nodes it would rather have."""
    required_during_scheduling_ignored_during_execution: RequiredNodes | None = None


@record
class Affinity:
    """The part of a pod's affinity that decides which nodes are possible."""

    node_affinity: NodeAffinity | None = None


@record
class PodToleration:
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@record
class SchedulingGate:
    """Something that has to happen before the scheduler looks at the pod."""

    name: str = ""


@record
class TenantSpec(PodSpec):
    """A pod's spec, with what decides where it can go."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[PodToleration, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority: int | None = None

    @property
    def required_terms(self) -> tuple[NodeTerm, ...] | None:
        """Terms of which a node must match one; None where the pod states none."""
        nodes = self.affinity.node_affinity if self.affinity else None
        required = nodes.required_during_scheduling_ignored_during_execution if nodes else None
        return required.node_selector_terms if required else None


GATES_KEPT: Final = 8
"""Scheduling gates that are kept of a pod, for whoever asks what it waits for; ours first, if the pod has it."""
NOWHERE = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=RequiredNodes()))
"""No term at all, of which one would have to hold."""


def _kept(spec: TenantSpec) -> TenantSpec:
    """What is kept of a stored pod. Tolerations count for pods that run, too: a taint must not evict them."""
    is_bound, is_much = spec.node_name is not None, bounds.excess(spec, bounds.KEPT) is not None
    return replace(
        spec,
        containers=asking(spec.containers, _is_ours),
        init_containers=asking(spec.init_containers, _is_ours),
        node_selector={} if is_bound or is_much else spec.node_selector,
        affinity=None if is_bound else NOWHERE if is_much else spec.affinity,
        tolerations=() if is_much else spec.tolerations,
        scheduling_gates=() if is_bound else _ours_first(spec.scheduling_gates)[:GATES_KEPT],
    )


def _ours_first(gates: tuple[SchedulingGate, ...]) -> tuple[SchedulingGate, ...]:
    return tuple(sorted(gates, key=lambda gate: gate.name != names.CARDS_GATE))


def _is_ours(resource: str) -> bool:
    return resource.startswith(names.PREFIX)


TenantMeta = Annotated[
    ObjectMeta,
    keeping(frozenset({names.REQUEST_ID, names.DEVICES}) | gangs.KEYS, frozenset({names.LABEL_POOL}) | gangs.KEYS),
]
"""A pod's metadata; of what its author may write there, what the webhook wrote, and to which gang it belongs."""


def our_condition(kind: str, found: Any) -> Condition | None:
    """A condition of ours, out of all: what kubelet and others write there need not be such as we write."""
    ours = [each for each in found or () if isinstance(each, dict) and each.get("type") == kind]
    try:
        return adapter(Condition).validate_python(ours[0]) if ours else None
    except ValidationError:
        return None


@record
class TenantStatus(PodStatus):
    """A pod's status, with our conditions: why it waits, and whether its cards are near to each other."""

    queued: Annotated[
        Condition | None, BeforeValidator(partial(our_condition, names.QUEUED)), Field(alias="conditions")
    ] = None
    near: Annotated[
        Condition | None, BeforeValidator(partial(our_condition, names.NEAR)), Field(alias="conditions")
    ] = None


@record
class TenantPod(Pod):
    """A pod that asks for cards."""

    metadata: TenantMeta = Field(default_factory=ObjectMeta)
    spec: Annotated[TenantSpec, AfterValidator(_kept)] = Field(default_factory=TenantSpec)
    status: TenantStatus = Field(default_factory=TenantStatus)


@record
class UnadmittedPod(Pod):
    """A pod that asks for cards and was admitted to no pool: what it asks for, and where it runs."""

    metadata: TenantMeta = Field(default_factory=ObjectMeta)
