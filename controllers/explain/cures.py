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
