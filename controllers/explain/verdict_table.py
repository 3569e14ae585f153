"""The rows of `kubectl gpu explain pod --cards`, and the same for programs. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from controllers.domain.clock import seconds
from controllers.domain.wording import short
from controllers.explain.lists import SYMBOL_NONE
from controllers.explain.table import Cell, Column
from controllers.explain.words import since, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.domain.verdict.records import CardReason, CardVerdict, NodeVerdict, PodVerdict
    from controllers.explain.lists import Row

COLUMNS: Final = (Column("NODE"), Column("VERDICT"), Column("CARDS"))
_ADDRESS: Final = re.compile(r"-(?P<domain>[0-9a-f]{4,8})-(?P<bus>[0-9a-f]{2})-(?P<rest>[0-9a-f]{2}-[0-7])$")
_OF_NODE: Final[tuple[CardReason, ...]] = ("NodeAway", "NodeRefused", "KeptFor", "TooFewHere")
"""What is so of all cards of a node that could be given."""
_TONES: Final[dict[str, str]] = {
    "Free": "green",
    "KeptFor": "cyan",
    "TooFewHere": "yellow",
    "Promised": "",
    "InUse": "",
}


def rows(found: PodVerdict, now: float) -> list[Row]:
    """A row for each node."""
    cards: dict[str, list[CardVerdict]] = defaultdict(list)
    for each in found.cards:
        cards[each.node].append(each)
    nodes = {each.node: each for each in found.nodes}
    return [_row(name, nodes.get(name), cards[name], found.resource, now) for name in sorted({*nodes, *cards})]


def _row(name: str, node: NodeVerdict | None, cards: Sequence[CardVerdict], resource: str, now: float) -> Row:
    verdict, tone = _verdict(node, cards, resource)
    closed = bool(cards) and all(each.reason in ("NodeAway", "NodeRefused") for each in cards)
    here = SYMBOL_NONE if closed or not cards else "  ".join(_cards(cards, now))
    return Cell(name or SYMBOL_NONE), Cell(verdict, tone), Cell(here)


def _verdict(node: NodeVerdict | None, cards: Sequence[CardVerdict], resource: str) -> tuple[str, str]:
    """The node's verdict; where only its cards are in the way, theirs. That it has too few of them says both."""
    lacking = f"Insufficient {resource}"
    others = [text for text in node.messages if text != lacking] if node is not None else []
    if node is not None and others:
        return node.detail if node.detail and node.reason != "NodeResourcesFit" else _lacks(node, lacking), "red"
    if any(each.reason == "Promised" and each.slots for each in cards):
        unseen = f"; ? {', '.join(node.unseen)}" if node is not None and node.unseen else ""
        return f"promised to the pod{unseen}", "yellow" if unseen else "green"
    found = next((each for reason in _OF_NODE for each in cards if each.reason == reason), None)
    if found is not None:
        return _with_detail(found), _TONES.get(found.reason, "red")
    return _of_free(node, lacking, is_free=any(each.reason == "Free" for each in cards))


def _of_free(node: NodeVerdict | None, lacking: str, *, is_free: bool) -> tuple[str, str]:
    """The verdict on a node whose free cards would do."""
    if not is_free:
        return "no card is free", ""
    if node is not None and node.messages:
        return lacking, "yellow"  # free cards that the Node does not show
    if node is not None and node.unseen:
        return f"? {', '.join(node.unseen)}", "yellow"
    return "fits", "green"


def _lacks(node: NodeVerdict, lacking: str) -> str:
    """What a node has too little of beside cards: `Insufficient memory (needs 900Gi, 512Gi free)`."""
    details = dict(zip(node.messages, node.detail.split("; "), strict=False))
    return "; ".join(
        f"{text} ({details[text].partition(': ')[2] or details[text]})" if details.get(text) else text
        for text in node.messages
        if text != lacking
    )


def _cards(cards: Sequence[CardVerdict], now: float) -> list[str]:
    """The cards with what they are to the pod; those of which the same is said stand together."""
    said: dict[str, list[str]] = defaultdict(list)
    for each in cards:
        said[_spelled(each, now)].append(_place(each.card))
    return [f"{','.join(places)} {text}" for text, places in said.items()]


def _spelled(found: CardVerdict, now: float) -> str:
    if found.reason in ("TooFewHere", "KeptFor"):
        return "Free"  # the node's verdict says why not
    parts: list[str] = [found.reason]
    if found.pod:
        parts.append(short(f"{found.namespace}/{found.pod}"))
    if found.since:
        parts.append(since(found.since, now))
    if found.until:
        parts.append(f"for {span(seconds(found.until) - now)}")
    if found.detail:
        parts.append(f"({found.detail})" if not found.pod else found.detail)
    return " ".join(parts)


def _with_detail(found: CardVerdict) -> str:
    if found.reason == "TooFewHere":
        return f"{found.reason}: {found.detail} free"
    return (
        found.detail
        if found.reason == "NodeRefused"
        else f"{found.reason}{f': {found.detail}' if found.detail else ''}"
    )


def _place(card: str) -> str:
    """A card by its bus, as far as that tells it from the others of its node."""
    found = _ADDRESS.search(card)
    if found is None:
        return card
    bus, rest = found["bus"], found["rest"]
    domain = "" if set(found["domain"]) == {"0"} else f"{found['domain']}:"
    return f"{domain}{bus}{'' if rest == '00-0' else ':' + rest.replace('-', '.')}"


def as_json(found: PodVerdict) -> dict[str, Any]:
    """Every node and every card with its verdict, for programs; what is empty is left out."""
    slots = found.summary.slots
    return {
        "pool": found.pool,
        "units": found.units,
        "summary": {
            "cards": dict(found.summary.cards),
            "slots": {
                "total": slots.total,
                "free": slots.free,
                "keptForOthers": slots.kept,
                "freeOnOneNode": slots.most,
            },
        },
        "nodes": [_node_json(each) for each in found.nodes],
        "cards": [_card_json(each) for each in found.cards],
    }


def _node_json(found: NodeVerdict) -> dict[str, Any]:
    made = {"node": found.node, "reason": found.reason, "messages": list(found.messages), "detail": found.detail}
    return _less(made | {"notLookedAt": list(found.unseen)})


def _card_json(found: CardVerdict) -> dict[str, Any]:
    return _less(
        {
            "card": found.card,
            "node": found.node,
            "reason": found.reason,
            "slots": found.slots,
            "namespace": found.namespace,
            "pod": found.pod,
            "since": found.since,
            "until": found.until,
            "detail": found.detail,
        }
    )


def _less(made: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in made.items() if value not in ("", [], 0)}
