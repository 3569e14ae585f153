"""Which nodes a pod can be scheduled to: nodeName, nodeSelector, node affinity and taints. Pure.

Judged: a fixed nodeName, nodeSelector, required node affinity (labels and metadata.name), and
taints that keep pods away. Not judged: other resources, volumes, pod affinity, spread. A node
that is unschedulable or not ready gives no cards to anybody (`domain/issuing.py`), also not to a
pod that names it and so goes past the scheduler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from controllers.api import bounds, names
from controllers.domain.selectors.match import holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpupool import Taint, Toleration
    from controllers.api.kube import Node, NodeTaint
    from controllers.api.tenant import Expression, NodeTerm, PodToleration, TenantSpec

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
REPELLING = ("NoSchedule", "NoExecute")
Demand = Literal["node name", "taints", "node selector", "node affinity", "the pool's affinity"]
"""What of a pod decides on which nodes it can be."""


@dataclass(frozen=True, slots=True)
class PodConstraints:
    """A pod's constraints on its node, as the scheduler reads them from its spec."""

    node_name: str | None
    labels: tuple[tuple[str, str], ...]
    """Keys and values of nodeSelector."""
    terms: tuple[NodeTerm, ...] | None
    tolerations: tuple[PodToleration | Toleration, ...]
    pool_terms: tuple[NodeTerm, ...] | None = None
    """Terms of the pool's own affinity, of which the node must match one as well."""

    @classmethod
    def of(
        cls, spec: TenantSpec, added: Iterable[Toleration] = (), pool_terms: tuple[NodeTerm, ...] | None = None
    ) -> PodConstraints:
        """What the pod demands, with the tolerations and the node affinity that the pool adds."""
        labels = tuple(sorted(spec.node_selector.items()))
        return cls(spec.node_name, labels, spec.required_terms, (*spec.tolerations, *added), pool_terms)

    @property
    def size(self) -> int:
        """How much is looked at for one node, at most: labels, terms, expressions, their values, and tolerations."""
        terms = (*(self.terms or ()), *(self.pool_terms or ()))
        within = sum(1 + bounds.expressions_of(term) + bounds.values_of(term) for term in terms)
        return 1 + len(self.labels) + within + len(self.tolerations)


def node_fits(wants: PodConstraints, node: Node) -> bool:
    """Whether the node satisfies the constraints; the scheduler checks more and has the last word."""
    return is_named(wants, node) and is_selected(wants, node) and untolerated(wants, node) is None


def unmet(wants: PodConstraints, node: Node) -> tuple[Demand, ...]:
    """What of the pod's demands the node does not satisfy, in the scheduler's order; nothing where it fits."""
    found: dict[Demand, bool] = {
        "node name": is_named(wants, node),
        "taints": untolerated(wants, node) is None,
        "node selector": _has_labels(wants, node),
        "node affinity": _matches(wants.terms, node),
        "the pool's affinity": _matches(wants.pool_terms, node),
    }
    return tuple(demand for demand, is_met in found.items() if not is_met)


def is_named(wants: PodConstraints, node: Node) -> bool:
    """Whether the pod names this node, or none."""
    return wants.node_name is None or wants.node_name == node.name


def is_selected(wants: PodConstraints, node: Node) -> bool:
    """Whether the node satisfies nodeSelector and node affinity, the pool's too."""
    return _has_labels(wants, node) and _matches(wants.terms, node) and _matches(wants.pool_terms, node)


def _has_labels(wants: PodConstraints, node: Node) -> bool:
    labels = node.metadata.labels
    return all(labels.get(key) == value for key, value in wants.labels)


def _matches(terms: tuple[NodeTerm, ...] | None, node: Node) -> bool:
    return terms is None or any(_term(term, node) for term in terms)


def untolerated(wants: PodConstraints, node: Node) -> NodeTaint | None:
    """The node's first taint that keeps the pod away."""
    for taint in node.spec.taints:
        if taint.effect in REPELLING and not any(tolerates(toleration, taint) for toleration in wants.tolerations):
            return taint
    return None


def names_demanded(wants: PodConstraints) -> frozenset[str] | None:
    """The nodes that the affinity names by metadata.name, in each of its terms; None where a term names none."""
    demands = [_names(terms) for terms in (wants.terms, wants.pool_terms) if terms]
    named = [names for names in demands if names is not None]
    return frozenset.intersection(*named) if named else None


def _names(terms: Iterable[NodeTerm]) -> frozenset[str] | None:
    every: frozenset[str] = frozenset()
    for term in terms:
        wanted = [frozenset(one.values) for one in term.match_fields if _is_name(one)]
        if not wanted:
            return None
        every |= frozenset.intersection(*wanted)
    return every


def _is_name(expression: Expression) -> bool:
    return expression.key == "metadata.name" and expression.operator == "In"


def _term(term: NodeTerm, node: Node) -> bool:
    """An empty term matches no node: that is Kubernetes' rule."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(_holds(expression, node.metadata.labels) for expression in term.match_expressions) and all(
        _holds(expression, fields) for expression in term.match_fields
    )


def _holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    if expression.operator in ("Gt", "Lt"):
        return _compares(expression, value)
    return holds(expression.operator, value, expression.values)


def _compares(expression: Expression, value: str | None) -> bool:
    """Gt and Lt compare whole numbers; what is none matches nothing."""
    if value is None or len(expression.values) != 1:
        return False
    found, limit = _integer(value), _integer(expression.values[0])
    if found is None or limit is None:
        return False
    return found > limit if expression.operator == "Gt" else found < limit


def _integer(text: str) -> int | None:
    """A number as Go's ParseInt reads it, of 64 bits: Python alone would take `1_0` and spaces too."""
    if len(text) > names.LABEL_VALUE_MAX or not _INTEGER.fullmatch(text):
        return None
    return number if -(2**63) <= (number := int(text)) < 2**63 else None


def tolerates(toleration: PodToleration | Toleration, taint: NodeTaint | Taint) -> bool:
    """Kubernetes' rule: an empty key (with Exists) or effect stands for all."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    same = (toleration.value or "") == (taint.value or "")
    return toleration.operator in (None, "", "Equal") and toleration.key == taint.key and same
