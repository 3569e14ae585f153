"""Verdicts on a pool's nodes and cards as rows, without names that the viewer may not read. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console.views.common import guarded, less
from controllers.explain.pod_verdict import node_verdicts
from controllers.explain.records import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.pods import ShownPod
    from console.records import Row, Seen
    from controllers.domain.verdict.records import CardVerdict, NodeVerdict, PodVerdict
    from controllers.explain.queue_seen import QueueSeen


HELD: Final = ("InUse", "Promised")
"""Reasons that name a pod."""
OTHERS: Final = (
    "What else runs on the nodes is not looked at: the console reads pods that ask for cards, and no others."
    " kubectl gpu explain pod --cards looks at all pods that you may list"
)
_OTHERS: Final = Unreadable(OTHERS)


def nodes_of(pod: ShownPod, seen: QueueSeen) -> tuple[NodeVerdict, ...]:
    """What the scheduler would say of each node with cards of the pool; none where that is not known of the pod.

    Of what runs on a node the console sees a part only, so that no node fits for sure: the verdict says so.
    """
    if (whole := pod.whole) is None:
        return ()
    places = {card.status.node_name for card in seen.members}
    nodes = {name: node for name, node in seen.nodes.items() if name in places}
    return node_verdicts(whole, nodes, _OTHERS, seen.tolerated)


def verdict_rows(verdict: PodVerdict, seen: Seen, pool: str | None = None) -> dict[str, Row]:
    """A row for each node and card, by `verdict/<node>` and `card/<name>`; `pool`: to be named on each card."""
    found = {f"verdict/{each.node}": _node(each, seen) for each in verdict.nodes}
    return found | {f"card/{each.card}": _card(each, seen) | less(pool=pool) for each in verdict.cards}


def is_unseen(rows: Mapping[str, Row]) -> bool:
    """Whether some node is not known to take the pod or not, since what else runs there was not looked at."""
    return any("pods on the node" in row.get("unseen", ()) for row in rows.values())


def _node(found: NodeVerdict, seen: Seen) -> Row:
    return less(
        kind="nodeVerdict",
        node=found.node,
        reason=found.reason,
        messages=list(found.messages),
        detail=guarded(found.detail, seen),
        unseen=list(found.unseen),
    )


def _card(found: CardVerdict, seen: Seen) -> Row:
    named = bool(found.namespace) and seen.may_read(found.namespace)
    return less(
        kind="cardVerdict",
        card=found.card,
        node=found.node,
        reason=found.reason,
        slots=found.slots or None,
        namespace=found.namespace if named else None,
        pod=found.pod if named else None,
        others=True if found.reason in HELD and not named else None,
        since=found.since,
        until=found.until,
        detail=guarded(found.detail, seen),
    )
