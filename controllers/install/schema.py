"""What stored objects would lose where one structural schema takes another's place. Pure.

A field that the new schema does not know is pruned at the next write of its object. A value of another type, a value
that an enum does not have (any more), and a field that is required now and has no default make the object invalid:
nobody can change it then without mending it. Within a version fields are only ever added, so each of these is a
downgrade. Limits of numbers, lengths, patterns and CEL rules are not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OPEN = "x-kubernetes-preserve-unknown-fields"
Schema = dict[str, Any]


def losses(before: Schema, after: Schema) -> list[str]:
    """What `before` lets an object have, or lack, and `after` does not, in words."""
    return list(_losses(before, after, ""))


def _losses(before: Schema, after: Schema, path: str) -> Iterator[str]:
    if before.get("type") and after.get("type") and before["type"] != after["type"]:
        yield f"{path or 'the object'} as {before['type']}"
        return
    if gone := [value for value in before.get("enum", ()) if value not in after.get("enum", [value])]:
        yield f"{path}: {', '.join(map(str, gone))}"
    if "enum" in after and "enum" not in before:
        yield f"{path}: what is not one of {', '.join(map(str, after['enum']))}"
    kept: Mapping[str, Schema] = after.get("properties", {})
    needed = sorted({*after.get("required", ())} - {*before.get("required", ())})
    yield from (f"{path or 'the object'} without {name}" for name in needed if "default" not in kept.get(name, {}))
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
