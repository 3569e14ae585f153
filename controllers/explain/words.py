"""How counts, spans and choices are put into words. Pure."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from controllers.domain.clock import seconds
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool

MINUTE, HOUR, DAY = 60, 3600, 86400
UNITS = {"Exclusive": "card", "MIG": "MIG instance", "TimeSlice": "time slice", "MPS": "MPS client"}


def span(length: float) -> str:
    """A length of time as kubectl writes ages: 45s, 12m, 5h, 3d."""
    whole = max(0, int(length))
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 2 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    return f"{whole // DAY}d"


def since(stamp: str | None, now: float) -> str:
    """How long ago a time of the API was; `<unknown>` where it cannot be read."""
    try:
        return span(now - seconds(stamp or ""))
    except ValueError:
        return "<unknown>"


def counted(number: int, noun: str) -> str:
    """`1 card`, `2 cards`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    teens = 11 <= number % 100 <= 13  # noqa: PLR2004 - eleventh to thirteenth
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def asked(units: int, pool: str, found: GPUPool | None) -> str:
    """What a pod asks for, in the pool's own unit where the pool is known."""
    noun = UNITS[found.spec.allocation.mode] if found is not None else "card"
    return f"{counted(units, noun)} of GPUPool {pool}"


def card_name(device: GPUDevice) -> str:
    """The card as a person knows it: its inventoryID with its product."""
    hardware = device.status.hardware
    product = f" ({hardware.product})" if hardware and hardware.product else ""
    return f"{device.status.inventory_id or device.name}{product}"


def meant(given: str, known: Iterable[str]) -> str:
    """A guess at what a mistyped name means, or which names there are; starts with a blank."""
    names = sorted(known)
    if close := get_close_matches(given, names, n=3, cutoff=0.7):
        return f" Did you mean {' or '.join(close)}?"
    return f" There are {listed(names)}." if names else " There are none yet."
