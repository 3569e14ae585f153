"""Durations in settings and custom resources: written as Go writes them (`30s`, `1h30m`), held as seconds."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_DURATION = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
DURATION_MAX = 366 * 86_400.0
"""Seconds: a year. Times that are counted from now on must be times that can be written."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: object) -> float:
    """Seconds from a duration such as `2m` or `1h30m`; numbers pass as seconds.

    Raises ValueError that says what is expected.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or not re.match(_DURATION, value):
        msg = f"{value!r} is not a duration; write a number with ms, s, m or h, such as 30s or 2m"
        raise ValueError(msg)
    return sum(float(n) * _SECONDS[unit] for n, unit in re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", value))


def duration(default: str) -> Any:
    """A field for a duration, with its default as people write it."""
    return Field(
        default=parse_duration(default),
        ge=0.05,
        le=DURATION_MAX,
        json_schema_extra={
            "type": "string",
            "pattern": _DURATION,
            "default": default,
            "minimum": None,
            "maximum": None,
        },
    )


Duration = Annotated[float, BeforeValidator(parse_duration)]
