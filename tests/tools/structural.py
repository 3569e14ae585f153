"""Whether an object fits our generated CRD: the part of structural OpenAPI that they use, in a few lines.

What an API server would also check (CEL rules, field ownership) is tested on a real one; this is
for thousands of objects a second. A keyword that it does not know is an error of the test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).resolve().parents[2] / "crds"
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float),
}  # fmt: skip
KNOWN = {
    "type", "description", "properties", "additionalProperties", "required", "items", "maxLength", "minLength",
    "format", "minimum", "maximum", "enum", "pattern", "maxItems", "minItems", "maxProperties", "default", "nullable",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations",
}  # fmt: skip
DATE_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z")
# apimachinery's IsDNS1123Subdomain, IsValidLabelValue.
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?")
BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "maxLength": lambda value, bound: len(value) <= bound,
    "minLength": lambda value, bound: len(value) >= bound,
    "maxItems": lambda value, bound: len(value) <= bound,
    "maxProperties": lambda value, bound: len(value) <= bound,
    "minItems": lambda value, bound: len(value) >= bound,
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "enum": lambda value, allowed: value in allowed,
    # As the API server does it: anywhere in the text.
    "pattern": lambda value, pattern: re.search(pattern, value, re.ASCII) is not None,
    "format": lambda value, form: form != "date-time" or DATE_TIME.fullmatch(value) is not None,
}


@cache
def schema(plural: str) -> dict[str, Any]:
    """The schema of one of our kinds: `gpudevice`."""
    crd = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def problems(kind: str, obj: dict[str, Any]) -> list[str]:
    """What is wrong with an object, as an API server would say before storing it; empty for a good one."""
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    return [*_metadata(obj["metadata"]), *_value(schema(kind), rest, kind, whole=True)]


def _metadata(meta: dict[str, Any]) -> list[str]:
    name, labels = meta["name"], meta.get("labels", {})
    found = [] if len(name) <= 253 and SUBDOMAIN.fullmatch(name) else [f"name {name!r}"]
    return found + [
        f"label {key}={value!r}"
        for key, value in labels.items()
        if not isinstance(value, str) or len(value) > 63 or not LABEL.fullmatch(value)
    ]


def _value(schema: dict[str, Any], value: Any, where: str, *, whole: bool = False) -> list[str]:
    assert schema.keys() <= KNOWN, f"{where}: {schema.keys() - KNOWN}"
    kind: str = schema["type"]
    is_kind = isinstance(value, TYPES[kind])
    if not is_kind or (isinstance(value, bool) and kind != "boolean"):
        return [f"{where}: {value!r:.80} is no {kind}"]
    found = [
        f"{where}: {value!r:.80} breaks {key} {schema[key]!r:.80}"
        for key, holds in BOUNDS.items()
        if key in schema and not holds(value, schema[key])
    ]
    if kind == "object":
        found += _object(schema, value, where, whole=whole)
    if kind == "array":
        found += _array(schema, value, where)
    return found


def _object(schema: dict[str, Any], value: dict[str, Any], where: str, *, whole: bool) -> list[str]:
    declared, others = schema.get("properties", {}), schema.get("additionalProperties")
    found = [f"{where}: {key} is missing" for key in schema.get("required", ()) if key not in value]
    for key, one in value.items():
        below = declared.get(key, others)
        if below is None:
            found.append(f"{where}: {key} is not declared")
        else:
            found += _value(below, one, key if whole else f"{where}.{key}")
    return found


def _array(schema: dict[str, Any], value: list[Any], where: str) -> list[str]:
    found = [text for number, one in enumerate(value) for text in _value(schema["items"], one, f"{where}[{number}]")]
    if schema.get("x-kubernetes-list-type") == "map":
        keys = [tuple(one.get(key) for key in schema["x-kubernetes-list-map-keys"]) for one in value]
        found += [f"{where}: {key} is there twice" for key in {key for key in keys if keys.count(key) > 1}]
    return found
