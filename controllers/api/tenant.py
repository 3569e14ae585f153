"""Pods that ask for cards, with what decides on which nodes they can run: records of the fields used.

Of a stored pod no more of that is kept than is needed: nothing where it is bound, and nothing where it is more than
`bounds.KEPT`, which no pod has that was admitted by this version. Such a pod counts as one that fits no node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, Field

from controllers.api import bounds, names
from controllers.api.kube import Pod, PodSpec
from controllers.api.meta import ObjectMeta, keeping
from controllers.api.record import record


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

    @property
    def required_terms(self) -> tuple[NodeTerm, ...] | None:
        """Terms of which a node must match one; None where the pod states none."""
        nodes = self.affinity.node_affinity if self.affinity else None
        required = nodes.required_during_scheduling_ignored_during_execution if nodes else None
        return required.node_selector_terms if required else None


NOWHERE = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=RequiredNodes()))
"""No term at all, of which one would have to hold."""


def _kept(spec: TenantSpec) -> TenantSpec:
    """What is kept of a stored pod. Tolerations count for pods that run, too: a taint must not evict them."""
    if spec.node_name is None and bounds.excess(spec, bounds.KEPT):
        return replace(spec, node_selector={}, affinity=NOWHERE, tolerations=())
    if spec.node_name is None or not (spec.node_selector or spec.affinity or spec.scheduling_gates or spec.tolerations):
        return spec
    tolerations = spec.tolerations if len(spec.tolerations) <= bounds.KEPT.tolerations else ()
    return replace(spec, node_selector={}, affinity=None, scheduling_gates=(), tolerations=tolerations)


TenantMeta = Annotated[ObjectMeta, keeping(frozenset({names.REQUEST_ID, names.DEVICES}), frozenset({names.LABEL_POOL}))]
"""A pod's metadata; of what its author may write there, only what the webhook wrote."""


@record
class TenantPod(Pod):
    """A pod that asks for cards."""

    metadata: TenantMeta = Field(default_factory=ObjectMeta)
    spec: Annotated[TenantSpec, AfterValidator(_kept)] = Field(default_factory=TenantSpec)


@record
class UnadmittedPod(Pod):
    """A pod that asks for cards and was admitted to no pool: what it asks for, and where it runs."""

    metadata: TenantMeta = Field(default_factory=ObjectMeta)
