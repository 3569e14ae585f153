"""The result of validating an object: refused, or allowed with warnings. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.decision.verdict import Denied

READ_TIMEOUT = 1.0
"""Seconds for one read; the review has `server.DEADLINE`."""
WARNING_MAX = 1000
"""Characters of a warning; the API server cuts them when they are more than 4,096 together."""


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """Refused, or allowed with what its creator should know."""

    denied: Denied | None = None
    warnings: tuple[str, ...] = ()


ALLOWED = ReviewResult()


def warned(*sentences: str | None) -> ReviewResult:
    """Allowed, with those sentences that there are."""
    return ReviewResult(warnings=tuple(_short(sentence) for sentence in sentences if sentence))


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= WARNING_MAX else f"{sentence[: WARNING_MAX - 1]}…"
