"""An exporter's text as series, with the oddities of its form by name; `tests.data.text` makes such a text of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TYPE = re.compile(r"# TYPE (\w+) (\w+)")
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? ([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?|NaN|[+-]Inf)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
Pairs = list[list[str]]
NEUTRAL = {"Hostname": "node", "container": "container", "namespace": "namespace", "pod": "pod"}
"""Labels whose values are names that somebody gave; and what stands in their place."""


def read(path: Path) -> dict[str, Any]:
    """Families in their order, one that goes on later without its type; label sets once, values with their number."""
    lines = path.read_text().splitlines()
    families: list[dict[str, Any]] = []
    sets: list[Pairs] = []
    types: dict[str, str] = {}
    for line in lines:
        if head := TYPE.fullmatch(line):
            types[head[1]] = head[2]
        elif sample := SAMPLE.fullmatch(line):
            if not families or families[-1]["name"] != sample[1]:
                kind = {"type": types.pop(sample[1])} if sample[1] in types else {}
                families.append({"name": sample[1], **kind, "values": []})
            families[-1]["values"].append([_number(sets, _neutral(sample[2] or "")), sample[3]])
    return {"families": families, "form": _form(lines), "labels": sets}


def _number(sets: list[Pairs], labels: Pairs) -> int:
    if labels not in sets:
        sets.append(labels)
    return sets.index(labels)


def _neutral(text: str) -> Pairs:
    return [[key, NEUTRAL.get(key, value) if value else ""] for key, value in LABEL.findall(text)]


def _form(lines: list[str]) -> list[str]:
    """Oddities that a parser may stumble over."""
    text = "\n".join(lines)
    first = next(place for place, line in enumerate(lines) if SAMPLE.fullmatch(line))
    odd = {
        "title": bool(re.match("[A-Za-z]", lines[0])) and first > 0,
        "commands": lines[0].startswith("$ "),
        "headers first": len([line for line in lines[:first] if TYPE.fullmatch(line)]) > 1,
        "dots": "..." in lines,
        "space after comma": '", ' in text,
        "blank lines": "" in lines[2:],
    }
    return [name for name, there in odd.items() if there]
