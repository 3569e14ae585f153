"""What the scheduler said of a pod, what the verdicts say, and how the two differ. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from controllers.domain.verdict.nodes import NO_NODE_BY_NAME
from tools.errors import UserError

_BEGINS: Final = re.compile(r"0/(\d+) nodes are available: ")
_THEN: Final = ". "
"""Before what it says of preemption and of resource claims; no reason has a full stop and a space in it."""
_COUNTED: Final = re.compile(r"(\d+) (.+)")
_NEXT: Final = re.compile(r", (?=\d+ )")

Question = Literal["bound", "node", "reasons"]
"""Whether it was bound; whether its node is among those that fit; whether as many nodes lack the same."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the scheduler did with a pod: the node that it bound it to, or why there is none."""

    node: str | None = None
    message: str = ""
    """Of its condition PodScheduled, where no node is left."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the verdicts on all nodes say of a pod."""

    fits: frozenset[str]
    """Nodes that could take it, as far as is looked at."""
    unknown: frozenset[str]
    """Those of which something decides that is not looked at."""
    reasons: Counter[str]
    is_whole: bool = True
    """Whether the scheduler comes to look at nodes: a volume or a claim that is not there ends it for all of them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One question on which verdicts and scheduler differ."""

    question: Question
    text: str


def reasons_of(message: str) -> Counter[str]:
    """The histogram of a condition PodScheduled: reasons and how many nodes have them; raises UserError."""
    begin = _BEGINS.match(message)
    if begin is None:
        raise UserError(f"the scheduler said what is no histogram: {message!r}")
    body = message[begin.end() :].partition(_THEN)[0].removesuffix(".")
    if body == NO_NODE_BY_NAME:
        return Counter({body: int(begin[1])})
    found: Counter[str] = Counter()
    for part in _NEXT.split(body):
        if (counted := _COUNTED.fullmatch(part)) is None:
            raise UserError(f"the scheduler said what is no histogram: {message!r}")
        found[counted[2]] += int(counted[1])
    return found


def asked(expected: Expected, outcome: Outcome) -> tuple[Question, ...]:
    """The questions that can be asked: of a pod for which something else decides, whether its node may be right."""
    if outcome.node is not None:
        return ("bound", "node")
    return ("bound", "reasons") if _compares(expected) else ("bound",)


def _compares(expected: Expected) -> bool:
    """Whether all reasons of the scheduler are such as verdicts know."""
    return expected.is_whole and not expected.unknown


def differences(expected: Expected, outcome: Outcome) -> tuple[Difference, ...]:
    """What differs, question by question."""
    possible = expected.fits | expected.unknown
    if outcome.node is not None:
        if not possible:
            return (Difference("bound", f"bound to {outcome.node}, and no node fits: {dict(expected.reasons)}"),)
        wrong = outcome.node not in possible
        return (Difference("node", f"bound to {outcome.node}, not among {sorted(possible)}"),) if wrong else ()
    found: list[Difference] = []
    if expected.fits:
        found.append(Difference("bound", f"not bound, and {sorted(expected.fits)} fit: {outcome.message}"))
    if _compares(expected) and reasons_of(outcome.message) != expected.reasons:
        found.append(Difference("reasons", f"said {outcome.message!r}, expected {dict(expected.reasons)}"))
    return tuple(found)
