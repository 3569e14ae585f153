"""PCI addresses in one spelling. Pure.

NVML and DCGM write the domain with eight digits, procfs and sysfs with four or more: all mean the same card.
"""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")


def canonical(text: str) -> str | None:
    """An address as sysfs spells it (`0000:17:00.0`, a larger domain with more digits); None where it is none."""
    found = _ADDRESS.fullmatch(text.strip().lower())
    if found is None:
        return None
    domain, bus, slot, function = found.groups()
    return f"{domain.lstrip('0').rjust(4, '0')}:{bus}:{slot}.{function}"


def place(address: str) -> tuple[int, str]:
    """What addresses are sorted by: a domain of five digits comes after those of four."""
    domain, _, rest = address.partition(":")
    return int(domain, 16), rest
