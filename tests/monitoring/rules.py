"""The module's alerts as the files have them, and the names of metrics in an expression."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "monitoring" / "prometheus-rules"
_LISTED = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_WORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "group_left", "group_right"}


class Alert(NamedTuple):
    """One alerting rule."""

    file: str
    name: str
    expr: str
    wait: str
    labels: dict[str, str]
    annotations: dict[str, str]


@cache
def groups() -> tuple[dict[str, Any], ...]:
    """All groups of all files."""
    return tuple(
        group for path in sorted(FOLDER.glob("*.yaml")) for group in yaml.safe_load(path.read_text(encoding="utf-8"))
    )


@cache
def alerts() -> tuple[Alert, ...]:
    """All rules; several may have one name."""
    return tuple(
        Alert(group["name"], rule["alert"], rule["expr"], rule["for"], rule["labels"], rule["annotations"])
        for group in groups()
        for rule in group["rules"]
    )


def metrics_in(expr: str) -> set[str]:
    """Names of the metrics that an expression reads."""
    bare = re.sub(r"\[[^\]]*\]", "", re.sub(r'"[^"]*"', '""', expr))
    bare = _LISTED.sub(" ", re.sub(r"\{[^}]*\}", " ", bare))
    found = re.findall(r"(?<![\w.])([a-zA-Z_:][\w:]*)\b(?!\s*\()", bare)
    return {name for name in found if name not in _WORDS}
