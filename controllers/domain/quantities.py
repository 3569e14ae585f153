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
_MOST = (2**63 - 1) * NANO
_DIGITS = 19  # of the largest number before the point


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
    """A quantity in billionths, rounded up and no more than 64 bits of whole ones; raises ValueError."""
    if isinstance(quantity, int):
        return quantity * NANO
    value = number(quantity) if len(quantity) <= LONGEST else Decimal("NaN")
    if not value.is_finite():
        msg = f"{quantity[:LONGEST]!r} is no quantity"
        raise ValueError(msg)
    if value.adjusted() > _DIGITS:
        return _MOST if value > 0 else -_MOST
    if value and value.adjusted() < -_DIGITS:
        return 1 if value > 0 else 0
    exact = Fraction(value) * NANO
    return max(-_MOST, min(_MOST, -(-exact.numerator // exact.denominator)))
