"""What stored objects would lose where one structural schema takes another's place. Pure.

A field that the new schema does not know is pruned at the next write of its object; a value of another type, or of an
enum that no longer has it, makes the object invalid. Fields are only ever added within a version: each is a downgrade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OPEN = "x-kubernetes-preserve-unknown-fields"
Schema = dict[str, Any]


def losses(before: Schema, after: Schema) -> list[str]:
    """Fields, types and values that `before` has and `after` has not, in words."""
    return list(_losses(before, after, ""))


def _losses(before: Schema, after: Schema, path: str) -> Iterator[str]:
    if before.get("type") and after.get("type") and before["type"] != after["type"]:
        yield f"{path or 'the object'} as {before['type']}"
        return
    if gone := [value for value in before.get("enum", ()) if value not in after.get("enum", [value])]:
        yield f"{path}: {', '.join(map(str, gone))}"
    kept: Mapping[str, Schema] = after.get("properties", {})
    for name, schema in before.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        if name in kept:
            yield from _losses(schema, kept[name], here)
        elif not after.get(OPEN) and not isinstance(after.get("additionalProperties"), dict):
            yield f"field {here}"
    for part, mark in (("items", "[]"), ("additionalProperties", ".*")):
        inner, now = before.get(part), after.get(part)
        if isinstance(inner, dict) and isinstance(now, dict):
            yield from _losses(inner, now, path + mark)
