"""What to do about a condition, from the module's one list of reasons. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import reasons

if TYPE_CHECKING:
    from controllers.api.meta import Condition

UNLISTED: Final = "docs/conditions.md says of each reason what to do"
"""Of a reason that this version does not know: the module may be another one."""


def cure(scope: str, found: Condition, **about: str) -> str:
    """What to do about a condition of a `node`, a `card` or a `pool`; empty where nothing is to be done.

    `about`: names in place of `<node>`, `<card>` and `<pool>`; one that is not known stays as it is.
    """
    row = reasons.find(scope, found.type, found.status, found.reason)
    return row.spoken(**{name: value for name, value in about.items() if value}) if row is not None else UNLISTED


def cure_of_closed(pool: str, kind: str, reason: str) -> str:
    """What to do about a condition of that kind and reason that closes a pool; a tenant hears for whom that is."""
    row = reasons.find("pool", kind, "True", reason)
    if row is None:
        return UNLISTED
    return f"{'For an administrator: ' if row.lasting else ''}{row.spoken(pool=pool)}"


def is_lasting(kind: str, reason: str) -> bool:
    """Whether a pool that such a condition closes stays closed until its administrator does something."""
    row = reasons.find("pool", kind, "True", reason)
    return row is not None and row.lasting
