"""The schema of a kind, without a word of its documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

KIND = "NodeFeatureRule"


def read(path: Path) -> dict[str, Any]:
    """NodeFeatureRule's definition: its names, and its fields with their types, bounds and choices."""
    specs = (definition["spec"] for definition in yaml.safe_load_all(path.read_text()))
    spec = next(one for one in specs if one["names"]["kind"] == KIND)
    (version,) = spec["versions"]
    return {
        "definition": {
            "group": spec["group"],
            "names": spec["names"],
            "schema": _without_words(version["schema"]["openAPIV3Schema"]),
            "scope": spec["scope"],
            "version": version["name"],
        },
        "nodes": [],
    }


def _without_words(schema: Any, *, fields: bool = False) -> Any:
    """`fields`: the keys are names of fields, one of which may be `description`."""
    if isinstance(schema, list):
        return [_without_words(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: one for key, one in schema.items() if fields or key != "description"}
    return {key: _without_words(one, fields=key == "properties" and not fields) for key, one in kept.items()}
