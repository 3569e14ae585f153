"""How a MIG profile is spelled."""

from __future__ import annotations

import re

PROFILE = re.compile(r"(?P<compute>[1-9]\d*)g\.(?P<gigabytes>\d+)gb(?P<attribute>\+me|\+me\.all|\+gfx|-me)?", re.ASCII)
"""A profile in the driver's spelling, which is the canonical one."""

_WRITTEN = re.compile(r"(?:all-)?(?P<size>[1-9]\d*g\.\d+gb)(?:(?P<sign>[+.-])(?P<attribute>me\.all|me|gfx))?", re.ASCII)


def canonical_profile(text: str) -> str | None:
    """The driver's spelling of a profile, or None for what is none.

    `1g.10gb.me` (names of resources and labels have no `+`) and `all-1g.10gb.me` (mig-parted's
    name of the layout with nothing else) are `1g.10gb+me`; `-me`, without media engines, is a
    profile of its own. A compute instance such as `1c.3g.20gb` is no profile of a GPU.
    """
    written = _WRITTEN.fullmatch(text.strip().lower())
    if not written:
        return None
    size, sign, attribute = written["size"], written["sign"], written["attribute"]
    if attribute is None:
        return size
    if sign == "-":
        return f"{size}-me" if attribute == "me" else None
    return f"{size}+{attribute}"
