"""Quantities of CPU and memory, as Kubernetes writes them, that a component may be given."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import AfterValidator

_QUANTITY = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[mkMGTPE])?$"
_SCALES: Final = {
    "": Decimal(1),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_CPU: Final = (Decimal("1e-3"), Decimal("1e-3"), "a number of cores of at least 1m and no finer than 1m")
# 512m is a slip for 512Mi: half a byte.
_BYTES: Final = (Decimal(1024**2), Decimal(1), "a whole number of bytes of at least 1Mi, such as 512Mi")
RESOURCES: Final = {"cpu": _CPU, "memory": _BYTES, "ephemeral-storage": _BYTES}
"""What a component may be given (cards it has by its runtime class): the least, the step, and that in words."""


def amount(quantity: str) -> Decimal:
    """The value of a quantity such as `250m` or `1.5Gi`; raises ValueError that says what is expected."""
    found = re.fullmatch(_QUANTITY, quantity)
    if found is None:
        msg = f"{quantity!r} is not a quantity; write a number with m, Mi, Gi and so on, such as 250m or 512Mi"
        raise ValueError(msg)
    return Decimal(found[1]) * _SCALES[found[3] or ""]


def canonical(quantity: str) -> str:
    """The quantity as the API server writes it back: `1024Mi` is `1Gi`, `0.5` is `500m`, `1.5Gi` is `1536Mi`.

    Written otherwise, what is there would never look like what is wanted.
    """
    value = amount(quantity)
    binary = quantity.endswith("i") and value >= 1024  # noqa: PLR2004 - below, the API server counts in tens
    base, suffixes = (1024, "KMGTPE") if binary else (1000, "kMGTPE")
    if value % 1:
        return f"{value * 1000:.0f}m"
    number, power = int(value), 0
    while number and number % base == 0 and power < len(suffixes):
        number, power = number // base, power + 1
    suffix = suffixes[power - 1] if power else ""
    return f"{number}{suffix}{'i' if binary and power else ''}"


def _quantities(found: dict[str, str]) -> dict[str, str]:
    for name, quantity in found.items():
        if name not in RESOURCES:
            msg = f"{name} is not among what a component can be given: {', '.join(RESOURCES)}"
            raise ValueError(msg)
        value, (least, step, words) = amount(quantity), RESOURCES[name]
        if value < least or value % step:
            msg = f"{name} {quantity} is not {words}"
            raise ValueError(msg)
    return found


Quantities = Annotated[dict[str, str], AfterValidator(_quantities)]
"""Quantities by resource."""
