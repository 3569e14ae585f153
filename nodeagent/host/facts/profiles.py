"""Names of MIG profiles as the driver spells them. Pure."""

from __future__ import annotations

import re

# `MIG 1g.10gb`, `MIG 1g.10gb+me`, `MIG 1c.3g.40gb` (one compute slice of an instance), `MIG 1g.24gb+me.all`
_PROFILE = re.compile(r"(?<![0-9.])(?:[0-9]+c\.)?([1-9][0-9]?g\.[0-9]{1,4}gb(?:[+-][a-z]+(?:\.[a-z]+)*)?)(?=\s|$)")
_SIZES = re.compile(r"([0-9]+)g\.([0-9]+)gb(.*)")


def profile_in(text: str) -> str:
    """The GPU instance profile that a text of the driver names; empty where it names none."""
    found = _PROFILE.search(text)
    return found[1] if found else ""


def by_size(profile: str) -> tuple[int, int, str]:
    """What profiles are sorted by: slices, memory, then what is special about them."""
    found = _SIZES.fullmatch(profile)
    return (int(found[1]), int(found[2]), found[3]) if found else (0, 0, profile)
