"""How much a pod may say about its nodes, where it asks for cards. Pure.

Each node of a pool is held against all of it, in the event loop of the webhook and of gpupool-controller, and their
caches keep it of every pod that waits: whoever may create pods decides about the time and the memory of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controllers.api.tenant import TenantSpec

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


def excess(spec: TenantSpec, most: Bounds) -> str | None:
    """What there is too much of, such as `70 terms of required node affinity (at most 64)`; else None."""
    terms = spec.required_terms or ()
    expressions = [each for term in terms for each in (*term.match_expressions, *term.match_fields)]
    for found, allowed, what in (
        (len(spec.node_selector), most.labels, "labels of nodeSelector"),
        (len(terms), most.terms, "terms of required node affinity"),
        (len(expressions), most.expressions, "expressions of required node affinity"),
        (sum(len(each.values) for each in expressions), most.values, "values of required node affinity"),
        (len(spec.tolerations), most.tolerations, "tolerations"),
    ):
        if found > allowed:
            return f"{found} {what} (at most {allowed})"
    return None
