"""The taints that pools put on nodes, who tolerates them, and which of a node's taints keep a pool off it. Pure.

A taint is the whole node's, and a node's cards may be in several pools. So pods tolerate, beside what their own pool
wants, what the pools beside it want: those that have cards on a node of it. They do whether the taint is on a node yet
or not, or it could never be put there (ADR 0020, 0027). And where a pool wants another value than its nodes have now,
they tolerate the former one too, which stands until the new one may come.

Which taints of a node are the pools' an annotation says (`controllers.domain.node_marks`).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from controllers.api import bounds
from controllers.api.gpupool import Toleration
from controllers.domain.node_fit import REPELLING, tolerates
from controllers.domain.node_marks import is_ours, taint_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from controllers.api.gpupool import GPUPool, Taint
    from controllers.api.kube import Node, NodeTaint
    from controllers.domain.node_marks import Place

KUBERNETES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""How the taints begin that say how a node is: they belong to Kubernetes' own controllers."""


def wanted(pool: GPUPool) -> tuple[Taint, ...]:
    """The taints that the pool's nodes are to have."""
    if pool.spec.scheduling is None:
        return ()
    return tuple(taint for taint in pool.spec.scheduling.taints if not taint.key.startswith(KUBERNETES))


def pools_sharing_nodes(
    pool: str, tainting: Iterable[GPUPool], nodes_of: Callable[[str], Collection[str]]
) -> tuple[GPUPool, ...]:
    """Of the pools that want taints those that share a node with a pool, oldest first.

    `nodes_of` tells the nodes on which a pool has cards.
    """
    others = [other for other in tainting if other.name != pool]
    if not others:
        return ()  # as in most clusters, and then it costs nothing
    here = frozenset(nodes_of(pool))
    return tuple(other for other in sorted(others, key=_creation_key) if not here.isdisjoint(nodes_of(other.name)))


def tolerated(
    pool: GPUPool,
    tainting: Iterable[GPUPool],
    nodes_of: Callable[[str], Collection[str]],
    node: Callable[[str], Node | None],
) -> tuple[Toleration, ...]:
    """What the pool's pods tolerate, given the pools that want taints, the nodes on which a pool has cards, and those.

    Where no pool wants a taint no node is looked at, as in most clusters.
    """
    wanting = tuple(tainting)
    nodes = filter(None, map(node, nodes_of(pool.name))) if wanting else ()
    return tolerations(pool, pools_sharing_nodes(pool.name, wanting, nodes_of), nodes)


def tolerations(
    pool: GPUPool, neighbours: Iterable[GPUPool] = (), nodes: Iterable[Node] = ()
) -> tuple[Toleration, ...]:
    """What the pool's pods tolerate: its own taints, those of the pools beside it, and what it adds.

    Also what its `nodes` have of these in a former value. Of all but its own no more than `bounds.NEIGHBOURS`: its own
    former values, then the oldest pools' first.
    """
    scheduling = pool.spec.scheduling
    own, added = (scheduling.taints, scheduling.tolerations) if scheduling is not None else ((), ())
    theirs = tuple(chain.from_iterable(map(wanted, neighbours)))
    mine = dict.fromkeys(map(_toleration, own))
    known = tuple(nodes)
    others = dict.fromkeys((*_former(own, known), *map(_toleration, theirs), *_former(theirs, known)))
    return *mine, *[one for one in others if one not in mine][: bounds.NEIGHBOURS], *added


def _former(taints: Collection[Taint], nodes: Iterable[Node]) -> Iterable[Toleration]:
    """What of ours stands on nodes in the places of these taints, in whatever value."""
    if not taints:
        return ()
    places = {(taint.key, taint.effect): taint for taint in taints}
    found: set[tuple[Place, str]] = set()
    for node in nodes:
        ours = taint_marks(node)
        # By what the node has, not by what was noted: an annotation that somebody edits makes no pod tolerate anything.
        found |= {((one.key, one.effect), one.value or "") for one in node.spec.taints if is_ours(one, ours)}
    return [_toleration(places[place], value) for place, value in sorted(found) if place in places]


def keeps_off(node: Node, tolerated: Collection[Toleration]) -> NodeTaint | None:
    """The taint for which no pod of a pool comes to a node, by what the pool's pods tolerate; None where there is none.

    Judged are the pools' own and those of Kubernetes. What an administrator puts on a node is left to the pods, which
    may bring a toleration for it.
    """
    if not node.spec.taints:
        return None
    ours = taint_marks(node)
    for taint in node.spec.taints:
        judged = taint.effect in REPELLING and (taint.key.startswith(KUBERNETES) or is_ours(taint, ours))
        if judged and not any(tolerates(one, taint) for one in tolerated):
            return taint
    return None


def _creation_key(pool: GPUPool) -> tuple[str, str]:
    return pool.metadata.creation_timestamp, pool.name


def _toleration(taint: Taint, value: str | None = None) -> Toleration:
    """For the taint, or for one that has another value in its place."""
    value = value if value is not None else taint.value or ""
    return Toleration(key=taint.key, operator="Equal", value=value, effect=taint.effect)


def spelled_taint(taint: NodeTaint) -> str:
    """A taint in words, as kubectl writes it: `taint key=value:NoSchedule`."""
    return f"taint {taint.key}={taint.value}:{taint.effect}" if taint.value else f"taint {taint.key}:{taint.effect}"
