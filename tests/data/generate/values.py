"""Values as tools print them, brought to one form."""

from __future__ import annotations

import re

# What NVIDIA's tools, and those who publish their output, write where a value should be.
NO_VALUES = frozenset(
    {
        "",
        "n/a",
        "[n/a]",
        "[redacted]",
        "none",
        "unknown error",
        "insufficient permissions",
        "gpu is lost",
        "requested functionality has been deprecated",
    }
)


def value(text: str | None) -> str:
    """A value as printed, or nothing where the tool says that there is none."""
    text = (text or "").strip()
    return "" if text.lower() in NO_VALUES else text


def address(text: str) -> str:
    """`00000000:1A:00.0` of NVML, `1a:00.0` of lspci: as sysfs spells it; empty where it is none."""
    found = re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", value(text).lower())
    return f"{int(found[1] or '0', 16):04x}:{found[2]}" if found else ""


def mebibytes(text: str | None) -> int | None:
    """`81559 MiB`."""
    found = re.fullmatch("([0-9]+) MiB", value(text))
    return int(found[1]) if found else None


def ids(text: str | None) -> tuple[str, str]:
    """`20B010DE`, device and vendor as one number: vendor and device."""
    found = re.fullmatch("(?:0x)?([0-9a-f]{4})([0-9a-f]{4})", value(text).lower())
    return (found[2], found[1]) if found else ("", "")


def mig_mode(text: str | None) -> tuple[bool | None, bool | None]:
    """Capable and enabled, from `Enabled`, `Disabled`, or `N/A` of a card that cannot; None where it is not printed."""
    if text is None:
        return None, None
    word = value(text).strip("[]").lower()
    return (True, word == "enabled") if word in ("enabled", "disabled") else (False, None)
