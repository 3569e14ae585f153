"""The result of one check, and the verdict of several. Pure.

A trouble of one card is that card's: the verdict is about the node, and fails for cards only where
no card is left. So one card that fell off the bus does not take seven good ones out of service.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.api.validation import FAILED, OK, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.reasons.typed import CheckWord


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `message` says what was found and, where it is not ok, what was expected and what to do."""

    name: str
    result: str
    message: str
    reason: str = ""
    cards: tuple[str, ...] = ()
    """Addresses to which a failure is confined; empty where it is the node's."""
    needed: bool = True
    """Whether the verdict hangs on it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks of a role together."""

    result: str
    passed: tuple[str, ...]
    """Addresses of the cards that can be used, as far as this role sees."""
    failed: tuple[str, ...]
    """Addresses of cards that fail alone."""
    checks: tuple[Check, ...]

    @property
    def main_failure(self) -> Check | None:
        """The check that says most about what is wrong; None where nothing is."""
        counted = [check for check in self.checks if check.needed]
        candidates = (
            *(check for check in counted if check.result == FAILED and not check.cards),
            *(check for check in counted if check.result == UNKNOWN),
            *(check for check in counted if check.result == FAILED),
            *(check for check in self.checks if check.result == FAILED),
        )
        return next(iter(candidates), None)


def ok(name: str, message: str) -> Check:
    """A check that passed."""
    return Check(name, OK, message)


def failed(name: str, reason: CheckWord, message: str, *cards: str) -> Check:
    """A check that failed, for the node or for some cards."""
    return Check(name, FAILED, message, reason, cards)


def unknown(name: str, reason: CheckWord, message: str, *, needed: bool = True) -> Check:
    """A check that could not be made."""
    return Check(name, UNKNOWN, message, reason, needed=needed)


def aside(check: Check) -> Check:
    """The check as a remark: told, and the verdict does not hang on it."""
    return replace(check, needed=False)


def verdict(checks: Sequence[Check], held: Sequence[str]) -> Verdict:
    """What the checks say of a node whose driver is to serve the cards at `held`."""
    counted = [check for check in checks if check.needed]
    bad = {address for check in counted if check.result == FAILED for address in check.cards}
    left = tuple(address for address in held if address not in bad)
    if any(check.result == FAILED and not check.cards for check in counted) or (held and not left):
        result = FAILED
    elif any(check.result == UNKNOWN for check in counted):
        result = UNKNOWN
    else:
        result = OK
    return Verdict(result, left if result == OK else (), tuple(sorted(bad)), tuple(checks))


def several(items: Sequence[str]) -> str:
    """Addresses or names in a sentence: all, or the first four and how many more."""
    shown = 4
    rest = len(items) - shown
    return ", ".join(items[:shown]) + (f" and {rest} more" if rest > 0 else "")
