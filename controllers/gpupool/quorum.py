"""Reads from the quorum before a write: no pod may be bound that the caches do not know of. Pure.

A watch may lag. What is decided from the caches about who uses a card is carried out only where the API server, asked
anew, knows of no other bound pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import POD
from controllers.runtime.plan import Precondition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.kube import Pod
    from controllers.gpupool.views import ObservedPool

BOUND = f"spec.nodeName!=,{names.TENANT_PODS}"
"""Field selector for pods that have a node."""


def bound_to(node: str) -> str:
    """Field selector for the pods of a node that may hold cards."""
    return f"spec.nodeName={node},{names.TENANT_PODS}"


def nobody_else_bound(view: ObservedPool, node: str | None = None) -> list[Precondition]:
    """The quorum must know of no other bound pod of the pool, on that node or on any, than the cache does."""
    known = frozenset(pod.key for pod in view.pods if pod.node and node in (None, pod.node))
    fields = BOUND if node is None else bound_to(node)
    labels = f"{names.LABEL_POOL}={view.pool.name}"
    return [Precondition(POD, known, labels=labels, fields=fields), *still_unbound(view.unlabelled, fields)]


def nobody_else_on(node: str, known: Iterable[str]) -> Precondition:
    """The quorum must know of no other pod of any pool bound to the node than these, by key."""
    return Precondition(POD, frozenset(known), labels=names.LABEL_POOL, fields=bound_to(node))


def still_unbound(pods: Iterable[Pod], fields: str) -> list[Precondition]:
    """The quorum must know none of these pods as bound, to where `fields` says: no list by label shows them."""
    return [
        Precondition(POD, frozenset(), pod.metadata.namespace, fields=f"metadata.name={pod.name},{fields}")
        for pod in pods
    ]
