"""Kubernetes quantities, as apimachinery's `resource.ParseQuantity` reads them. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

_SUFFIXES = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("0.001"), "": Decimal(1)}
_SUFFIXES |= {letter: Decimal(10) ** (3 * at) for at, letter in enumerate("kMGTPE", start=1)}
_SUFFIXES |= {f"{letter}i": Decimal(2) ** (10 * at) for at, letter in enumerate("KMGTPE", start=1)}
# A number, then a suffix or an exponent. No digit can be matched in two ways, or a text of digits and one bad letter
# would take time with the square of its length.
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([eE][+-]?[0-9]+|[numkMGTPEKi]{0,2})", re.ASCII)
LONGEST: Final = 64
"""Characters of a quantity: what a stranger sends to the webhook's port may be of megabytes."""
NANO: Final = 10**9
"""Nanos in one: the finest that Kubernetes keeps of a quantity."""
INT64: Final = 2**63 - 1
"""The most that Kubernetes counts."""
_DIGITS = 20  # more, before the point or behind it, than any number has that counts


def number(text: str) -> Decimal:
    """The number that a quantity spells; NaN where it spells none."""
    found = _QUANTITY.fullmatch(text)
    try:
        digits, suffix = found.groups() if found else ("", "")
        return Decimal(digits + suffix) if suffix[1:].strip("+-").isdigit() else Decimal(digits) * _SUFFIXES[suffix]
    except (ArithmeticError, KeyError):
        return Decimal("NaN")


@lru_cache(maxsize=8192)
def nanos(quantity: str | int) -> int:
    """A quantity in billionths, rounded up; raises ValueError.

    One with a binary suffix is no more than 64 bits of whole ones; a decimal one may be.
    """
    if isinstance(quantity, int):
        return quantity * NANO
    value = number(quantity) if len(quantity) <= LONGEST else Decimal("NaN")
    if not value.is_finite():
        msg = f"{quantity[:LONGEST]!r} is no quantity"
        raise ValueError(msg)
    if value.adjusted() > _DIGITS:
        value = Decimal(10**_DIGITS).copy_sign(value)  # 1e300000 spelled out would hold the process for seconds
    if value and value.adjusted() < -_DIGITS:
        return 1 if value > 0 else 0
    exact = Fraction(value) * NANO
    found = -(-exact.numerator // exact.denominator)
    return max(-INT64 * NANO, min(INT64 * NANO, found)) if quantity.endswith("i") else found
