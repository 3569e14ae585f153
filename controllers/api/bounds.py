"""How much a pod may say about its nodes, where it asks for cards. Pure.

Each node of a pool is held against all of it, in the event loop of the webhook and of gpupool-controller, and their
caches keep it of every pod that waits: whoever may create pods decides about the time and the memory of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.tenant import NodeTerm, TenantSpec

JSON_MAX: Final = 64 << 10
"""Bytes of nodeSelector, affinity, tolerations and topologySpreadConstraints together, as they are sent."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most of each."""

    labels: int
    terms: int
    expressions: int
    values: int
    tolerations: int


ASKED: Final = Bounds(labels=64, terms=64, expressions=256, values=1000, tolerations=256)
"""What the author of a pod may write."""
KEPT: Final = Bounds(labels=64, terms=512, expressions=4096, values=8192, tolerations=512)
"""What is kept of a stored pod: the pool's own affinity is joined to each term, and its tolerations are added."""
NEIGHBOURS: Final = 128
"""Tolerations that a pod gets for the taints of pools beside its own, so that with them it is still kept."""


def joined_excess(own: Sequence[NodeTerm], pool: Sequence[NodeTerm]) -> str | None:
    """What there would be too much of where each of a pod's terms is joined with each of its pool's; else None."""
    count = max(1, len(own)) * len(pool)
    expressions, values = (
        sum(map(size, own)) * len(pool) + sum(map(size, pool)) * max(1, len(own))
        for size in (expressions_of, values_of)
    )
    for found, allowed, what in (
        (count, KEPT.terms, "terms"),
        (expressions + count, KEPT.expressions, "expressions"),  # one more in each is ours: the pool's label
        (values, KEPT.values, "values"),
    ):
        if found > allowed:
            return f"{found} {what} (at most {allowed})"
    return None


def expressions_of(term: NodeTerm) -> int:
    """Expressions of one term, about labels and fields."""
    return len(term.match_expressions) + len(term.match_fields)


def values_of(term: NodeTerm) -> int:
    """Values of all expressions of one term."""
    return sum(len(each.values) for each in (*term.match_expressions, *term.match_fields))


def excess(spec: TenantSpec, most: Bounds) -> str | None:
    """What there is too much of, such as `70 terms of required node affinity (at most 64)`; else None."""
    terms = spec.required_terms or ()
    for found, allowed, what in (
        (len(spec.node_selector), most.labels, "labels of nodeSelector"),
        (len(terms), most.terms, "terms of required node affinity"),
        (sum(map(expressions_of, terms)), most.expressions, "expressions of required node affinity"),
        (sum(map(values_of, terms)), most.values, "values of required node affinity"),
        (len(spec.tolerations), most.tolerations, "tolerations"),
    ):
        if found > allowed:
            return f"{found} {what} (at most {allowed})"
    return None
