"""A pod's affinity with the pool's: its nodes, the chosen one, and the affinity that the pool adds. Pure.

Terms of node affinity are alternatives, so "the pod's and the pool's" is each term of the one with each of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.record import adapter
from webhook.decision import affinity_validation
from webhook.decision.records import PoolAffinity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.tenant import NodeTerm

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS: Final = "nodeSelectorTerms"
ENTRIES: Final = ("matchExpressions", "matchFields")
PODS: Final = ("podAffinity", "podAntiAffinity")
WEIGHT_MAX = 100
_pool_affinity = adapter(PoolAffinity)


def read(raw: Mapping[str, Any]) -> PoolAffinity:
    """A pool's `spec.scheduling.affinity`, which the CRD does not check; raises ValueError with a sentence."""
    if (mistake := affinity_validation.first_error(raw)) is not None:
        msg = f"spec.scheduling.affinity cannot be read: {mistake}"
        raise ValueError(msg)
    found: PoolAffinity = _pool_affinity.validate_python(raw)
    if required_terms(found) == ():
        msg = "spec.scheduling.affinity has no nodeSelectorTerms in its required node affinity, so no node matches"
        raise ValueError(msg)
    return found


def required_terms(affinity: PoolAffinity) -> tuple[NodeTerm, ...] | None:
    """Terms of which a node must match one; None where all nodes will do."""
    nodes = affinity.node_affinity
    required = nodes.required_during_scheduling_ignored_during_execution if nodes else None
    return required.node_selector_terms if required else None


def merged(spec: Mapping[str, Any], *, pool: str, node: str | None, added: Mapping[str, Any]) -> dict[str, Any]:
    """What `spec.affinity` becomes, as far as it changes.

    `node`: where the pod's cards are; None while it waits for them. `added`: what the pool adds.
    """
    own = spec.get("affinity") or {}
    wanted: dict[str, Any] = {"nodeAffinity": _nodes(own.get("nodeAffinity"), added.get("nodeAffinity"), pool, node)}
    for kind in PODS:
        extra, there = added.get(kind) or {}, own.get(kind) or {}
        lists = {field: _both(there.get(field), extra.get(field)) for field in (REQUIRED, PREFERRED)}
        if changes := {field: entries for field, entries in lists.items() if extra.get(field)}:
            wanted[kind] = changes
    return wanted


def _nodes(
    own: Mapping[str, Any] | None, added: Mapping[str, Any] | None, pool: str, node: str | None
) -> dict[str, Any]:
    """Node affinity: the pool's nodes, and of them rather the one where the cards are reserved."""
    own, added = own or {}, added or {}
    on_pool = {"matchExpressions": [{"key": names.pool_node_label(pool), "operator": "Exists"}]}
    # A list without entries (which the API server refuses) stays without.
    narrowed = [_and((mine, theirs, on_pool)) for mine in _terms(own) for theirs in _left(mine, _terms(added))]
    preferred = _both(own.get(PREFERRED), added.get(PREFERRED))
    if node is None:
        return {REQUIRED: {TERMS: narrowed}} | ({PREFERRED: preferred} if preferred else {})
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    if not any(term.get("preference") == here for term in preferred):
        preferred.append({"weight": WEIGHT_MAX, "preference": here})
    return {REQUIRED: {TERMS: narrowed}, PREFERRED: preferred}


def _terms(affinity: Mapping[str, Any]) -> list[dict[str, Any] | None]:
    """Required terms; a single None where nothing is demanded."""
    required = affinity.get(REQUIRED)
    return [None] if required is None else list(required.get(TERMS) or ())


def _left(mine: dict[str, Any] | None, theirs: list[dict[str, Any] | None]) -> list[dict[str, Any] | None]:
    """What the other's terms add to one; a single None where they add nothing.

    Where a term demands one of them already, the alternatives to it mean nothing. So the copy of an admitted pod does
    not grow.
    """
    adds = mine is None or not (_is_empty(mine) or any(term and _demands(mine, term) for term in theirs))
    return theirs if adds else [None]


def _demands(mine: dict[str, Any], term: dict[str, Any]) -> bool:
    """Whether a term has every entry of another; an empty one, which matches no node, is in none."""
    return not _is_empty(term) and all(
        entry in (mine.get(field) or ()) for field in ENTRIES for entry in term.get(field) or ()
    )


def _is_empty(term: dict[str, Any]) -> bool:
    return not any(term.get(field) for field in ENTRIES)


def _and(terms: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
    """One term that demands all of them. An empty term matches no node, and so does what it is joined with."""
    joined: dict[str, Any] = {}
    for term in terms:
        if term is None:
            continue
        if _is_empty(term):
            return term
        for field in ENTRIES:
            if entries := _both(joined.get(field), term.get(field)):
                joined[field] = entries
    return joined


def _both(first: Iterable[Any] | None, second: Iterable[Any] | None) -> list[Any]:
    """The entries of the first, and those of the second that it does not have."""
    entries = list(first or ())
    return entries + [entry for entry in second or () if entry not in entries]
