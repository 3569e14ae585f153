"""Verdicts on a pool's nodes and cards as rows, without names that the viewer may not read. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console.views.common import guarded, less

if TYPE_CHECKING:
    from console.records import Row, Seen
    from controllers.domain.verdict.records import CardVerdict, NodeVerdict, PodVerdict


HELD: Final = ("InUse", "Promised")
"""Reasons that name a pod."""


def verdict_rows(verdict: PodVerdict, seen: Seen) -> dict[str, Row]:
    """A row for each node and for each card, by `verdict/<node>` and `card/<name>`."""
    found = {f"verdict/{each.node}": _node(each, seen) for each in verdict.nodes}
    return found | {f"card/{each.card}": _card(each, seen) for each in verdict.cards}


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
