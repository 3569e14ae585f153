"""JSON that is small and can be read: sorted keys, as much on a line as fits."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 120


def text_of(value: Any) -> str:
    """The text of a value, the same for equal ones."""
    return _text(json.loads(json.dumps(value)), 0) + "\n"


def _text(value: Any, depth: int) -> str:
    short = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(short) + depth <= WIDTH or not isinstance(value, dict | list) or not value:
        return short
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {_text(value[key], depth + 1)}" for key in sorted(value)]
        return f"{{\n{_filled(items, depth + 1)}\n{' ' * depth}}}"
    return f"[\n{_filled([_text(one, depth + 1) for one in value], depth + 1)}\n{' ' * depth}]"


def _filled(items: list[str], depth: int) -> str:
    """Items with commas, several on a line where they fit; one that has lines of its own begins a new one."""
    lines: list[str] = []
    for number, item in enumerate(items):
        text = item + ("," if number < len(items) - 1 else "")
        room = lines and "\n" not in lines[-1] and "\n" not in item
        if room and len(lines[-1]) + 1 + len(text) <= WIDTH:
            lines[-1] += f" {text}"
        else:
            lines.append(" " * depth + text)
    return "\n".join(lines)
