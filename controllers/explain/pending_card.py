"""Why a card is in no pool, as `pools.pending` of its node says it, in the words of the catalogue of reasons. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import reasons
from controllers.api.conditions import UNASSIGNED_DEVICE
from controllers.explain.cures import UNLISTED

if TYPE_CHECKING:
    from controllers.api.gpunodeinventory import PendingReason

DECLINED: Final = "marked to be ignored"
"""Of a card about which somebody has decided: no condition tells of it."""


def describe_pending(reason: PendingReason, **about: str) -> tuple[str, str]:
    """What the reason means, and what to do about it. `about`: names in place of `<card>`, `<node>` and `<pool>`."""
    if reason == "Declined":
        return DECLINED, ""
    row = reasons.find("node", UNASSIGNED_DEVICE, "True", reason)
    if row is None:
        return "nobody has put it into a pool", UNLISTED
    return row.spoken_meaning, row.spoken(**{name: value for name, value in about.items() if value})
