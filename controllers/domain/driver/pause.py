"""A pause that ends by itself: annotation `gpu.deckhouse.io/pause=<until>` of a GPUDriver or a Node. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

PAUSE_MAX: Final = 30 * 86_400.0
"""Seconds for which a pause holds at most."""


def paused_until(annotations: Mapping[str, str], now: float) -> float | None:
    """When the pause ends, in seconds since the epoch as `now` is; None without one.

    One that is over is none. Of one that lies further ahead than may be, or is no time, nobody knows how it was meant:
    it is none either, and kubectl writes none such.
    """
    try:
        until = seconds(annotations[names.PAUSE])
    except (KeyError, ValueError):
        return None
    return until if now < until <= now + PAUSE_MAX else None
