"""Whether pods that run keep another one away by their own anti-affinity. Pure.

Where they do is a matter of domains of nodes, which no verdict looks at: this says for which pods it is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.selectors.match import matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.whole_pod import PodTerm, WholePod


def may_be_repelled(pod: WholePod, others: Iterable[WholePod]) -> bool:
    """Whether one of the pods that are bound demands to be away from this one.

    Namespaces are not known here: a term that selects some by their labels counts.
    """
    demanding = (other for other in others if other.spec.affinity is not None)  # few of thousands
    return any(_concerns(term, other, pod) for other in demanding for term in _terms(other))


def _terms(pod: WholePod) -> tuple[PodTerm, ...]:
    affinity = pod.spec.affinity
    return affinity.pod_anti_affinity if affinity is not None and not pod.finished else ()


def _concerns(term: PodTerm, owner: WholePod, pod: WholePod) -> bool:
    """No selector of labels selects no pod; an empty one selects all."""
    if term.label_selector is None or not matches(term.label_selector, pod.metadata.labels):
        return False
    if term.namespace_selector is not None:
        return True
    return pod.metadata.namespace in (term.namespaces or (owner.metadata.namespace,))
