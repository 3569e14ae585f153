"""What follows from a look at a node before anything is started there: good, awaited, or a reason against it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controllers.api.reasons.typed import Reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a look."""

    good: bool = False
    reason: Reason | None = None
    """Why not; None while there is nothing to be said yet."""
    message: str = ""
    image_missing: bool = False
    """Whether the registry does not have the image: another node need not ask."""


PENDING: Final = Verdict()
GOOD: Final = Verdict(good=True)
